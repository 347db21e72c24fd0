package pool

import (
	"cmp"
	"fmt"
	"maps"
	"slices"
	"time"
)

// Snapshot is the durable part of a [Set]. Waiters without an id are not in it, nor is the
// configuration, nor why leases ended: renewing a lease that ended before a restart gives
// [Unknown].
type Snapshot struct {
	Clock      time.Duration
	Generation uint64 // the last one given
	Leases     []Lease
	Ended      []Ended
	Waiters    []Waiter
	Locked     []Locked
	Paced      []Pacing
	Named      []Naming
	Pauses     []Pause
	Reserved   []Reservation
	Reports    []Reports
}

// New returns the pools of configs with what snapshot holds.
//
// Leases get their full TTL, or [ProvisionalTTL] if provisional, from the clock of the snapshot
// on; but only once: a lease that was not renewed since the last restart keeps the end that it
// got then. A pending release, a lock delay and the end of a broken lease keep their times. A
// lease whose name or type is no longer configured stays held until it ends. A pace goes on
// from the last grant.
//
// The queue keeps its order. Each waiter has [PlaceKept] to come back. Until then it holds back
// the waiters behind it, for [HoldBack] at most. Further restarts do not begin these times
// anew. The changes that New itself makes are in the first [Set.Drain].
//
// A step of priority is worth aging, a time of waiting: a request of priority 3 stands where one of
// priority 0 would that came three times the aging earlier. Without aging, which is
// zero, all of a higher priority go before all of a lower one.
//
// An error says everything that is wrong with configs, or where the snapshot contradicts
// itself.
func New(configs []Config, snapshot Snapshot, aging time.Duration) (*Set, error) {
	if err := Check(configs); err != nil {
		return nil, err
	}
	s := &Set{newLedger(snapshot.Clock, snapshot.Generation)}
	s.aging = aging
	reserved, err := s.restore(snapshot)
	if err != nil {
		return nil, fmt.Errorf("restore leases: %w", err)
	}
	s.configure(configs)
	s.noteOutOfPools(reserved)
	s.compensate()
	s.Advance(s.now)
	return s, nil
}

// Snapshot returns the durable state: the sum of the changes so far.
func (s *Set) Snapshot() Snapshot {
	snap := Snapshot{Clock: s.now, Generation: s.generation, Ended: s.ended.all()}
	for _, p := range s.pools {
		snap.Leases = append(snap.Leases, valuesOf(p.byGrant())...)
		for _, r := range p.waiters() {
			if !r.Anonymous {
				snap.Waiters = append(snap.Waiters, r.waiter())
			}
		}
		if p.pacing.Count > 0 {
			snap.Paced = append(snap.Paced, p.pacing)
		}
		if reports := p.limit.reports; reports.Type != "" {
			reports.Tally = slices.Clone(reports.Tally)
			snap.Reports = append(snap.Reports, reports)
		}
	}
	for typ, last := range s.named {
		snap.Named = append(snap.Named, Naming{Type: typ, Last: last})
	}
	slices.SortFunc(snap.Named, func(a, b Naming) int { return cmp.Compare(a.Type, b.Type) })
	for _, sl := range s.slots {
		if sl.lock != nil {
			snap.Locked = append(snap.Locked, sl.lock.Locked)
		}
	}
	slices.SortFunc(snap.Locked, compareLocked)
	for _, sl := range s.slots {
		if sl.reserved != nil {
			snap.Reserved = append(snap.Reserved, sl.reserved.Reservation)
		}
	}
	slices.SortFunc(snap.Reserved, compareReserved)
	snap.Pauses = slices.SortedFunc(maps.Values(s.pauses), func(a, b Pause) int { return cmp.Compare(a.Type, b.Type) })
	return snap
}

// restore loads snapshot, as if nothing was configured, and returns the names that are reserved.
func (g *ledger) restore(snapshot Snapshot) (reserved []*slot, err error) {
	byType := func(a, b Pacing) int { return cmp.Compare(a.Type, b.Type) }
	for _, paced := range slices.SortedFunc(slices.Values(snapshot.Paced), byType) {
		p := g.pool(paced.Type)
		p.pacing = paced
		p.rhythm = rhythm{start: paced.Start, count: paced.Count, generation: paced.Generation}
	}
	for _, reports := range slices.SortedFunc(slices.Values(snapshot.Reports), func(a, b Reports) int { return cmp.Compare(a.Type, b.Type) }) {
		if reports.Type == "" {
			return nil, fmt.Errorf("reports %+v are incomplete", reports)
		}
		reports.Tally = slices.Clone(reports.Tally)
		g.pool(reports.Type).limit.reports = reports
	}
	for _, n := range snapshot.Named {
		g.named[n.Type] = n.Last
	}
	if err := g.restoreLeases(snapshot); err != nil {
		return nil, err
	}
	for _, l := range slices.SortedFunc(slices.Values(snapshot.Locked), compareLocked) {
		sl := g.slot(l.Name)
		if !sl.free() {
			return nil, fmt.Errorf("name %q is held, or there twice, and has a lock delay", l.Name)
		}
		g.restoreLock(sl, g.pool(l.Type), l)
	}
	for _, r := range slices.SortedFunc(slices.Values(snapshot.Reserved), compareReserved) {
		if r.Name == "" || g.slots[r.Name] != nil && g.slots[r.Name].reserved != nil {
			return nil, fmt.Errorf("reservation %+v is incomplete, or there twice", r)
		}
		g.setReserved(g.slot(r.Name), r)
		reserved = append(reserved, g.slots[r.Name])
	}
	return reserved, g.restoreRequests(snapshot)
}

// restoreLeases loads the leases.
func (g *ledger) restoreLeases(snapshot Snapshot) error {
	// A snapshot may be in any order: its maker may have iterated over a map.
	leases := slices.SortedFunc(slices.Values(snapshot.Leases), func(a, b Lease) int {
		return cmp.Compare(a.Generation, b.Generation)
	})
	for i, l := range leases {
		switch {
		case l.Name == "" || l.Type == "" || l.Units < 1 || l.TTL <= 0 || l.Generation == 0:
			return fmt.Errorf("lease %+v is incomplete", l)
		case i > 0 && leases[i-1].Generation == l.Generation:
			return fmt.Errorf("two leases have generation %d", l.Generation)
		case g.slots[l.Name] != nil && g.slots[l.Name].lease != nil:
			return fmt.Errorf("name %q is held twice", l.Name)
		}
		g.generation = max(g.generation, l.Generation)
		g.restoreLease(l)
	}
	return nil
}

// restoreRequests loads the requests that have ended, those that wait, and the pauses.
func (g *ledger) restoreRequests(snapshot Snapshot) error {
	for _, pause := range snapshot.Pauses {
		g.pauses[pause.Type] = pause
	}
	ended := slices.SortedFunc(slices.Values(snapshot.Ended), func(a, b Ended) int {
		return cmp.Or(cmp.Compare(a.Until, b.Until), cmp.Compare(a.ID, b.ID))
	})
	for _, e := range ended {
		if g.ended.has(e.ID) || g.requests.get(e.ID) != nil {
			return fmt.Errorf("request %q is there twice", e.ID)
		}
		g.ended.push(e)
	}
	waiters := slices.SortedFunc(slices.Values(snapshot.Waiters), func(a, b Waiter) int {
		return cmp.Or(cmp.Compare(a.Arrival, b.Arrival), cmp.Compare(a.ID, b.ID))
	})
	for _, w := range waiters {
		switch {
		case w.ID == "" || w.Type == "" || w.Units < 1:
			return fmt.Errorf("waiter %+v is incomplete", w)
		case g.ended.has(w.ID) || g.requests.get(w.ID) != nil:
			return fmt.Errorf("request %q is there twice", w.ID)
		}
		g.restoreWaiter(w)
	}
	return nil
}

// restoreWaiter puts a waiter into its queue. A waiter that was missed before the restart stays
// missed. [ledger.compensate] makes the others missed.
func (g *ledger) restoreWaiter(w Waiter) {
	r := &request{
		Request: w.Request, units: w.Units, pool: g.pool(w.Type), arrival: w.Arrival, arrived: w.Arrived,
		priority: w.PriorityNow, older: w.Older, overtaken: w.Overtaken, stored: w.Passed,
	}
	units := make(map[string]int)
	for _, a := range (Ask{Also: w.AlsoUnits}).Others() {
		units[a.Type] = a.Count
	}
	for _, a := range w.Others() {
		r.addSeat(g.pool(a.Type), a, max(units[a.Type], 1)) // with units it cannot fail
	}
	r.passed = parsePassed(w.Passed, len(r.passed))
	if w.Name != "" {
		r.slot = g.slot(w.Name)
	}
	r.rank, r.standing = g.bestRank(r)
	g.restorePlace(r, g.requests.get(w.Follows))
	if w.KeptUntil > 0 {
		r.missed, r.activeUntil, r.keptUntil = true, w.HoldsUntil, w.KeptUntil
		g.activate(r)
		g.schedule(&r.timer, r.activeUntil)
	}
	switch now := r.waiter(); {
	case now.Follows != "" && now.Follows != w.Follows:
		g.noteWaiter(Joined, r)
	case now.Follows != w.Follows || now.Arrival != w.Arrival:
		g.noteWaiter(Queued, r)
	}
}

// restorePlace gives r its place; earlier arrivals have theirs already. If r had joined a run
// whose leases are still held, it stays joined to that run. Otherwise its [Coalesce] decides
// again whom it joins: the leader may be one that another has replaced, and whose id another request has.
// A restart supersedes nobody: a waiter whose place another took has left the queue.
func (g *ledger) restorePlace(r, leader *request) {
	g.register(r)
	if leader == nil || leader.queued() || leader.pool != r.pool || leader.Key != r.Key || leader.Variant != r.Variant {
		leader = r.pool.mergedInto(r)
	}
	if leader == nil || r.Coalesce == Latest {
		g.addToQueue(r)
	} else {
		g.follow(leader, r)
	}
}

// restoreLease makes l held again, and its request known.
func (g *ledger) restoreLease(l Lease) {
	p := g.pool(l.Type)
	p.rhythm.resume(&l, g.now)
	var r *request
	if l.RequestID != "" {
		if r = g.requests.get(l.RequestID); r == nil {
			asked := Request{ID: l.RequestID, Type: cmp.Or(l.AskedType, l.Type), Owner: l.Owner, TTL: l.TTL, Ask: l.Ask}
			r = &request{Request: asked, pool: g.pool(asked.Type), said: l.Outcome, lost: l.OtherLost, units: max(l.Count, 1)}
			g.requests.add(r)
		}
	}
	g.install(&lease{Lease: l, slot: g.slot(l.Name), pool: p, request: r})
}

// Stalled says that the server could not act for a while, until now: it was stopped or starved,
// or its machine was paused. Clients that renewed, or came back to their place, were not heard.
// So a stall is treated like a restart: see [New]. Stalled must be the first call with this
// now: any other call would first end what is overdue.
func (s *Set) Stalled(now time.Duration) {
	s.now = max(s.now, now)
	s.compensate()
	s.Advance(s.now)
}

// compensate makes up for a time in which no client was heard: leases get their full TTL
// again, and waiters get time to come back.
func (g *ledger) compensate() {
	n := 0
	for _, p := range g.pools {
		n += p.held.Len() + len(p.queue) + p.following
	}
	g.changes = slices.Grow(g.changes, n) // they are many, and large
	for _, p := range g.pools {
		for _, l := range p.byGrant() {
			g.extend(l)
		}
		for _, r := range p.waiters() {
			g.miss(r)
		}
	}
}

// extend gives l its full TTL again, since nobody could renew it for a while. It does so only
// once until somebody renews l: otherwise restarts would keep the lease of a dead holder alive.
func (g *ledger) extend(l *lease) {
	if l.Broken != "" || l.Extended {
		return
	}
	ttl := l.TTL
	if l.Provisional {
		ttl = ProvisionalTTL
	}
	l.Expires, l.Extended = later(g.now, ttl), true
	g.schedule(&l.timer, l.Ends())
	g.note(Extended).Lease = l.Lease
}

// miss makes r wait for its client, which could not reach the server for a while, unless a
// connection is attached to r, or r has been missed before.
func (g *ledger) miss(r *request) {
	if r.attached > 0 || r.missed {
		return
	}
	r.missed = true
	r.activeUntil, r.keptUntil = later(g.now, HoldBack), later(g.now, PlaceKept)
	g.activate(r)
	g.leave(r)
	g.noteWaiter(Missed, r)
}
