package pool

import (
	"fmt"
	"math/rand/v2"
	"slices"
	"testing"
	"time"
)

// herd is jobs that each want one name and hold it for a while.
type herd struct {
	names    int
	pace     time.Duration
	arrivals []time.Duration      // ascending
	hold     func() time.Duration // of the next job that is granted
	lag      func() time.Duration // of the timer that calls Advance; nil: none
}

// run returns when the jobs were granted their names and how long they waited
// on average, in simulated time.
func (h herd) run(t *testing.T) (grants []time.Duration, wait time.Duration) {
	t.Helper()
	set := with(t, Config{Type: "t", Names: numbered("t", h.names), Pace: h.pace, MaxWaiters: len(h.arrivals)})
	var now time.Duration
	turns := 0
	for arrived := 0; len(grants) < len(h.arrivals); {
		// A job arrives, is granted when the pace allows it, ends and is forgotten.
		if turns++; turns > 10*len(h.arrivals) {
			t.Fatalf("%d of %d jobs were granted after %d turns", len(grants), len(h.arrivals), turns)
		}
		next, timer := set.Next()
		if !timer && arrived == len(h.arrivals) {
			t.Fatalf("%d of %d jobs were granted, and nothing is due", len(grants), len(h.arrivals))
		}
		if timer && h.lag != nil {
			next += h.lag()
		}
		if arrived < len(h.arrivals) && (!timer || h.arrivals[arrived] <= next) {
			now = max(now, h.arrivals[arrived])
			arrived++
			if _, err := set.Acquire(now, req(fmt.Sprint(arrived))); err != nil {
				t.Fatal(err)
			}
		} else {
			now = max(now, next)
			set.Advance(now)
		}
		for _, c := range set.Drain() {
			if c.Kind == Granted {
				grants = append(grants, now)
				wait += c.Took
				set.Release(now, ref(c.Leases[0]), h.hold())
			}
		}
	}
	return grants, wait / time.Duration(len(grants))
}

// peak returns the most grants in any span of time that is as long as span,
// its end not included.
func peak(grants []time.Duration, span time.Duration) (most int) {
	first := 0
	for last := range grants {
		for grants[last]-grants[first] >= span {
			first++
		}
		most = max(most, last-first+1)
	}
	return most
}

// perSpan returns the mean number of grants in a span.
func perSpan(grants []time.Duration, span time.Duration) float64 {
	return float64(len(grants)-1) / float64(grants[len(grants)-1]-grants[0]) * float64(span)
}

// steady returns the mean number of grants in a span, over whole rounds of the
// pool after the first ones, so that square waves do not distort it.
func steady(grants []time.Duration, names int, span time.Duration) float64 {
	from := len(grants) / 2 / names * names
	to := (len(grants) - 1) / names * names
	return perSpan(grants[from:to+1], span)
}

const hold20 = 20 * time.Minute

func exactly() time.Duration { return hold20 }

// varied returns holds that differ from 20 minutes by up to a fifth.
func varied(seed uint64) func() time.Duration {
	r := rand.New(rand.NewPCG(seed, 0))
	return func() time.Duration { return hold20*4/5 + time.Duration(r.Int64N(int64(hold20*2/5))) }
}

// burst is 250 jobs: as many at once as there are names, and the others over the next 20
// minutes, each delayed by up to jitter.
func burst(names int, jitter time.Duration) []time.Duration {
	r := rand.New(rand.NewPCG(5, 5))
	arrivals := make([]time.Duration, 250)
	for i := range arrivals {
		if i >= names {
			arrivals[i] = hold20 * time.Duration(i-names) / time.Duration(len(arrivals)-names)
		}
		if jitter > 0 {
			arrivals[i] += time.Duration(r.Int64N(int64(jitter)))
		}
	}
	slices.Sort(arrivals)
	return arrivals
}

// A pace flattens the herd. 250 jobs come to 50 names that are held for 20 minutes, 50 of them
// at once. No minute ever sees more than 1.3 times the mean number of grants. Without a pace it
// is 16 times, and 4.5 times if each job waits at random for up to 15 minutes. Other pools are
// measured over as many paces as a minute is for this one: two and a half.
func TestPaceFlattensTheHerd(t *testing.T) {
	auto := func(names int) time.Duration { return AutoPace(hold20, names) }
	for _, c := range []struct {
		name        string
		herd        herd
		least, most float64 // peak / mean
	}{
		{"no pace", herd{names: 50, arrivals: burst(50, 0), hold: exactly}, 15.5, 16.5},
		{"client jitter of 15 min", herd{names: 50, arrivals: burst(50, 15*time.Minute), hold: exactly}, 3.5, 5.5},
		{"50 names", herd{names: 50, pace: auto(50), arrivals: burst(50, 0), hold: exactly}, 1, 1.3},
		{"50 names, jitter too", herd{names: 50, pace: auto(50), arrivals: burst(50, 15*time.Minute), hold: exactly}, 1, 1.3},
		{"50 names, holds vary", herd{names: 50, pace: auto(50), arrivals: burst(50, 0), hold: varied(1)}, 1, 1.3},
		{"5 names", herd{names: 5, pace: auto(5), arrivals: burst(5, 0), hold: exactly}, 1, 1.3},
		{"5 names, holds vary", herd{names: 5, pace: auto(5), arrivals: burst(5, 0), hold: varied(2)}, 1, 1.3},
		{"2 names", herd{names: 2, pace: auto(2), arrivals: burst(2, 0), hold: exactly}, 1, 1.3},
		{"2 names, holds vary", herd{names: 2, pace: auto(2), arrivals: burst(2, 0), hold: varied(3)}, 1, 1.3},
		{"1 name", herd{names: 1, pace: auto(1), arrivals: burst(1, 0), hold: exactly}, 1, 1.3},
		{"1 name, holds vary", herd{names: 1, pace: auto(1), arrivals: burst(1, 0), hold: varied(4)}, 1, 1.3},
	} {
		t.Run(c.name, func(t *testing.T) {
			minute := auto(c.herd.names) * 5 / 2
			grants, wait := c.herd.run(t)
			most, mean := peak(grants, minute), perSpan(grants, minute)
			ratio := float64(most) / mean
			t.Logf("at most %d grants in a minute, %.2f on average: %.2f times; the mean wait is %v", most, mean, ratio, wait.Round(time.Second))
			if ratio < c.least || ratio > c.most {
				t.Errorf("peak is %.2f times the mean, want %v to %v", ratio, c.least, c.most)
			}
		})
	}
}

// A pace of hold / capacity costs no grants: there are as many per hour as without. If holds
// vary by a fifth, it costs a few in a hundred, since a name that comes free early waits until
// the next grant is due.
func TestPaceKeepsTheRate(t *testing.T) {
	lag := func() func() time.Duration {
		r := rand.New(rand.NewPCG(6, 6))
		return func() time.Duration { return time.Duration(r.Int64N(int64(2 * time.Second))) }
	}
	for _, names := range []int{1, 2, 5, 50, 200} {
		for _, c := range []struct {
			name  string
			hold  func() func() time.Duration
			lag   func() func() time.Duration
			least float64 // of the rate without a pace
		}{
			{"exact", func() func() time.Duration { return exactly }, nil, 1},
			{"slow timer", func() func() time.Duration { return exactly }, lag, 0.999},
			{"varied", func() func() time.Duration { return varied(7) }, nil, 0.95},
		} {
			t.Run(fmt.Sprintf("%d/%s", names, c.name), func(t *testing.T) {
				rate := func(pace time.Duration) float64 {
					h := herd{names: names, pace: pace, arrivals: make([]time.Duration, 4_000), hold: c.hold()}
					if c.lag != nil {
						h.lag = c.lag()
					}
					grants, _ := h.run(t)
					return steady(grants, names, hold20)
				}
				paced, free := rate(AutoPace(hold20, names)), rate(0)
				t.Logf("%.2f grants in 20 minutes, %.2f without a pace: %.3f", paced, free, paced/free)
				if paced < c.least*free {
					t.Errorf("%.3f of the rate without a pace, want at least %v", paced/free, c.least)
				}
			})
		}
	}
}
