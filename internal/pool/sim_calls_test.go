package pool

import (
	"cmp"
	"errors"
	"slices"
	"strings"
	"time"
)

// Every call is made in the same way: the model says what the call must do, then comes the
// call, then a check that it did so.

// do makes a call, at times with a clock that went back, and applies what changed.
func (m *sim) do(call func(now time.Duration)) []Change {
	if m.rand.IntN(20) == 0 { // the wall clock goes its own way
		m.wall = simWall.Add(m.clock + time.Duration(m.rand.IntN(10_000)-5_000)*time.Millisecond)
	}
	return m.doAtWall(call)
}

// doAtWall is do while the wall clock stands still.
func (m *sim) doAtWall(call func(now time.Duration)) []Change {
	now := m.now
	m.set.SetWall(m.wall)
	if m.rand.IntN(50) == 0 {
		now = max(0, now-time.Duration(m.rand.Int64N(int64(time.Hour))))
	}
	call(now)
	return m.take()
}

func (m *sim) take() []Change {
	changes := m.set.Drain()
	m.apply(changes)
	m.seePairs(changes)
	for _, p := range m.order {
		if p.dirty { // else nothing has changed since
			p.delays = p.limitDelays()
		}
	}
	for _, c := range changes {
		if c.Kind != Granted {
			continue
		}
		if o := m.byName[c.Leases[0].Owner]; o != nil && m.rand.IntN(8) > 0 {
			m.soon = append(m.soon, o)
		}
	}
	if m.record {
		m.recorded = append(m.recorded, words(changes)...)
	}
	m.uncommitted = append(m.uncommitted, changes...)
	if m.lossy == 0 {
		m.disk.commit(m.now, m.failf, m.uncommitted)
		m.uncommitted = m.uncommitted[:0]
	}
	return changes
}

func (m *sim) mustBe(got, want error) {
	if removed := new(RemovedError); errors.As(want, &removed) {
		m.count("asked again after a removal")
	} else if got != nil && want != nil {
		m.count(want.Error())
	}
	if !sameError(got, want) {
		m.failf("error %v, want %v", got, want)
	}
}

// simWall is what the wall clock shows at the start of a simulation.
var simWall = time.Date(2026, 11, 26, 12, 0, 0, 0, time.UTC)

func (m *sim) acquire(q Request) {
	m.logf("acquire %+v", q)
	if !q.Weighted {
		q.Count = max(q.Count, 1)
	}
	r := m.requests[q.ID]
	want := m.expectAcquire(r, q, false)
	var leases []Lease
	var err error
	changes := m.do(func(now time.Duration) { leases, err = m.set.Acquire(now, q) })
	m.mustBe(err, want)
	m.mustTell(r, q, want, leases, changes)
}

// reacquire acquires in the place of leases. Either the request is taken, and all of them that are
// held have ended; or it is refused, and none has.
func (m *sim) reacquire(q Request, replaces []Ref) {
	m.logf("reacquire %+v in the place of %+v", q, replaces)
	if !q.Weighted {
		q.Count = max(q.Count, 1)
	}
	r := m.requests[q.ID]
	isNew := r == nil && m.isEnded[q.ID] == nil
	var want error
	var wantStale []Stale
	var own []*modelLease
	for _, ref := range replaces {
		n := m.names[ref.Name]
		held := n != nil && n.lease != nil && n.lease.isMeant(ref)
		switch {
		case !isNew:
		case !held:
			wantStale = append(wantStale, Stale{ref, m.lost(ref)})
		case want == nil && !ownersAgree(n.lease.Owner, q.Owner):
			want = ErrNotOwn
		default:
			own = append(own, n.lease)
		}
	}
	if want == nil {
		want = m.expectAcquire(r, q, true)
	}
	switch {
	case isNew && want != nil:
		wantStale = nil
		m.count("refused to replace")
	case isNew:
		for _, l := range own {
			m.ending[l] = Released
			m.count("replaced")
		}
		for range wantStale {
			m.count("replaced in vain")
		}
	}
	var leases []Lease
	var stale []Stale
	var err error
	changes := m.do(func(now time.Duration) { leases, stale, err = m.set.Reacquire(now, q, replaces) })
	m.mustBe(err, want)
	if !slices.Equal(stale, wantStale) {
		m.failf("stale are %+v, want %+v", stale, wantStale)
	}
	if len(m.ending) > 0 {
		m.failf("%d leases were to be replaced, and are held", len(m.ending))
	}
	m.mustTell(r, q, want, leases, changes)
}

// mustTell checks the leases that an acquire with q returned. r is the request with this id before
// the call, if there was one.
func (m *sim) mustTell(r *modelRequest, q Request, want error, leases []Lease, changes []Change) {
	var wantLeases []Lease
	i := slices.IndexFunc(changes, func(c Change) bool { return c.Kind == Granted && c.ID == q.ID })
	switch {
	case want != nil:
	case i >= 0:
		wantLeases = changes[i].Leases
	case r != nil && !r.queued:
		for _, l := range r.leases {
			wantLeases = append(wantLeases, l.Lease)
		}
	case m.asking != nil:
		m.failf("%s was neither granted nor queued", q.ID)
	}
	if !slices.Equal(leases, wantLeases) {
		m.failf("%s was told %+v, want %+v", q.ID, leases, wantLeases)
	}
}

// expectAcquire does to the model what an Acquire does before a grant, and returns its error. r
// is the request with this id, if there is one. A new request with queue set goes through the
// queue, even if it can be granted at once.
func (m *sim) expectAcquire(r *modelRequest, q Request, queue bool) error {
	p := m.pools[q.Type]
	switch {
	case r != nil && !isSame(r.Request, q):
		return ErrConflict
	case r != nil && r.queued:
		r.attached++
		r.activeUntil, r.missed = 0, false
		m.comes(r)
		if next, _ := p.whoGoes(nil); q.Try && (next.turn() != r || !m.mayGo(r)) {
			m.leaving[q.ID] = ErrExhausted
			return ErrExhausted
		}
		return nil
	case r != nil:
		for _, l := range r.leases {
			if l.Provisional && l.Broken == "" {
				l.Expires, l.Extended = m.now+modelProvisional, false
				m.times.lease(l)
			}
		}
		return nil
	case m.isEnded[q.ID] != nil:
		return m.isEnded[q.ID]
	case p == nil || p.gone:
		return ErrUnknownType
	}
	asking := &modelRequest{Request: q, pool: p, placed: m.now, priority: q.Priority}
	if !m.addWants(asking, q.Also, false) {
		return ErrUnknownType
	}
	units, err := p.unitsOf(q)
	asking.units = units
	switch {
	case err != nil:
		return err
	case slices.ContainsFunc(asking.wants(), func(w want) bool { return w.units > w.pool.capacity() }):
		return ErrTooMany
	case q.Name != "" && (p.Units > 0 || units != 1 || q.Key != "" || q.Coalesce != 0):
		return ErrOneName
	case q.Name != "" && (m.names[q.Name] == nil || m.names[q.Name].pool != p):
		return ErrNotInPool
	case p.Units > 0 && !q.Weighted && q.Count > maxMadeUp:
		return ErrTooMany
	case q.Overcommit && p.Overcommit == 0:
		return ErrNoOvercommit
	}
	asking.arrival = m.arrivals + 1
	partner := p.partner(m.model, asking)
	if q.Try {
		partner = nil
	}
	if next, _ := p.whoGoes(asking); partner != nil || queue || next != asking || !m.mayGo(asking) {
		if q.Try {
			return ErrExhausted
		}
		supersedes := partner != nil && q.Coalesce == Latest
		if !supersedes && slices.ContainsFunc(asking.wants(), func(w want) bool {
			return w.pool.MaxWaiters > 0 && len(w.pool.queue)+w.pool.following >= w.pool.MaxWaiters
		}) {
			return ErrQueueFull
		}
		if supersedes {
			m.count("superseded")
			asking.takes = partner
			m.leaving[partner.ID] = &CoalescedError{Superseded}
			m.results[partner.ID] = Superseded
		} else if asking.joins = partner; partner != nil {
			m.count("joined")
		}
	}
	if q.Anonymous && q.TTL == 0 && p.V1TTL > 0 {
		q.TTL = p.V1TTL
	}
	asking.TTL = q.TTL
	asking.TTL = asking.ttl()
	m.asking = asking
	return nil
}

// isSame says whether two requests with one id are equal.
func isSame(a, b Request) bool {
	a.ID, a.TTL, a.Anonymous, a.Try = b.ID, b.TTL, b.Anonymous, b.Try
	return a == b
}

func (m *sim) detach(id string, linger time.Duration) {
	m.logf("detach %s linger %v", id, linger)
	if r := m.requests[id]; r != nil && r.queued && r.attached > 0 {
		r.attached--
		r.activeUntil = max(r.activeUntil, m.now+linger)
		switch {
		case r.attached > 0:
		case r.Anonymous:
			m.leaving[id] = nil
		default:
			r.keptUntil = m.now + modelPlaceKept
			if r.activeUntil <= m.now {
				m.goes(r)
			}
			m.times.alone(r)
		}
	}
	m.do(func(now time.Duration) { m.set.Detach(now, id, linger) })
}

func (m *sim) withdraw(id string) {
	m.logf("withdraw %s", id)
	r := m.requests[id]
	queued := r != nil && r.queued && r.lead().queued
	if queued {
		m.leaving[id] = ErrExhausted
	}
	m.do(func(now time.Duration) {
		if m.set.Withdraw(now, id) != queued {
			m.failf("withdraw of %s: %v, want %v", id, !queued, queued)
		}
	})
}

func (m *sim) cancel(id string) {
	m.logf("cancel %s", id)
	var want []string
	if r := m.requests[id]; r != nil && r.queued {
		m.leaving[id] = ErrEnded
	} else if r != nil {
		for _, l := range r.leases {
			m.ending[l] = Released
			want = append(want, l.Name)
		}
	}
	var names []string
	m.do(func(now time.Duration) { names = m.set.Cancel(now, id) })
	if !slices.Equal(names, want) {
		m.failf("cancel of %s released %q, want %q", id, names, want)
	}
	if m.isEnded[id] == nil {
		m.failf("%s was cancelled and is not remembered", id)
	}
}

// releaseAll releases the leases and waiters of all owners with that last digit.
func (m *sim) releaseAll(digit string) {
	m.logf("release all of owners with a %s", digit)
	meant := func(owner string) bool { return strings.HasSuffix(owner, digit) }
	var waiting []*modelRequest
	for _, r := range m.waiters {
		if meant(r.Owner) {
			m.leaving[r.ID] = ErrEnded
			waiting = append(waiting, r)
		}
	}
	var held []*modelLease
	for _, l := range m.leases {
		if meant(l.Owner) {
			m.ending[l] = Released
			held = append(held, l)
		}
	}
	slices.SortFunc(held, func(a, b *modelLease) int { return cmp.Compare(a.Generation, b.Generation) })
	var want, names []string
	for _, l := range held {
		want = append(want, l.Name)
	}
	var withdrawn int
	m.do(func(now time.Duration) { names, withdrawn = m.set.ReleaseAll(now, meant) })
	if !slices.Equal(names, want) || withdrawn != len(waiting) {
		m.failf("all of owners with a %s: released %q, want %q; withdrew %d, want %d", digit, names, want, withdrawn, len(waiting))
	}
	for _, r := range waiting {
		m.count("all released")
		if !r.Anonymous && m.isEnded[r.ID] == nil {
			m.failf("%s was taken off with all of its owner and is not remembered", r.ID)
		}
	}
}

// lost is why a renewal with ref fails; empty if it does not.
func (m *sim) lost(ref Ref) Reason {
	n := m.names[ref.Name]
	switch {
	case n == nil:
		return Unknown
	case n.lease != nil && !n.lease.isMeant(ref):
		return n.lease.why(ref)
	case n.lease != nil && n.lease.Broken != "":
		return Reason("broken: " + n.lease.Broken)
	case n.lease != nil:
		return ""
	case n.lastGeneration > 0 && (ref.Generation == 0 || ref.Generation == n.lastGeneration):
		return n.lastReason
	case ref.Generation > 0 && ref.Generation < n.lastGeneration:
		return Other
	}
	return Unknown
}

func (m *sim) renew(ref Ref, ttl time.Duration) {
	m.logf("renew %+v for %v", ref, ttl)
	var want Lease
	wantWhy := m.lost(ref)
	if wantWhy == "" {
		l := m.names[ref.Name].lease
		l.Provisional, l.Extended = false, false
		if ttl == 0 {
			ttl = l.TTL
		}
		l.TTL = m.pools[l.Type].ttl(ttl)
		l.Expires = m.now + l.TTL
		m.times.lease(l)
		want = l.Lease
	} else {
		m.count("renewal lost")
	}
	m.do(func(now time.Duration) {
		if l, why := m.set.Renew(now, ref, ttl); l != want || why != wantWhy {
			m.failf("renewed %+v, %q, want %+v, %q", l, why, want, wantWhy)
		}
	})
}

func (m *sim) release(ref Ref, delay time.Duration) {
	m.logf("release %+v after %v", ref, delay)
	n := m.names[ref.Name]
	want := Reason("")
	switch {
	case !m.isKnown(ref.Name):
		want = Unknown
	case m.isOfReservation(n, ref):
		want = m.releaseReserved(n, ref, delay)
	case n == nil || n.lease == nil:
	case !n.lease.isMeant(ref):
		want = n.lease.why(ref)
		m.count("stale release")
		m.count(string(want))
	case delay <= 0:
		m.ending[n.lease] = Released
	default:
		l := n.lease
		at := m.now + delay
		if l.Broken != "" {
			at = min(at, l.ends())
		}
		l.ReleaseAt, l.Provisional = at, false
		m.times.lease(l)
	}
	m.do(func(now time.Duration) {
		if why := m.set.Release(now, ref, delay); why != want {
			m.failf("release of %+v: %q, want %q", ref, why, want)
		}
	})
}

// finish releases a lease whose command ended by itself.
func (m *sim) finish(ref Ref, result Result) {
	m.logf("finish %+v: %d", ref, result)
	n := m.names[ref.Name]
	want := Reason("")
	switch {
	case !m.isKnown(ref.Name):
		want = Unknown
	case m.isOfReservation(n, ref):
		want = m.releaseReserved(n, ref, 0)
	case n == nil || n.lease == nil:
	case !n.lease.isMeant(ref):
		want = n.lease.why(ref)
	default:
		if r := n.lease.request; r != nil {
			r.result = result
			defer func() { r.result = 0 }()
		}
		m.ending[n.lease] = Released
	}
	m.do(func(now time.Duration) {
		if why := m.set.Finish(now, ref, result); why != want {
			m.failf("finish of %+v: %q, want %q", ref, why, want)
		}
	})
}

func (m *sim) breakLease(name, why string, immediately bool) {
	m.logf("break %s %q immediately %v", name, why, immediately)
	n := m.names[name]
	var want error
	switch {
	case !m.isKnown(name):
		want = ErrUnknownName
	case n == nil || n.lease == nil:
		want = ErrNotHeld
	default:
		n.lease.Broken = why
		if immediately {
			m.ending[n.lease] = Reason("broken: " + why)
		} else if l := n.lease; l.ReleaseAt > m.now+l.TTL {
			l.ReleaseAt, l.Expires = 0, m.now+l.TTL
			m.times.lease(l)
			m.count("break before a late release")
		}
	}
	var err error
	m.do(func(now time.Duration) { _, err = m.set.Break(now, name, Act{Reason: why}, immediately) })
	m.mustBe(err, want)
}

// waiter returns a request that waits, or the error for an operator who takes another for one.
func (m *sim) waiter(id string) (*modelRequest, error) {
	switch r := m.requests[id]; {
	case r == nil && m.isEnded[id] != nil:
		return nil, m.isEnded[id]
	case r == nil:
		return nil, ErrUnknownRequest
	case !r.queued:
		return nil, ErrNotQueued
	default:
		return r, nil
	}
}

func (m *sim) removeWaiter(id, why string) {
	m.logf("remove %s %q", id, why)
	r, want := m.waiter(id)
	if want == nil {
		m.count("removed")
		m.leaving[id] = &RemovedError{why}
		if !r.Anonymous {
			m.removing[id] = why
		}
	}
	var err error
	m.do(func(now time.Duration) { _, err = m.set.Remove(now, id, Act{Reason: why}) })
	m.mustBe(err, want)
	if len(m.removing) > 0 {
		m.failf("%s was removed and is not remembered", id)
	}
}

func (m *sim) move(id string, priority int) {
	m.logf("move %s to %d", id, priority)
	r, want := m.waiter(id)
	before := 0
	if want == nil {
		before, r.priority = r.priority, priority
		for _, w := range r.wants() {
			w.pool.sort()
			w.pool.dirty = true
		}
	}
	changes := m.do(func(now time.Duration) {
		w, was, err := m.set.Move(now, id, priority, Act{Reason: "reason"})
		if m.mustBe(err, want); was != before || err == nil && w.ID != id {
			m.failf("moved %+v from %d, want %d", w, was, before)
		}
	})
	if noted := slices.ContainsFunc(changes, func(c Change) bool { return c.Kind == Moved }); noted != (want == nil) {
		m.failf("the move of %s was noted: %v", id, noted)
	}
}

func (m *sim) pause(typ, why string) {
	m.logf("pause %s %q", typ, why)
	p := m.pools[typ]
	before, paused := m.pauses[typ]
	var want error
	pause := Pause{Type: typ, Reason: why, Since: m.now}
	if paused {
		pause.Since = before.Since
	}
	if p == nil || p.gone {
		want, pause = ErrUnknownType, Pause{}
	} else {
		m.count("paused")
		m.pauses[typ] = pause
		p.dirty = true
	}
	changes := m.do(func(now time.Duration) {
		got, err := m.set.Pause(now, typ, Act{Reason: why})
		if m.mustBe(err, want); got != pause {
			m.failf("%+v, want %+v", got, pause)
		}
	})
	if told := slices.ContainsFunc(changes, func(c Change) bool { return c.Kind == Paused }); told != (want == nil) {
		m.failf("the pause of %s was noted: %v", typ, told)
	}
}

func (m *sim) resume(typ string) {
	m.logf("resume %s", typ)
	p := m.pools[typ]
	before, paused := m.pauses[typ]
	var want error
	if (p == nil || p.gone) && !paused {
		want = ErrUnknownType
	}
	delete(m.pauses, typ)
	if p != nil {
		p.dirty = true
	}
	changes := m.do(func(now time.Duration) {
		got, err := m.set.Resume(now, typ, Act{})
		if m.mustBe(err, want); got != before {
			m.failf("%+v, want %+v", got, before)
		}
	})
	if told := slices.ContainsFunc(changes, func(c Change) bool { return c.Kind == Resumed }); told != paused {
		m.failf("the end of the pause of %s was noted: %v", typ, told)
	}
}

func (m *sim) reconfigure(configs []Config) {
	m.logf("reconfigure %+v", configs)
	m.count("reconfigurations")
	m.configure(configs)
	m.do(func(now time.Duration) {
		if err := m.set.Reconfigure(now, configs); err != nil {
			m.failf("reconfigure: %v", err)
		}
	})
}

// misconfigure tries invalid configs.
func (m *sim) misconfigure(configs []Config) {
	m.logf("reconfigure, not valid")
	changes := m.do(func(now time.Duration) {
		if err := m.set.Reconfigure(now, configs); err == nil {
			m.failf("a configuration with a name twice was taken")
		}
	})
	if len(changes) > 0 {
		m.failf("a configuration that is not valid changed %q", words(changes))
	}
}
