package pool

import (
	"fmt"
	"testing"
)

// A grant and its end must cost the same however many wait, and whether or not
// those at the head are there.
func BenchmarkPairs(b *testing.B) {
	for _, waiters := range []int{0, 10_000} {
		b.Run(fmt.Sprintf("waiters=%d", waiters), func(b *testing.B) { pairs(b, waiters, 0) })
	}
	b.Run("waiters=10000/absent=5000", func(b *testing.B) { pairs(b, 10_000, 5_000) })
}

func pairs(b *testing.B, waiters, absent int) {
	set := with(b, Config{Type: "t", Names: numbered("t", 50), MaxWaiters: waiters + 51})
	n := 0
	ask := func() {
		n++
		if _, err := set.Acquire(0, Request{ID: fmt.Sprint("r", n), Type: "t", Once: true}); err != nil {
			b.Fatal(err)
		}
	}
	for range 50 {
		ask()
	}
	for i := range waiters {
		id := fmt.Sprint("w", i)
		if _, err := set.Acquire(0, Request{ID: id, Type: "t"}); err != nil {
			b.Fatal(err)
		}
		if i < absent {
			set.Detach(0, id, 0)
		}
	}
	var held []Lease
	for _, p := range set.Pools(0) {
		held = p.Leases
	}
	set.Take()
	b.ReportAllocs()
	for b.Loop() {
		l := held[0]
		held = held[1:]
		ask()
		set.Release(0, ref(l), 0)
		for _, c := range set.Take() {
			held = append(held, c.Leases...)
		}
	}
}

func BenchmarkStatus(b *testing.B) {
	set := with(b, Config{Type: "t", Names: []string{"n"}})
	for i := range 10_000 {
		if _, err := set.Acquire(0, Request{ID: fmt.Sprint("r", i), Type: "t"}); err != nil {
			b.Fatal(err)
		}
	}
	b.ReportAllocs()
	for b.Loop() {
		set.Status(0, "r7000")
	}
}
