package pool

import (
	"container/heap"
	"slices"
	"sort"
)

// ordered is a heap whose elements know their positions, so that any of them can be taken out
// or moved in O(log n). An element may be in one heap per field that pos points to.
type ordered[T any] struct {
	items []T
	less  func(a, b T) bool
	pos   func(T) *int // position plus one; zero: not in the heap
}

// first returns the least element; false if there is none.
func (h *ordered[T]) first() (x T, ok bool) {
	if len(h.items) == 0 {
		return x, false
	}
	return h.items[0], true
}

func (h *ordered[T]) has(x T) bool { return *h.pos(x) > 0 }

// put adds x, or moves it to its place after a change of its order.
func (h *ordered[T]) put(x T) {
	if i := *h.pos(x); i > 0 {
		heap.Fix(h, i-1)
		return
	}
	heap.Push(h, x)
}

// remove takes x out, if it is in.
func (h *ordered[T]) remove(x T) {
	if i := *h.pos(x); i > 0 {
		heap.Remove(h, i-1)
	}
}

// ascending yields the elements from the least on, and takes none out. The cost depends on how many
// are taken, not on how many there are. The heap must not change meanwhile.
func (h *ordered[T]) ascending(yield func(T) bool) {
	var next []int // the indices of elements whose parents were yielded, in order
	add := func(i int) {
		if i < len(h.items) {
			at := sort.Search(len(next), func(k int) bool { return h.less(h.items[i], h.items[next[k]]) })
			next = slices.Insert(next, at, i)
		}
	}
	for add(0); len(next) > 0; {
		i := next[0]
		next = next[1:]
		if !yield(h.items[i]) {
			return
		}
		add(2*i + 1)
		add(2*i + 2)
	}
}

// Len, Less, Swap, Push and Pop are for container/heap.

func (h *ordered[T]) Len() int           { return len(h.items) }
func (h *ordered[T]) Less(i, j int) bool { return h.less(h.items[i], h.items[j]) }

func (h *ordered[T]) Swap(i, j int) {
	h.items[i], h.items[j] = h.items[j], h.items[i]
	*h.pos(h.items[i]) = i + 1
	*h.pos(h.items[j]) = j + 1
}

func (h *ordered[T]) Push(x any) {
	h.items = append(h.items, x.(T))
	*h.pos(x.(T)) = len(h.items)
}

func (h *ordered[T]) Pop() any {
	var zero T
	last := len(h.items) - 1
	x := h.items[last]
	h.items[last] = zero // let go of it
	h.items = h.items[:last]
	*h.pos(x) = 0
	return x
}
