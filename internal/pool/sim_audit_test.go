package pool

import (
	"cmp"
	"fmt"
	"maps"
	"reflect"
	"slices"
	"strings"
	"time"

	"github.com/leasectl/leasectl/leaseapi"
)

// audit runs all checks of everything.
func (m *sim) audit() {
	m.auditModel()
	m.auditSnapshot(m.set.Snapshot())
	m.auditPools()
	m.auditRoom()
	if got, want := m.set.usage, usageOf(m.set); !maps.Equal(got, want) {
		m.failf("callers have %v, counted %v", want, got)
	}
	if len(m.uncommitted) == 0 {
		m.auditDisk()
	}
}

// auditModel recomputes the counts of the model: a name has at most one holder, and is free,
// held or not configured.
func (m *sim) auditModel() {
	inUse := map[*modelPool]int{}
	held, locked := 0, 0
	for name, n := range m.names {
		if l := n.lease; l != nil {
			held++
			inUse[m.pools[l.Type]] += l.Units
			if l.Name != name || l.ends() <= m.now || n.lock != nil {
				m.failf("%s is held as %+v, locked %v", name, l.Lease, n.lock)
			}
		}
		if n.lock != nil {
			locked += n.lock.Units
		}
		free := 0
		for _, p := range m.order {
			for _, other := range p.free {
				if other == name {
					free++
				}
			}
		}
		if isFree := n.pool != nil && n.isFree(); (free == 1) != isFree || free > 1 {
			m.failf("%s is free %d times", name, free)
		}
	}
	if held != m.held {
		m.failf("%d leases are held, counted %d", held, m.held)
	}
	for _, p := range m.order {
		locked -= p.locked
		active := 0
		following := 0
		for _, r := range m.waiters {
			if r.pool != p {
				continue
			}
			if r.leader != nil {
				following++
			}
			if r.active && r.leader != nil {
				active++
			}
		}
		if following != p.following {
			m.failf("%s has %d followers, counted %d", p.Type, following, p.following)
		}
		for i, r := range p.queue {
			if r.isActive(m.now) != r.active || i > 0 && !stands(p.queue[i-1], r) {
				m.failf("%s has waiter %d %+v", p.Type, i, r)
			}
			if r.active {
				active++
			}
		}
		m.seen["longest queue"] = max(m.seen["longest queue"], len(p.queue))
		if inUse[p] != p.inUse || active != p.active {
			m.failf("%s: %d in use and %d active, counted %d and %d", p.Type, inUse[p], active, p.inUse, p.active)
		}
		m.auditKeys(p)
		m.settlePool(p)
	}
	if locked != 0 {
		m.failf("%d more names are locked than counted", locked)
	}
}

func (r *modelRequest) isActive(now time.Duration) bool { return r.attached > 0 || now < r.activeUntil }

// auditSnapshot compares the durable state with the sum of the changes.
func (m *sim) auditSnapshot(snap Snapshot) {
	if snap.Clock != m.now || snap.Generation != m.generation || !slices.Equal(snap.Ended, m.ended) || len(snap.Leases) != m.held {
		m.failf("snapshot at %v has generation %d, %d ended, %d leases; want %v, %d, %d, %d", snap.Clock, snap.Generation,
			len(snap.Ended), len(snap.Leases), m.now, m.generation, len(m.ended), m.held)
	}
	pauses := slices.SortedFunc(maps.Values(m.pauses), func(a, b Pause) int { return cmp.Compare(a.Type, b.Type) })
	if !slices.Equal(snap.Pauses, pauses) {
		m.failf("snapshot has pauses %+v, want %+v", snap.Pauses, pauses)
	}
	for _, l := range snap.Leases {
		if n := m.names[l.Name]; n.lease == nil || n.lease.Lease != l {
			m.failf("snapshot has %+v, want %+v", l, n.lease)
		}
	}
	m.auditRest(newDiskOf(snap))
}

// auditRest compares waiters, lock delays and paces.
func (m *sim) auditRest(d *disk) {
	waiting, locked, paced := 0, 0, 0
	for _, r := range m.waiters {
		if r.Anonymous {
			continue
		}
		waiting++
		got, ok := d.waiters[r.ID]
		if r.leader != nil && r.leader.adopted {
			got.Follows = r.waiter().Follows // noted when its leader is granted
		}
		if !ok || got != r.waiter() {
			m.failf("durable is waiter %+v, want %+v", got, r.waiter())
		}
	}
	for name, n := range m.names {
		if n.lock == nil {
			continue
		}
		locked++
		if d.locked[name] != *n.lock {
			m.failf("durable is lock %+v, want %+v", d.locked[name], *n.lock)
		}
	}
	for _, p := range m.pools {
		if p.paced.Count > 0 {
			paced++
		}
		if d.paced[p.Type] != p.paced {
			m.failf("durable is pace %+v, want %+v", d.paced[p.Type], p.paced)
		}
	}
	reported := 0
	for _, p := range m.pools {
		if p.reports.Type != "" {
			reported++
		}
		if got := d.reports[p.Type]; !reflect.DeepEqual(got, p.reports) {
			m.failf("durable is %+v, want %+v", got, p.reports)
		}
	}
	reserved := 0
	for name, n := range m.names {
		if n.reserved == nil {
			continue
		}
		reserved++
		if got := d.reserved[name]; got != *n.reserved {
			m.failf("durable is reservation %+v, want %+v", got, *n.reserved)
		}
	}
	if reserved != len(d.reserved) {
		m.failf("%d reservations are durable, want %d", len(d.reserved), reserved)
	}
	if reported != len(d.reports) {
		m.failf("reports of %d pools are durable, want %d", len(d.reports), reported)
	}
	if !maps.Equal(d.named, m.named) {
		m.failf("durable is %v of made-up names, want %v", d.named, m.named)
	}
	if waiting != len(d.waiters) || locked != len(d.locked) || paced != len(d.paced) {
		m.failf("durable are %d waiters, %d locks, %d paces; want %d, %d, %d", len(d.waiters), len(d.locked), len(d.paced), waiting, locked, paced)
	}
}

// auditDisk: a store that has only the changes equals a snapshot, except for the ends of leases
// that a restart gives their full TTL.
func (m *sim) auditDisk() {
	if m.disk.Generation != m.generation || !slices.Equal(m.disk.Ended, m.ended) || len(m.disk.leases) != m.held || !maps.Equal(m.disk.pauses, m.pauses) {
		m.failf("a store has generation %d, %d ended, %d leases; want %d, %d, %d", m.disk.Generation,
			len(m.disk.Ended), len(m.disk.leases), m.generation, len(m.ended), m.held)
	}
	for name, l := range m.disk.leases {
		want := m.names[name].lease.Lease
		if l.Broken == "" && !l.Extended {
			l.Expires = want.Expires
		}
		if l != want {
			m.failf("a store has %+v, want %+v", l, want)
		}
	}
	m.auditRest(m.disk)
}

// auditPools compares the states of pools that people see.
func (m *sim) auditPools() {
	pools := m.set.Pools(m.now)
	i := 0
	for _, p := range m.order {
		if p.gone && p.used() == 0 {
			continue
		}
		held := 0
		for _, l := range m.leases {
			if l.Type == p.Type {
				held++
			}
		}
		got := pools[i]
		i++
		if got.Type != p.Type || got.Capacity != p.capacity() || got.Limit != p.limit || got.Counted != (p.Units > 0) || got.InUse != p.used() || !m.areReserved(p, got.Reserved) || got.LockDelayed != p.locked || got.LockedFor != m.lockedFor(p) || got.Waiting != len(p.queue) || got.Following != p.following ||
			got.NextGrantIn != max(0, p.due()-m.now) || len(got.Leases) != held {
			m.failf("pool %+v, want %+v", got, p)
		}
		overtaken := 0
		if first := p.first(); first != nil {
			overtaken = p.orders()[first].Overtaken
		}
		if got.MayOvertake != p.most() || got.Overtaken != overtaken {
			m.failf("%s: %d of %d units went ahead, want %d of %d", p.Type, got.Overtaken, got.MayOvertake, overtaken, p.most())
		}
		oldest := m.now
		for _, r := range p.queue {
			oldest = min(oldest, r.arrived)
		}
		if len(p.queue) > 0 && got.OldestWaiting != m.now-oldest {
			m.failf("%s: the oldest waits for %v, want %v", p.Type, got.OldestWaiting, m.now-oldest)
		}
		if pause, paused := m.pauses[p.Type]; paused != (got.Paused != nil) || paused && *got.Paused != pause {
			m.failf("%s is paused %+v, want %+v", p.Type, got.Paused, pause)
		}
		if p.inUse > 0 && got.OldestHeld != m.now-got.Leases[0].Granted || p.inUse == 0 && got.OldestHeld != 0 {
			m.failf("%s: the oldest is held for %v", p.Type, got.OldestHeld)
		}
		m.auditWaiters(p, got.Waiters)
		for j, l := range got.Leases {
			if m.names[l.Name].lease.Lease != l || j > 0 && got.Leases[j-1].Generation >= l.Generation {
				m.failf("%s: lease %d is %+v", p.Type, j, l)
			}
		}
	}
	if i != len(pools) {
		m.failf("%d pools, want %d", len(pools), i)
	}
}

// auditWaiters: the list names every waiter, in order, and says of each what the
// model knows.
func (m *sim) auditWaiters(p *modelPool, waiters []WaiterStatus) {
	listed := slices.Clone(p.queue)
	if p.following > 0 {
		for _, l := range slices.SortedFunc(slices.Values(m.leases), func(a, b *modelLease) int { return cmp.Compare(a.Generation, b.Generation) }) {
			if l.Type == p.Type && l.request != nil && l.request.leases[0] == l {
				listed = append(listed, l.request.followers...)
			}
		}
		for _, r := range p.queue {
			listed = append(listed, r.followers...)
		}
	}
	if len(waiters) != min(len(listed), ListedWaiters) {
		m.failf("%s lists %d waiters, want %d", p.Type, len(waiters), len(listed))
	}
	orders := p.orders()
	for i, w := range waiters {
		r := listed[i]
		if _, queued := orders[r]; !queued {
			orders[r] = Order{Priority: r.priority} // it has joined a run
		}
		if r.waiter().Follows != w.Follows {
			m.failf("%s lists %+v, want that it follows %+v", p.Type, w, r.leader)
		}
		m.auditLocked(p, r, w)
		if w.ID != r.ID || w.Anonymous != r.Anonymous || w.Place != i+1 || w.Owner != r.Owner ||
			w.Units != r.in(p) || w.Order != orders[r] || r.pool == p && (w.Name != r.Name || w.Key != r.Key || w.ReadsKey != r.ReadsKey) ||
			w.Arrived != r.arrived || w.Away == (r.active && !r.missed) || !m.waitsBecause(p, r, w.Reason) || w.Estimate < 0 || w.Estimate > w.EstimateMax {
			m.failf("%s lists %+v, want %+v because of %q", p.Type, w, r, m.reason(p, r))
		}
	}
}

// auditLocked: a waiter that waits only for lock delays is told when they are over.
func (m *sim) auditLocked(p *modelPool, r *modelRequest, w WaiterStatus) {
	name, ok := strings.CutPrefix(w.Reason.String(), "lock delay of ")
	if !ok || r.pool == p && p.shuts(r) {
		return
	}
	m.count("a waiter waits for a lock delay")
	if r.in(p) > 1 && p.most() > 0 && !r.Overcommit || len(r.more) > 0 {
		return // others may go first
	}
	if most := m.names[name].lock.Until - m.now; w.EstimateMax == 0 || p.Pace == 0 && p.Adapt == nil && w.EstimateMax > most {
		m.failf("%s lists %+v, want an estimate of %v at most", p.Type, w, most)
	}
}

// waitsBecause says whether told is a true reason why r waits. Of lock delays that end at the
// same time any may be named, and of the holders of a key.
func (m *model) waitsBecause(p *modelPool, r *modelRequest, why leaseapi.WaitReason) bool {
	if why.Kind == leaseapi.WaitKey {
		if !m.isHolder(r.pool, r.Key, why.Token, why.By) {
			return false
		}
		why.Token, why.By = "", ""
	}
	told := why.String()
	if before, name, ok := strings.Cut(told, "lock delay of "); ok {
		n := m.names[name]
		if n == nil || n.lock == nil || n.lock.Type != p.Type && name != r.Name && before != "waits for "+n.lock.Type+" too: " {
			return false
		}
		told = before + lockedUntil(n.lock.Until)
	}
	return told == m.reason(p, r)
}

func lockedUntil(t time.Duration) string { return fmt.Sprint("locked until ", t) }

// locksOf are the lock delays after leases of p, in the order in which they end.
func (m *model) locksOf(p *modelPool) (locks []Locked) {
	for _, n := range m.names {
		if n.lock != nil && n.lock.Type == p.Type {
			locks = append(locks, *n.lock)
		}
	}
	slices.SortFunc(locks, func(a, b Locked) int { return cmp.Compare(a.Until, b.Until) })
	return locks
}

// lockedFor is how long it takes until p has no lock delays.
func (m *model) lockedFor(p *modelPool) time.Duration {
	if p.locked == 0 {
		return 0
	}
	locks := m.locksOf(p)
	return locks[len(locks)-1].Until - m.now
}

// fitsAfterLocks is when r fits, beside the waiters before it that hold others up, if only lock
// delays end; zero if it never does.
func (m *model) fitsAfterLocks(p *modelPool, r *modelRequest) time.Duration {
	if p.locked == 0 {
		return 0
	}
	before := 0
	for _, other := range p.queue[:p.place(r)] {
		if !other.isShut() && !other.pool.shuts(other) && !other.pool.behindWriter(other) {
			before += other.in(p)
		}
	}
	wants, taken, names := before+r.in(p), p.taken(), len(p.free)
	most := p.limit
	if r.Overcommit {
		most += p.Overcommit
	}
	for _, l := range m.locksOf(p) {
		taken -= l.Units
		if m.names[l.Name].reserved == nil {
			names += l.Units
		}
		if (wants+taken <= most || before == 0 && taken == 0) && (p.Units > 0 || wants <= names) {
			return l.Until
		}
	}
	return 0
}

// isKeyOfLease says whether a lease has the key, and not only lock delays.
func (m *model) isKeyOfLease(p *modelPool, key string) bool {
	return slices.ContainsFunc(m.leases, func(l *modelLease) bool { return l.Type == p.Type && l.heldKey() == key })
}

// freeFor is how many units p may still grant to r.
func (p *modelPool) freeFor(r *modelRequest) int {
	free := p.limit - p.taken()
	if r.Overcommit {
		free += p.Overcommit
	}
	if p.Units == 0 {
		free = min(free, len(p.free))
	}
	return free
}

// reason is why r waits, for people.
func (m *model) reason(p *modelPool, r *modelRequest) string {
	if r.leader != nil {
		return "joined"
	}
	if other, typ := m.circle(r); other != "" {
		_, owner := SplitOwner(other)
		return "waits for " + owner + ", which waits for you in " + typ
	}
	if why := m.lasting(p, r); why != "" {
		return why
	}
	if r.isShut() || r.pool != p && (r.pool.shuts(r) || r.pool.behindKey(r)) {
		return m.waitsElsewhere(p, r)
	}
	if why := m.reasonHere(p, r); why != "" || !r.active || r.missed {
		return why // none: it is only away
	}
	m.count("waits for another pool too")
	return m.waitsElsewhere(p, r)
}

// lasting is why r waits, if what may last keeps r out of p.
func (m *model) lasting(p *modelPool, r *modelRequest) string {
	pause, paused := m.pauses[p.Type]
	switch {
	case paused && !r.Overcommit:
		return "paused: " + pause.Reason
	case r.pool == p && r.Name != "" && p.shuts(r): // the name is of its first pool
		return m.whyNotFree(r.Name)
	case p.tooFew(r):
		m.count("reservations leave too few")
		return fmt.Sprintf("wants %d, %d of %d reserved", r.in(p), len(p.out), p.capacity())
	case r.in(p) > p.capacity():
		return fmt.Sprint("wants ", r.in(p))
	}
	return ""
}

// reasonHere is why r waits in p as p is now.
func (m *model) reasonHere(p *modelPool, r *modelRequest) string {
	first := p.first()
	if r.active && !r.missed && (first == nil || stands(r, first)) {
		first = r // another pool has no room for it
	}
	free := p.freeFor(r)
	switch {
	case r.pool == p && p.shuts(r) && !m.isKeyOfLease(p, r.Key):
		locks := m.locksOf(p)
		locks = slices.DeleteFunc(locks, func(l Locked) bool { return l.Key != r.Key })
		return lockedUntil(locks[len(locks)-1].Until)
	case r.pool == p && p.shuts(r):
		return "key"
	case r.pool == p && p.behindWriter(r):
		m.count("behind a writer")
		return "behind a writer"
	case free <= 0 && m.fitsAfterLocks(p, r) > 0:
		return lockedUntil(m.fitsAfterLocks(p, r))
	case free <= 0:
		return "full"
	case p.due() > m.now && !r.Overcommit && (first == nil || p.fits(first) || p.fits(r) && p.mayPass(r, p.candidatesBefore(r))):
		return "paced"
	case !p.fits(r) && (!r.active || r.missed || p.mayPass(r, p.candidatesBefore(r))) && m.fitsAfterLocks(p, r) > 0:
		return lockedUntil(m.fitsAfterLocks(p, r))
	case !p.fits(r) && (!r.active || r.missed || p.mayPass(r, p.candidatesBefore(r))):
		return fmt.Sprint("wants ", r.in(p))
	case !r.active || r.missed || r.several() && p.fits(r) && p.mayPass(r, p.candidatesBefore(r)):
		return ""
	}
	return "behind"
}

// status asks for one request, and compares everything in the answer.
func (m *sim) status() {
	if len(m.waiters) == 0 {
		return
	}
	r := m.waiters[m.rand.IntN(len(m.waiters))]
	st, ok := m.set.Status(m.now, r.ID)
	p := r.pool
	if st.Follows != r.waiter().Follows || (st.State == StateJoined) != !r.lead().queued {
		m.failf("status of %s is %+v, want it to follow %+v", r.ID, st, r.leader)
	}
	if r.leader != nil {
		return
	}
	want := Status{
		State: StateQueued, Place: p.place(r) + 1, Length: len(p.queue), InUse: p.used(), Name: r.Name, Capacity: p.capacity(),
		Limit: p.limit, Units: r.units, Key: r.Key,
	}
	if st.Oldest != nil != (p.inUse > 0) || st.Oldest != nil && m.names[st.Oldest.Name].lease.Lease != *st.Oldest {
		m.failf("oldest of %s is %+v", p.Type, st.Oldest)
	}
	if st.Estimate < 0 || st.Estimate > st.EstimateMax {
		m.failf("estimate %v to %v", st.Estimate, st.EstimateMax)
	}
	if !m.waitsBecause(p, r, st.Reason) {
		m.failf("%s waits because of %q, want %q", r.ID, st.Reason, m.reason(p, r))
	}
	if !ok || st.State != want.State || st.Place != want.Place || st.Length != want.Length || st.InUse != want.InUse ||
		st.Order != p.orders()[r] || st.Capacity != want.Capacity || st.Limit != want.Limit || st.Units != want.Units || st.Name != want.Name || st.Key != want.Key || st.ReadsKey != r.ReadsKey {
		m.failf("status of %s is %+v, want %+v", r.ID, st, want)
	}
}

// auditKeys: a key is held by the leases of one request, or of several that read it, and by their
// lock delays.
func (m *sim) auditKeys(p *modelPool) {
	holders := map[string]uint64{} // the lowest generation of a request
	counts, reads := map[string]int{}, map[string]int{}
	for _, l := range m.leases {
		if l.Type != p.Type || l.heldKey() == "" {
			continue
		}
		counts[l.Key]++
		if l.ReadsKey {
			reads[l.Key]++
			continue
		}
		first := l.Generation
		if l.request != nil {
			first = l.request.leases[0].Generation
		} else if l.Count > 1 {
			continue // of one request, but it is not known which
		}
		if other, ok := holders[l.Key]; ok && other != first {
			m.failf("%s: key %q is held by the leases of %d and %d", p.Type, l.Key, other, first)
		}
		holders[l.Key] = first
	}
	for _, n := range m.names {
		if n.lock != nil && n.lock.Type == p.Type && n.lock.Key != "" {
			counts[n.lock.Key]++
			if n.lock.ReadsKey {
				reads[n.lock.Key]++
			}
		}
	}
	for key, n := range p.keys {
		if counts[key] != n || p.written[key] != n-reads[key] {
			m.failf("%s: %d hold key %q, %d to write, counted %d and %d readers", p.Type, n, key, p.written[key], counts[key], reads[key])
		}
		if reads[key] > 0 && reads[key] < n {
			m.failf("%s: %d readers hold key %q beside %d writers", p.Type, reads[key], key, n-reads[key])
		}
	}
}
