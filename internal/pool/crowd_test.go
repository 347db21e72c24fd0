package pool

import (
	"fmt"
	"runtime"
	"syscall"
	"testing"
	"time"
)

// growth returns how many times as much processor time a call of run takes with ten times as many as with few,
// at the best of some tries: it tries until that is at most most, since a busy machine makes calls dearer only.
func growth(few int, most float64, prepare func(n int) (run func())) (times float64) {
	least := map[int]time.Duration{few: never, 10 * few: never}
	for range 12 {
		for n := range least {
			run := prepare(n)
			runtime.GC()
			begin := processorTime()
			run()
			least[n] = min(least[n], max(processorTime()-begin, time.Microsecond))
		}
		if times = float64(least[10*few]) / float64(least[few]); times <= most {
			break
		}
	}
	return times
}

// processorTime returns how long this process has used processors.
func processorTime() time.Duration {
	var used syscall.Rusage
	syscall.Getrusage(syscall.RUSAGE_SELF, &used)
	return time.Duration(used.Utime.Nano() + used.Stime.Nano())
}

// The cost of what is said of a waiter hardly depends on how many leases its pool has, even if one of
// them ends between any two calls.
func TestStatusAmongManyLeases(t *testing.T) {
	if g := growth(3000, 6, func(n int) func() {
		set := with(t, Config{Type: "t", Names: numbered("t", n), MaxWaiters: n})
		var held []Lease
		for i := range n {
			leases, _ := set.Acquire(time.Duration(i), req(fmt.Sprint("h", i)))
			set.Renew(time.Duration(i), ref(leases[0]), hour)
			held = append(held, leases[0])
		}
		now := time.Duration(n)
		for i := range 200 {
			set.Acquire(now, req(fmt.Sprint("w", i)))
		}
		return func() {
			for i := range 100 {
				set.Release(now, ref(held[i*7]), 0) // granted to the next waiter
				if st, _ := set.Status(now, "w199"); st.Place == 0 {
					t.Error("it waits no longer")
				}
				set.Drain()
			}
		}
	}); g > 6 {
		t.Errorf("ten times as many leases: %.1f times the cost", g)
	}
}

// Followers that all go at once, with their leader, cost in proportion to their number.
func TestFollowersThatAllGo(t *testing.T) {
	for _, priority := range []int{0, 5} {
		if g := growth(2000, 35, func(n int) func() {
			set := with(t, Config{Type: "t", Names: numbered("t", 1), MaxWaiters: 2 * n})
			join := func(id string, priority int) Request {
				return Request{ID: id, Type: "t", Ask: Ask{Key: "k", Coalesce: Join, Priority: priority}}
			}
			must(t, set, 0, join("run", 0), "t-0")
			set.Renew(0, Ref{Name: "t-0"}, hour)
			for i := range n {
				must(t, set, 0, join(fmt.Sprint("f", i), priority*min(i, 1)))
			}
			for i := range n {
				set.Detach(time.Duration(i), fmt.Sprint("f", i), 0)
			}
			set.Drain()
			return func() {
				set.Advance(PlaceKept + time.Minute)
				if _, waiting := set.Busy(); waiting != 0 {
					t.Errorf("%d wait still", waiting)
				}
			}
		}); g > 35 {
			t.Errorf("ten times as many followers of priority %d: %.1f times the cost", priority, g)
		}
	}
}

// What a stop says of those that wait costs in proportion to their number, of whatever kind they are.
func TestBriefInALongQueue(t *testing.T) {
	if g := growth(1000, 35, func(n int) func() {
		set := with(t, Config{Type: "t", Units: 10, MaxWaiters: 2 * n}, Config{Type: "u", Units: 10, MaxWaiters: 2 * n})
		acquire(t, set, 0, weighs("x", 10))
		for i := range n {
			q := weighs(fmt.Sprint("w", i), 1+i%9)
			if i%2 == 0 {
				q.Also = "u=2"
			}
			if i%3 == 0 {
				q.Key = fmt.Sprint("k", i%30)
			}
			set.Acquire(0, q)
		}
		return func() {
			for i := range n {
				if st, ok := set.Brief(0, fmt.Sprint("w", i)); !ok || st.Place != i+1 {
					t.Fatalf("%d: place %d", i, st.Place)
				}
			}
		}
	}); g > 35 {
		t.Errorf("ten times as many waiters: %.1f times the cost", g)
	}
}

// A grant beside a crowd that waits for another pool too costs the same however many they are, and the
// store learns of few of those that it goes ahead of.
func TestGrantsBesideACrowd(t *testing.T) {
	if g := growth(500, 4, func(n int) func() {
		set := with(t, Config{Type: "install", Names: numbered("install", 20), MaxWaiters: 2 * n}, Config{Type: "disk", Names: numbered("disk", 1), MaxWaiters: 2 * n})
		disk := must(t, set, 0, Request{ID: "disk", Type: "disk"}, "disk-0")
		set.Renew(0, ref(disk[0]), hour)
		for i := range n {
			must(t, set, 0, together(t, fmt.Sprint("both", i), "install", "disk"))
		}
		set.Drain()
		grants := func(grants int) (changes int) {
			for range grants {
				if !goes(t, set, 0, "install") {
					t.Fatal("a job waits for install, of which there is enough")
				}
				changes += len(set.Drain())
			}
			return changes
		}
		if changes := grants(80); changes > 80*(storedFirst+4) {
			t.Errorf("%d changes while a crowd of %d is overtaken up to its bound", changes, n)
		}
		return func() {
			if changes := grants(200); changes > 4*200 {
				t.Errorf("%d changes of 200 grants", changes)
			}
		}
	}); g > 4 {
		t.Errorf("a crowd of ten times as many: %.1f times the cost", g)
	}
}

// What comes, goes and is granted beside a crowd that waits for two pools costs the same however many
// they are, and however different what they want of each.
func TestCrowdOfDifferentAsks(t *testing.T) {
	if g := growth(1000, 5, func(n int) func() {
		set := with(t, Config{Type: "install", Names: numbered("install", 100), MaxWaiters: 2 * n}, Config{Type: "mem", Units: 2 * n, MaxWaiters: 2 * n})
		held := must(t, set, 0, Request{ID: "held", Type: "install", Ask: Ask{Count: 100}}, numbered("install", 100)...)
		ask := func(id string, units int) { must(t, set, 0, together(t, id, "install", fmt.Sprint("mem=", units))) }
		for i := range n {
			ask(fmt.Sprint("w", i), n-i)
		}
		set.Drain()
		return func() {
			for i, l := range held {
				ask(fmt.Sprint("x", i), 2*n-i)
				set.Cancel(0, fmt.Sprint("x", i))
				set.Release(0, ref(l), 0) // one of them gets it, while mem has room
				set.Drain()
			}
		}
	}); g > 5 {
		t.Errorf("ten times as many different asks: %.1f times the cost", g)
	}
}
