package main

import (
	"cmp"
	"fmt"
	"math/rand/v2"
	"slices"
	"time"

	"github.com/leasectl/leasectl/internal/pool"
)

// The herd: as many jobs as on a busy morning come to a pool of 50 leases. Each holds its lease
// for 20 minutes. As many jobs as leases come at once, the others over the next 20 minutes.
const (
	herdJobs   = 250
	herdLeases = 50
	herdHold   = 20 * time.Minute
)

// herd is one way to deal with the jobs.
type herd struct {
	name   string
	jitter time.Duration // each job waits a random time of up to this before it asks
	pace   time.Duration // of the pool
}

// herds are the three that are compared; the paced one is ours.
var herds = []herd{
	{name: "pace: auto", pace: pool.AutoPace(herdHold, herdLeases)},
	{name: "no pace"},
	{name: "client jitter of 15 min", jitter: 15 * time.Minute},
}

// job is one of the herd. Its times count from the first arrival.
type job struct {
	comes  time.Duration // when it wants to start
	asks   time.Duration // when it asks: later by its jitter
	starts time.Duration // when it gets its lease
}

// jobs returns the herd before it asks, in the order in which it asks.
func (h herd) jobs() []job {
	r := rand.New(rand.NewPCG(1, 2)) // the same herd each time
	jobs := make([]job, herdJobs)
	for i := range jobs {
		if i >= herdLeases {
			jobs[i].comes = herdHold * time.Duration(i-herdLeases) / (herdJobs - herdLeases)
		}
		jobs[i].asks = jobs[i].comes
		if h.jitter > 0 {
			jobs[i].asks += time.Duration(r.Int64N(int64(h.jitter)))
		}
	}
	slices.SortStableFunc(jobs, func(a, b job) int { return cmp.Compare(a.asks, b.asks) })
	return jobs
}

// simulate lets the herd run against a pool, in virtual time.
func (h herd) simulate() ([]job, error) {
	names := make([]string, herdLeases)
	for i := range names {
		names[i] = fmt.Sprint("lease-", i)
	}
	set, err := pool.New([]pool.Config{{Type: "install", Names: names, Pace: h.pace}}, pool.Snapshot{}, pool.PriorityAging)
	if err != nil {
		return nil, err
	}
	jobs := h.jobs()
	byID := make(map[string]*job)
	for i := range jobs {
		byID[fmt.Sprint(i)] = &jobs[i]
	}
	asked, started := 0, 0
	for started < len(jobs) {
		now, due := set.Next()
		if asked < len(jobs) && (!due || jobs[asked].asks <= now) {
			now = jobs[asked].asks
			if _, err := set.Acquire(now, pool.Request{ID: fmt.Sprint(asked), Type: "install", Anonymous: true}); err != nil {
				return nil, err
			}
			asked++
		} else {
			set.Advance(now)
		}
		for _, c := range set.Drain() {
			if c.Kind == pool.Granted {
				byID[c.ID].starts = now
				started++
				set.Release(now, pool.Ref{Name: c.Leases[0].Name}, herdHold)
			}
		}
	}
	return jobs, nil
}

// starts returns when the jobs started, in order.
func starts(jobs []job) []time.Duration {
	all := make([]time.Duration, len(jobs))
	for i, j := range jobs {
		all[i] = j.starts
	}
	slices.Sort(all)
	return all
}

// peak is the most starts in any minute ÷ the mean over the whole time. minute is the length of
// a minute of the herd.
func peak(starts []time.Duration, minute time.Duration) float64 {
	first, most := 0, 0
	for last := range starts {
		for starts[last]-starts[first] >= minute {
			first++
		}
		most = max(most, last-first+1)
	}
	return float64(most) / perMinute(starts, minute)
}

// perMinute is the mean number of starts in a minute.
func perMinute(starts []time.Duration, minute time.Duration) float64 {
	return float64(len(starts)-1) / float64(starts[len(starts)-1]-starts[0]) * float64(minute)
}

// waits returns how long the jobs waited on average, and the longest.
func waits(jobs []job) (mean, longest time.Duration) {
	for _, j := range jobs {
		wait := j.starts - j.comes
		mean += wait
		longest = max(longest, wait)
	}
	return mean / time.Duration(len(jobs)), longest
}

// steadyRate is the starts in a minute once the pool is full. It covers whole rounds of the
// pool, so that a square wave counts with its mean.
func steadyRate(starts []time.Duration, minute time.Duration) float64 {
	last := (len(starts) - 1) / herdLeases * herdLeases
	return perMinute(starts[:last+1], minute)
}
