package pool

import "time"

// Ended is a request id that never gets a lease again.
type Ended struct {
	ID    string
	Until time.Duration // on the lease clock: when it is forgotten
	// Unconfirmed: its grant expired before a renewal confirmed it. Nobody gave the grant back
	// or cancelled it.
	Unconfirmed bool
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
	for range g.ended.surplus() {
		g.forget()
	}
}

// forget forgets the id that ended first.
func (g *ledger) forget() { g.note(Forgotten).Ended = g.ended.pop() }

// tombstones are the ended request ids, in the order in which they are
// forgotten, which is the order in which they ended.
type tombstones struct {
	ids       map[string]int // how many ended before this one, over all time
	order     []Ended
	forgotten int // how many were removed from order, over all time
	limit     int
}

func newTombstones() tombstones {
	return tombstones{ids: make(map[string]int), limit: MaxEnded}
}

// surplus returns how many must be forgotten, since there are too many.
func (t *tombstones) surplus() int { return max(0, len(t.order)-t.limit) }

// due returns how many must be forgotten at now.
func (t *tombstones) due(now time.Duration) (n int) {
	for n < len(t.order) && t.order[n].Until <= now {
		n++
	}
	return n
}

func (t *tombstones) has(id string) bool {
	_, ok := t.ids[id]
	return ok
}

// get returns the entry of an id, which must be there. It is valid until the next push.
func (t *tombstones) get(id string) *Ended { return &t.order[t.ids[id]-t.forgotten] }

// why returns the error of an acquire with an id that has ended.
func (t *tombstones) why(id string) error {
	e := t.get(id)
	if e.Removed != "" {
		return &RemovedError{e.Removed}
	}
	if e.Result != 0 {
		return &CoalescedError{e.Result}
	}
	if e.Unconfirmed {
		return ErrUnconfirmed
	}
	return ErrEnded
}

func (t *tombstones) push(e Ended) {
	t.ids[e.ID] = t.forgotten + len(t.order)
	t.order = append(t.order, e)
}

// first returns the entry that is forgotten next; false if there is none.
func (t *tombstones) first() (e Ended, ok bool) {
	if len(t.order) == 0 {
		return Ended{}, false
	}
	return t.order[0], true
}

// pop takes out the first entry; there must be one.
func (t *tombstones) pop() Ended {
	e := t.order[0]
	t.order[0] = Ended{} // let go of its id
	t.order = t.order[1:]
	t.forgotten++
	delete(t.ids, e.ID)
	return e
}
