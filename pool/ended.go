package pool

import "time"

// tombstones are the ended request ids, in the order in which they are
// forgotten, which is the order in which they ended.
type tombstones struct {
	ids     map[string]bool   // whether they are unconfirmed
	removed map[string]string // of those that an operator removed: why
	merged  map[string]Outcome
	order   []Ended
	limit   int
}

func newTombstones() tombstones {
	return tombstones{ids: make(map[string]bool), removed: make(map[string]string), merged: make(map[string]Outcome), limit: MaxEnded}
}

// surplus returns how many must be forgotten before one more may be remembered.
func (t *tombstones) surplus() int { return max(0, len(t.order)+1-t.limit) }

// due returns how many are to be forgotten by now.
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

// why returns the error of an acquire with an id that has ended.
func (t *tombstones) why(id string) error {
	if reason := t.removed[id]; reason != "" {
		return &RemovedError{reason}
	}
	if outcome := t.merged[id]; outcome != 0 {
		return &CoalescedError{outcome}
	}
	if t.ids[id] {
		return ErrUnconfirmed
	}
	return ErrEnded
}

func (t *tombstones) push(e Ended) {
	if e.Removed != "" {
		t.removed[e.ID] = e.Removed
	}
	if e.Outcome != 0 {
		t.merged[e.ID] = e.Outcome
	}
	t.ids[e.ID] = e.Unconfirmed
	t.order = append(t.order, e)
}

// first returns the one that is forgotten next; false if there is none.
func (t *tombstones) first() (e Ended, ok bool) {
	if len(t.order) == 0 {
		return Ended{}, false
	}
	return t.order[0], true
}

// pop takes out the first one; there must be one.
func (t *tombstones) pop() Ended {
	e := t.order[0]
	t.order[0] = Ended{} // let go of its id
	t.order = t.order[1:]
	delete(t.ids, e.ID)
	delete(t.removed, e.ID)
	delete(t.merged, e.ID)
	return e
}
