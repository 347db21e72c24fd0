package main

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"slices"
	"sync"
	"time"

	"github.com/leasectl/leasectl/leaseapi"
)

const (
	drainRounds   = 3
	drainWaiters  = 10_000
	drainCapacity = 50
)

// measureDrain is whether a long queue costs the server more than its length.
func measureDrain(ctx context.Context, w *world) ([]result, error) {
	var with, without []float64
	disorder := 0
	for range drainRounds {
		rate, wrong, err := w.drain(ctx)
		if err != nil {
			return nil, err
		}
		with = append(with, rate)
		disorder += wrong
		if rate, err = w.noQueue(ctx); err != nil {
			return nil, err
		}
		without = append(without, rate)
	}
	rate := result{What: "pairs while 10,000 waiters drain through 50 leases", Unit: perSecond,
		Ours: median("leasectl", with), Peers: []measure{median("leasectl, nobody waits", without)}}
	rate.budget("leasectl, nobody waits", atLeast(0.7))
	order := result{What: "grants out of order while they drain", Unit: number,
		Ours: measure{Name: "leasectl", Value: float64(disorder), Values: drainRounds}, Limit: atMost(0)}
	return []result{rate, order}, nil
}

// noQueue is the rate of as many clients as there are leases.
func (w *world) noQueue(ctx context.Context) (_ float64, err error) {
	s, err := w.serve(ctx, "--pool", fmt.Sprintf("many=%d", drainCapacity))
	if err != nil {
		return 0, err
	}
	defer func() { err = errors.Join(err, s.stop()) }()
	return throughput(s.addr, drainCapacity, 2*time.Second, func(c *wire, _ int) error { return c.pair("many") })
}

// drain fills the queue, lets go of all leases, and then gives each back as
// soon as it is granted. It returns pairs a second, and how many grants came
// before one of a waiter that had come earlier.
func (w *world) drain(ctx context.Context) (rate float64, disorder int, err error) {
	s, err := w.serve(ctx, "--pool", fmt.Sprintf("many=%d", drainCapacity))
	if err != nil {
		return 0, 0, err
	}
	defer func() { err = errors.Join(err, s.stop()) }()
	var names []string
	var holders queue
	defer func() { holders.close() }()
	for range drainCapacity {
		c, err := dial(s.addr)
		if err != nil {
			return 0, 0, err
		}
		holders = append(holders, c)
		if err := c.acquiring("many"); err != nil {
			return 0, 0, err
		}
		got, err := c.granted()
		if err != nil {
			return 0, 0, err
		}
		names = append(names, got.Names[0])
	}
	waiters, err := line(ctx, s.addr, "many", drainWaiters)
	defer waiters.close()
	if err != nil {
		return 0, 0, err
	}

	grants := make([]grant, len(waiters))
	failed := make(chan error, len(waiters)+len(holders))
	var running sync.WaitGroup
	begin := time.Now()
	for i, c := range waiters {
		running.Go(func() {
			got, err := c.granted()
			if err == nil {
				grants[i] = grant{arrived: i, lease: got.Leases[0]}
				err = c.release(got.Names[0])
			}
			if err != nil {
				failed <- fmt.Errorf("waiter %d: %w", i, err)
			}
		})
	}
	for i, c := range holders {
		running.Go(func() {
			if err := c.release(names[i]); err != nil {
				failed <- err
			}
		})
	}
	running.Wait()
	rate = float64(len(waiters)) / time.Since(begin).Seconds()
	close(failed)
	return rate, outOfOrder(grants), <-failed
}

func (w *wire) release(name string) error {
	if err := w.releasing(name); err != nil {
		return err
	}
	_, err := w.answer()
	return err
}

// grant is what the waiter got that arrived so many after the first.
type grant struct {
	arrived int
	lease   leaseapi.Lease
}

// outOfOrder counts the grants that were made before one of a waiter that had
// certainly come earlier. Generations say which was made first.
func outOfOrder(grants []grant) (n int) {
	made := slices.SortedFunc(slices.Values(grants), func(a, b grant) int {
		return cmp.Compare(a.lease.Generation, b.lease.Generation)
	})
	latest := -1 // step of the latest waiter so far
	for _, g := range made {
		step := g.arrived / lineStep
		if step < latest {
			n++
		}
		latest = max(latest, step)
	}
	return n
}
