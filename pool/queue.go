package pool

import (
	"cmp"
	"slices"
)

// queue is elements in the order of their arrival.
type queue[T any] struct {
	items   []T
	arrival func(T) uint64 // grows from one to the next
}

func (q *queue[T]) len() int { return len(q.items) }

// index returns where x stands, 0 being next.
func (q *queue[T]) index(x T) int {
	i, found := slices.BinarySearchFunc(q.items, q.arrival(x), func(x T, arrival uint64) int {
		return cmp.Compare(q.arrival(x), arrival)
	})
	if !found {
		panic("pool: waiter is not in its queue")
	}
	return i
}

// push adds x, which arrived after all others.
func (q *queue[T]) push(x T) { q.items = append(q.items, x) }

// remove takes x out. At the head, where grants happen, it moves nothing: append
// gets the room back when it next has to grow.
func (q *queue[T]) remove(x T) {
	s := q.items
	i := q.index(x)
	if i >= len(s)/2 {
		q.items = slices.Delete(s, i, i+1)
		return
	}
	copy(s[1:i+1], s[:i])
	clear(s[:1]) // let go of it
	q.items = s[1:]
}
