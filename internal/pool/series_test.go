package pool

import (
	"slices"
	"testing"
	"time"

	"pgregory.net/rapid"
)

// A series has the sums of what was added, whatever was added and taken away, in any order.
func TestSeries(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		var s series
		naive := make(map[time.Duration]int)
		for range rapid.IntRange(1, 4*blockSize).Draw(t, "changes") {
			at := time.Duration(rapid.IntRange(0, 3*blockSize).Draw(t, "at"))
			units := rapid.IntRange(1, 3).Draw(t, "units")
			if had := naive[at]; had > 0 && rapid.Bool().Draw(t, "taken away") {
				units = -had
			}
			s.add(at, units)
			naive[at] += units
		}
		at, sum, all, last := time.Duration(rapid.IntRange(0, 3*blockSize).Draw(t, "up to")), 0, 0, time.Duration(0)
		for a, units := range naive {
			if all += units; a <= at {
				sum += units
			}
			if units > 0 {
				last = max(last, a)
			}
		}
		if s.upTo(at) != sum || s.units != all || s.last() != last {
			t.Fatalf("%d up to %d, %d in all, the last at %d: want %d, %d, %d", s.upTo(at), at, s.units, s.last(), sum, all, last)
		}
		for _, b := range s.blocks {
			if len(b.times) == 0 || len(b.times) > blockSize {
				t.Fatalf("a block has %d times", len(b.times))
			}
		}
	})
}

// The n-th unit comes free when, of all ends in their order, the n-th one does: of leases that run or
// were broken, of lock delays, and of reservations.
func TestForecast(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		minutes := func(most int, label string) time.Duration {
			return time.Duration(rapid.IntRange(0, most).Draw(t, label)) * time.Minute
		}
		now := 60 * time.Minute
		var o outlook
		for range rapid.IntRange(0, 3).Draw(t, "holds") {
			o.past.add(time.Minute + minutes(30, "hold"))
		}
		typical, longest := o.past.spread()
		if !o.past.known() {
			longest = never
		}
		type end struct{ soonest, latest time.Duration }
		var ends []end
		var reserved []*slot
		p := &pool{}
		for range rapid.IntRange(0, 8).Draw(t, "names") {
			l := &lease{Lease: Lease{Units: 1, Granted: minutes(60, "granted"), Expires: now + minutes(60, "expires")}, pool: p}
			switch rapid.IntRange(0, 2).Draw(t, "kind") {
			case 1:
				l.Broken = "test"
			case 2:
				l.ReleaseAt = now + minutes(60, "release")
			}
			var to ending
			to.move(o.ofLease(&l.Lease))
			soonest, latest := o.ends(&l.Lease)
			if rapid.Bool().Draw(t, "reserved") {
				sl := &slot{pool: p, lease: l, reserved: &reservation{}}
				if rapid.Bool().Draw(t, "for a while") {
					sl.reserved.Until = now + minutes(90, "until")
					ends = append(ends, end{sl.reserved.Until, sl.reserved.Until})
				}
				reserved = append(reserved, sl)
				continue
			}
			ends = append(ends, end{soonest, latest})
		}
		f := o.ofNames(reserved)
		nth := func(i int, of func(end) time.Duration, from time.Duration) time.Duration {
			var times []time.Duration
			for _, e := range ends {
				if of(e) > from && of(e) < never {
					times = append(times, of(e))
				}
			}
			slices.Sort(times)
			if i > len(times) {
				return -1
			}
			return max(0, times[i-1]-now)
		}
		for n := 1; n <= len(ends); n++ {
			most := nth(n, func(e end) time.Duration { return e.latest }, now)
			if got, ok := f.nth(now, n, 0, longest, true); most >= 0 && (!ok || got != most) {
				t.Fatalf("%d of %v: at the latest in %v (%v), want %v", n, ends, got, ok, most)
			}
			soonest := nth(n, func(e end) time.Duration { return e.soonest }, -1)
			if got, ok := f.nth(now, n, 0, typical, false); !ok || got != soonest {
				t.Fatalf("%d of %v: likely in %v (%v), want %v", n, ends, got, ok, soonest)
			}
		}
	})
}
