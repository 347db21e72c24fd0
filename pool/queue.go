package pool

import (
	"cmp"
	"slices"
)

// queue is the waiters of a pool in the order of their arrival.
type queue []*request

// index returns where r stands, 0 being next.
func (q queue) index(r *request) int {
	i, found := slices.BinarySearchFunc(q, r.arrival, func(r *request, arrival uint64) int {
		return cmp.Compare(r.arrival, arrival)
	})
	if !found {
		panic("pool: waiter is not in its queue")
	}
	return i
}

// push adds r, which arrived after all others.
func (q *queue) push(r *request) { *q = append(*q, r) }

// remove takes r out. At the head, where grants happen, it moves nothing:
// append gets the room back when it next has to grow.
func (q *queue) remove(r *request) {
	s := *q
	i := s.index(r)
	if i >= len(s)/2 {
		*q = slices.Delete(s, i, i+1)
		return
	}
	copy(s[1:i+1], s[:i])
	s[0] = nil // let go of it
	*q = s[1:]
}

// tombstones are the ended request ids, in the order in which they are
// forgotten, which is the order in which they ended.
type tombstones struct {
	ids   map[string]struct{}
	order []Ended
	limit int
}

func (t *tombstones) has(id string) bool {
	_, ok := t.ids[id]
	return ok
}

func (t *tombstones) push(e Ended) {
	t.ids[e.ID] = struct{}{}
	t.order = append(t.order, e)
}

// pop takes out the first one, of which there must be one.
func (t *tombstones) pop() Ended {
	e := t.order[0]
	t.order[0] = Ended{} // let go of its id
	t.order = t.order[1:]
	delete(t.ids, e.ID)
	return e
}
