package main

import (
	"context"
	"fmt"
	"math"
	"math/rand/v2"
	"time"

	"github.com/leasectl/leasectl/internal/pool"
	"github.com/leasectl/leasectl/leaseapi"
)

// Jobs come that need one lease of each of one to three of these pools.
const (
	severalPools    = 4
	severalCapacity = 16
	severalJobs     = 3000
	severalHold     = 20 * time.Minute // on average
	severalSeeds    = 5
)

// joint is a job that needs leases of several pools. Its times count from the beginning.
type joint struct {
	job
	pools []int // in the order in which a job takes them that takes one after the other
	hold  time.Duration

	names []string // that it has
}

// jointJobs returns the jobs of a seed in the order in which they come. They need that part of what
// the pools bear.
func jointJobs(seed uint64, load float64) []joint {
	r := rand.New(rand.NewPCG(seed, 2))
	jobs := make([]joint, severalJobs)
	gaps := make([]float64, severalJobs)
	need, all := 0.0, 0.0
	for i := range jobs {
		chosen := r.Perm(severalPools)[:1+r.IntN(3)]
		for p := range severalPools {
			for _, c := range chosen {
				if c == p {
					jobs[i].pools = append(jobs[i].pools, p)
				}
			}
		}
		jobs[i].hold = time.Duration(float64(severalHold) * math.Exp(-0.08+0.4*r.NormFloat64()))
		need += float64(len(jobs[i].pools)) * float64(jobs[i].hold)
		gaps[i] = r.ExpFloat64()
		all += gaps[i]
	}
	now := 0.0
	for i := range jobs {
		now += gaps[i] / all * need / (severalPools * severalCapacity) / load
		jobs[i].comes = time.Duration(now)
	}
	return jobs
}

// leastTime returns when the jobs end at the earliest: when the busiest pool has served all that need it,
// or when the last of them has come.
func leastTime(jobs []joint) time.Duration {
	var busy [severalPools]time.Duration
	for _, j := range jobs {
		for _, p := range j.pools {
			busy[p] += j.hold / severalCapacity
		}
	}
	longest := jobs[len(jobs)-1].comes
	for _, b := range busy {
		longest = max(longest, b)
	}
	return longest
}

func typeOf(p int) string { return fmt.Sprint("pool", p) }

// simulateSeveral lets jobs run against the pools in virtual time. A job takes all its leases in one
// grant, or, if oneByOne is set, one after the other in a fixed order, which it holds while it waits
// for the next. It returns when the last job has ended.
func simulateSeveral(jobs []joint, overtake *pool.Decimal, oneByOne bool) (time.Duration, error) {
	var configs []pool.Config
	for p := range severalPools {
		configs = append(configs, pool.Config{
			Type: typeOf(p), Names: pool.Numbered(typeOf(p), severalCapacity), Overtake: overtake, MaxWaiters: len(jobs), DefaultTTL: 1000 * time.Hour,
		})
	}
	set, err := pool.New(configs, pool.Snapshot{}, pool.PriorityAging)
	if err != nil {
		return 0, err
	}
	ask := func(now time.Duration, i int) error {
		pools := jobs[i].pools[len(jobs[i].names):]
		q := pool.Request{ID: fmt.Sprint(i, " ", len(jobs[i].names)), Type: typeOf(pools[0])}
		if !oneByOne {
			var also []leaseapi.Also
			for _, p := range pools[1:] {
				also = append(also, leaseapi.Also{Type: typeOf(p)})
			}
			q.Also = pool.JoinAlso(also)
		}
		_, err := set.Acquire(now, q)
		return err
	}
	var end time.Duration
	for asked, started := 0, 0; started < len(jobs); {
		now, due := set.Next()
		if asked < len(jobs) && (!due || jobs[asked].comes <= now) {
			now = jobs[asked].comes
			if err := ask(now, asked); err != nil {
				return 0, err
			}
			asked++
		} else {
			set.Advance(now)
		}
		for changes := set.Drain(); len(changes) > 0; changes = set.Drain() {
			for _, c := range append([]pool.Change(nil), changes...) {
				if c.Kind != pool.Granted {
					continue
				}
				var i int
				if _, err := fmt.Sscan(c.ID, &i); err != nil {
					return 0, err
				}
				j := &jobs[i]
				for _, l := range c.Leases {
					j.names = append(j.names, l.Name)
					set.Release(now, pool.Ref{Name: l.Name}, 500*time.Hour) // it renews
				}
				if len(j.names) < len(j.pools) {
					if err := ask(now, i); err != nil {
						return 0, err
					}
					continue
				}
				for _, name := range j.names {
					set.Release(now, pool.Ref{Name: name}, j.hold)
				}
				j.starts = now
				started++
				end = max(end, now+j.hold)
			}
		}
	}
	return end, nil
}

// measureSeveral compares jobs that take all their leases in one grant with jobs that take one after
// the other, and with a queue in which nobody overtakes.
func measureSeveral(context.Context, *world) ([]result, error) {
	rules := []struct {
		name     string
		overtake *pool.Decimal
		oneByOne bool
	}{
		{"leasectl", nil, false},
		{"one after the other", nil, true},
		{"strict order (overtake: 0)", new(pool.Decimal), false},
	}
	var means, longests, severals, longestSeverals, ends []measure
	for _, rule := range rules {
		var mean, longest, several, longestSeveral, over []float64
		for seed := range uint64(severalSeeds) {
			jobs := jointJobs(seed, 0.9)
			if _, err := simulateSeveral(jobs, rule.overtake, rule.oneByOne); err != nil {
				return nil, err
			}
			all, some := waitsOf(jobs, 1), waitsOf(jobs, 2)
			mean, longest = append(mean, all.mean.Minutes()), append(longest, all.longest.Minutes())
			several, longestSeveral = append(several, some.mean.Minutes()), append(longestSeveral, some.longest.Minutes())
			jobs = jointJobs(seed, 1.5)
			end, err := simulateSeveral(jobs, rule.overtake, rule.oneByOne)
			if err != nil {
				return nil, err
			}
			over = append(over, float64(end)/float64(leastTime(jobs)))
		}
		means, longests, ends = append(means, median(rule.name, mean)), append(longests, median(rule.name, longest)), append(ends, median(rule.name, over))
		severals, longestSeverals = append(severals, median(rule.name, several)), append(longestSeverals, median(rule.name, longestSeveral))
	}
	waits := resultOf("minutes that jobs wait which need 1 to 3 of 4 pools of 16, at 0.9 of what these bear, mean", number, means)
	waits.budget(rules[1].name, atMost(0.5))
	drained := resultOf("time until all are served at 1.5 of what the pools bear, over the bound of the busiest pool", number, ends)
	drained.Limit = atMost(1.15)
	return []result{
		waits, resultOf("… the longest", number, longests),
		resultOf("… of those that need several, mean", number, severals), resultOf("… of those that need several, the longest", number, longestSeverals),
		drained,
	}, nil
}

// waiting is how long jobs waited.
type waiting struct{ mean, longest time.Duration }

// waitsOf returns how long those of jobs waited that need so many pools or more.
func waitsOf(jobs []joint, pools int) waiting {
	var w waiting
	n := time.Duration(0)
	for _, j := range jobs {
		if len(j.pools) >= pools {
			w.mean += j.starts - j.comes
			w.longest = max(w.longest, j.starts-j.comes)
			n++
		}
	}
	w.mean /= max(n, 1)
	return w
}
