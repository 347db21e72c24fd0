package pool

import (
	"fmt"
	"testing"
	"time"
)

// A grant and its end must cost the same however many requests wait, and whether or not the
// first of them are active.
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
		acquire(b, set, 0, Request{ID: fmt.Sprint("r", n), Type: "t", Anonymous: true})
	}
	for range 50 {
		ask()
	}
	for i := range waiters {
		id := fmt.Sprint("w", i)
		acquire(b, set, 0, req(id))
		if i < absent {
			set.Detach(0, id, 0)
		}
	}
	held := set.Pools(0)[0].Leases
	set.Drain()
	b.ReportAllocs()
	for b.Loop() {
		l := held[0]
		held = held[1:]
		ask()
		set.Release(0, ref(l), 0)
		for _, c := range set.Drain() {
			held = append(held, c.Leases...)
		}
	}
}

// A client that competes with no other acquires, confirms and releases. Its id is remembered,
// and an older one is forgotten.
func BenchmarkAcquireRenewRelease(b *testing.B) {
	set := one(b, 50)
	ids := make([]string, 10_000)
	for i := range ids {
		ids[i] = fmt.Sprint("r", i)
	}
	var now time.Duration
	i := 0
	b.ReportAllocs()
	for b.Loop() {
		now += EndedKept / time.Duration(len(ids)-1)
		leases, err := set.Acquire(now, req(ids[i%len(ids)]))
		if err != nil {
			b.Fatal(err)
		}
		i++
		set.Renew(now, ref(leases[0]), 0)
		set.Release(now, ref(leases[0]), 0)
		set.Drain()
	}
}

// 10,000 waiters are served, one after the other, until all are; also if half of them are away
// and in between, and if a pace spaces the grants.
func BenchmarkDrain(b *testing.B) {
	const waiters = 10_000
	for _, c := range []struct {
		name   string
		pace   time.Duration
		absent bool
	}{{"all active", 0, false}, {"half absent", 0, true}, {"paced", s, false}} {
		b.Run(c.name, func(b *testing.B) {
			ids := make([]string, waiters)
			for i := range ids {
				ids[i] = fmt.Sprint("w", i)
			}
			b.ReportAllocs()
			for b.Loop() {
				b.StopTimer()
				set := with(b, Config{Type: "t", Names: numbered("t", 50), Pace: c.pace})
				all := must(b, set, 0, Request{ID: "first", Type: "t", Ask: Ask{Count: 50}}, numbered("t", 50)...)
				active := 0
				for i, id := range ids {
					acquire(b, set, 0, Request{ID: id, Type: "t", TTL: hour * 24})
					if c.absent && i%2 == 0 {
						set.Detach(0, id, 0)
					} else {
						active++
					}
				}
				set.Drain()
				b.StartTimer()
				var now time.Duration
				for granted := 0; granted < active; {
					if len(all) > 0 {
						set.Release(now, ref(all[0]), 0)
						all = all[1:]
					} else {
						now, _ = set.Next()
						set.Advance(now)
					}
					for _, change := range set.Drain() {
						all = append(all, change.Leases...)
						granted += len(change.Leases)
					}
				}
			}
			b.ReportMetric(float64(b.Elapsed().Nanoseconds())/float64(b.N)/waiters, "ns/waiter")
		})
	}
}

// The status of one waiter among 10,000.
func BenchmarkPlace(b *testing.B) {
	set := with(b, Config{Type: "t", Names: []string{"n"}})
	for i := range 10_000 {
		acquire(b, set, 0, req(fmt.Sprint("r", i)))
	}
	b.ReportAllocs()
	for b.Loop() {
		set.Status(0, "r7000")
	}
}

// A snapshot and its restoration are the cost of a start with 1,000 leases and 1,000 ended ids.
func BenchmarkRestart(b *testing.B) {
	config := Config{Type: "t", Names: numbered("t", 1000)}
	set := with(b, config)
	for i := range 2_000 {
		id := fmt.Sprint("r", i)
		acquire(b, set, 0, req(id))
		if i < 1_000 {
			set.Cancel(0, id)
		}
	}
	b.ReportAllocs()
	for b.Loop() {
		if _, err := New([]Config{config}, set.Snapshot(), PriorityAging); err != nil {
			b.Fatal(err)
		}
	}
}

// A grant costs the same whether 10,000 wait without a key, or nearly all of them wait for keys
// that are held: the next grant must not look at the latter.
func BenchmarkKeys(b *testing.B) {
	for _, keys := range []int{0, 10, 200} {
		b.Run(fmt.Sprintf("waiters=10000/keys=%d", keys), func(b *testing.B) {
			set := with(b, Config{Type: "t", Names: numbered("t", 10), MaxWaiters: 10_010})
			n := 0
			ask := func() {
				q := Request{ID: fmt.Sprint("r", n), Type: "t", Anonymous: true}
				if keys > 0 {
					q.Key = fmt.Sprint("k", n%keys)
				}
				n++
				acquire(b, set, 0, q)
			}
			for range 10_010 {
				ask()
			}
			held := set.Pools(0)[0].Leases
			set.Drain()
			b.ReportAllocs()
			for b.Loop() {
				l := held[0]
				held = held[1:]
				set.Release(0, ref(l), 0)
				ask()
				for _, c := range set.Drain() {
					held = append(held, c.Leases...)
				}
			}
		})
	}
}
