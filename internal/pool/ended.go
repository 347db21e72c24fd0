package pool

import "time"

// Ended is a request id that never gets a lease again.
type Ended struct {
	ID    string
	Until time.Duration // on the lease clock: when it is forgotten
	// Unconfirmed: its grant expired before a renewal confirmed it. Nobody gave the grant back
	// or cancelled it.
	Unconfirmed bool
	Unseen      bool       // it was cancelled before it came: see [MaxUnseen] and [MaxAllUnseen]
	Result      Result     // of the request that it had merged with; zero: it ended otherwise
	Removed     string     // why an operator took it off the queue; empty: no operator did
	Lease       EndedLease // the last lease that it held; zero: none
}

// remember adds e, which ends now, and forgets the oldest if there are too many: afterwards, since
// nothing may come between the end of a request and the change that its id is remembered.
func (g *ledger) remember(e Ended) {
	e.Until = later(g.now, EndedKept)
	g.ended.push(e)
	g.note(Remembered).Ended = e
	for t := g.ended.surplus(); t != nil; t = g.ended.surplus() {
		g.forget(t)
	}
	if e.Unseen {
		for t := g.ended.surplusUnseen(e.ID); t != nil; t = g.ended.surplusUnseen(e.ID) {
			g.forget(t)
		}
	}
}

// forget forgets an id that has ended.
func (g *ledger) forget(t *tombstone) {
	g.ended.remove(t)
	g.note(Forgotten).Ended = t.Ended
}

// tombstones are the ended request ids, in the order in which they are
// forgotten, which is the order in which they ended.
type tombstones struct {
	ids         byID[tombstone]
	first, last *tombstone
	count       int
	unseen      map[string][]*tombstone // by caller, in the same order
	countUnseen int

	limit, limitUnseen, limitAllUnseen int // MaxEnded, MaxUnseen, MaxAllUnseen; tests have fewer
}

// tombstone is one of them.
type tombstone struct {
	Ended
	older, newer *tombstone
	sameID       *tombstone // of another caller
}

func newTombstones() tombstones {
	return tombstones{
		ids: newByID(
			func(t *tombstone) string { return t.ID },
			func(t *tombstone) **tombstone { return &t.sameID }),
		unseen: make(map[string][]*tombstone),
		limit:  MaxEnded, limitUnseen: MaxUnseen, limitAllUnseen: MaxAllUnseen,
	}
}

// surplus returns the first one if there are too many.
func (t *tombstones) surplus() *tombstone {
	if t.count <= t.limit {
		return nil
	}
	return t.first
}

// surplusUnseen returns the first one that the caller of an id cancelled before it came, if it
// cancelled too many; or, if all callers together did, the first of the caller that has most.
func (t *tombstones) surplusUnseen(id string) *tombstone {
	own := t.unseen[CallerOf(id)]
	if len(own) > t.limitUnseen {
		return own[0]
	}
	if t.countUnseen <= t.limitAllUnseen {
		return nil
	}
	for _, other := range t.unseen {
		if len(other) > len(own) {
			own = other
		}
	}
	return own[0]
}

// due returns the first one if it must be forgotten at now.
func (t *tombstones) due(now time.Duration) *tombstone {
	if t.first == nil || t.first.Until > now {
		return nil
	}
	return t.first
}

func (t *tombstones) has(id string) bool { return t.get(id) != nil }

// get returns the entry of an id; nil if there is none.
func (t *tombstones) get(id string) *tombstone { return t.ids.get(id) }

// all returns a copy of all entries.
func (t *tombstones) all() []Ended {
	all := make([]Ended, 0, t.count)
	for e := t.first; e != nil; e = e.newer {
		all = append(all, e.Ended)
	}
	return all
}

// why returns the error of an acquire with an id that has ended.
func (t *tombstone) why() error {
	if t.Removed != "" {
		return &RemovedError{t.Removed}
	}
	if t.Result != 0 {
		return &CoalescedError{t.Result}
	}
	if t.Unconfirmed {
		return ErrUnconfirmed
	}
	return ErrEnded
}

func (t *tombstones) push(e Ended) {
	added := &tombstone{Ended: e, older: t.last}
	if t.last == nil {
		t.first = added
	} else {
		t.last.newer = added
	}
	t.last = added
	t.count++
	t.ids.add(added)
	if e.Unseen {
		caller := CallerOf(e.ID)
		t.unseen[caller] = append(t.unseen[caller], added)
		t.countUnseen++
	}
}

// remove takes e out. One that was unseen must be the first of its caller.
func (t *tombstones) remove(e *tombstone) {
	if e.older == nil {
		t.first = e.newer
	} else {
		e.older.newer = e.newer
	}
	if e.newer == nil {
		t.last = e.older
	} else {
		e.newer.older = e.older
	}
	e.older, e.newer = nil, nil
	t.count--
	t.ids.remove(e)
	if e.Unseen {
		t.countUnseen--
		caller := CallerOf(e.ID)
		if own := t.unseen[caller]; len(own) == 1 {
			delete(t.unseen, caller)
		} else {
			own[0] = nil // let go of it
			t.unseen[caller] = own[1:]
		}
	}
}
