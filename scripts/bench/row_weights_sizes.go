package main

import (
	"cmp"
	"fmt"
	"math"
	"math/rand/v2"
	"slices"
	"time"

	"github.com/leasectl/leasectl/internal/pool"
)

// Jobs of different sizes come to a counted pool, as many as need nine tenths of it.
const (
	sizesJobs  = 4000
	sizesUnits = 1024
	sizesLoad  = 0.9
	sizesHold  = 20 * time.Minute // on average
	sizesBig   = 300              // units from which on a job counts as a big one
	sizesSeeds = 15
)

// sized is a job with its size. Its times count from the beginning.
type sized struct {
	job
	units int
	hold  time.Duration
}

// sizedJobs returns the jobs of a seed, in the order in which they come. Their sizes are log-normal
// with a median of 37 units, and bounded.
func sizedJobs(seed uint64) []sized {
	r := rand.New(rand.NewPCG(seed, 1))
	logNormal := func(mean, deviation float64) float64 { return math.Exp(mean + deviation*r.NormFloat64()) }
	jobs := make([]sized, sizesJobs)
	gaps := make([]float64, sizesJobs)
	need, all := 0.0, 0.0
	for i := range jobs {
		jobs[i].units = min(736, max(8, int(logNormal(3.6, 1.3))))
		jobs[i].hold = time.Duration(float64(sizesHold) * logNormal(-0.08, 0.4))
		need += float64(jobs[i].units) * float64(jobs[i].hold)
		gaps[i] = r.ExpFloat64()
		all += gaps[i]
	}
	now := 0.0
	for i := range jobs { // exactly as many as the load says: a little more makes all wait much longer
		now += gaps[i] / all * need / sizesUnits / sizesLoad
		jobs[i].comes = time.Duration(now)
	}
	return jobs
}

// simulateSizes lets jobs run against a pool with that overtake, in virtual time; nil: the default.
func simulateSizes(jobs []sized, overtake *pool.Decimal) error {
	config := pool.Config{Type: "mem", Units: sizesUnits, Overtake: overtake, MaxWaiters: len(jobs), DefaultTTL: 1000 * time.Hour}
	set, err := pool.New([]pool.Config{config}, pool.Snapshot{}, pool.PriorityAging)
	if err != nil {
		return err
	}
	for asked, started := 0, 0; started < len(jobs); {
		now, due := set.Next()
		if asked < len(jobs) && (!due || jobs[asked].comes <= now) {
			now = jobs[asked].comes
			q := pool.Request{ID: fmt.Sprint(asked), Type: "mem", Anonymous: true, Ask: pool.Ask{Count: jobs[asked].units, Weighted: true}}
			if _, err := set.Acquire(now, q); err != nil {
				return err
			}
			asked++
		} else {
			set.Advance(now)
		}
		for _, c := range set.Drain() {
			if c.Kind != pool.Granted {
				continue
			}
			var i int
			if _, err := fmt.Sscan(c.ID, &i); err != nil {
				return err
			}
			jobs[i].starts = now
			started++
			set.Release(now, pool.Ref{Name: c.Leases[0].Name}, jobs[i].hold)
		}
	}
	return nil
}

// measureSizes compares how long the jobs wait if those that fit overtake one that does not, as is
// the default, and in strict order.
func measureSizes() ([]result, error) {
	strict := new(pool.Decimal)
	rules := []struct {
		name     string
		overtake *pool.Decimal
	}{{"leasectl", nil}, {"strict order (overtake: 0)", strict}}
	lines := []struct {
		what  string
		value func([]sized) time.Duration
		limit *limit
	}{
		{"minutes that jobs of 8 to 736 units wait for 1,024, mean", func(jobs []sized) time.Duration { return meanWait(jobs, 0) }, atMost(0.4)},
		{fmt.Sprintf("… those of %d units or more", sizesBig), func(jobs []sized) time.Duration { return meanWait(jobs, sizesBig) }, atMost(0.8)},
		{"… the longest", longestWait, atMost(1)},
	}
	measures := make([][]measure, len(lines))
	for _, rule := range rules {
		values := make([][]float64, len(lines))
		for seed := range uint64(sizesSeeds) {
			jobs := sizedJobs(seed)
			if err := simulateSizes(jobs, rule.overtake); err != nil {
				return nil, err
			}
			for i, line := range lines {
				values[i] = append(values[i], line.value(jobs).Minutes())
			}
		}
		for i := range lines {
			measures[i] = append(measures[i], median(rule.name, values[i]))
		}
	}
	var results []result
	for i, line := range lines {
		r := resultOf(line.what, number, measures[i])
		r.budget(rules[1].name, line.limit)
		results = append(results, r)
	}
	return results, nil
}

func (s sized) wait() time.Duration { return s.starts - s.comes }

// meanWait returns how long the jobs of at least that many units waited on average.
func meanWait(jobs []sized, least int) time.Duration {
	sum, n := time.Duration(0), 0
	for _, j := range jobs {
		if j.units >= least {
			sum += j.wait()
			n++
		}
	}
	return sum / time.Duration(max(n, 1))
}

func longestWait(jobs []sized) time.Duration {
	return slices.MaxFunc(jobs, func(a, b sized) int { return cmp.Compare(a.wait(), b.wait()) }).wait()
}
