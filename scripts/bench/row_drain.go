package main

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"slices"
	"sync"
	"time"

	"github.com/leasectl/leasectl/leaseapi"
)

const (
	drainRounds   = 4
	drainWaiters  = 10_000
	drainCapacity = 50
	bareCapacity  = 64 // of the bare peer
)

// measureDrain measures whether a long queue makes the server slower.
//
// In the variants in which nobody waits, 50 clients keep their connections. These variants are
// faster for a reason that has nothing to do with leases: the state of a connection in the
// kernel, the server and the client is still in the processor's caches when the connection is
// used again. With 10,000 connections it is not. The bare peer, whose queue is a channel, shows
// how much that is: it loses more.
func measureDrain(ctx context.Context, w *world) ([]result, error) {
	leasectl := func() (*server, error) { return w.serve(ctx, "--pool", fmt.Sprintf("many=%d", drainCapacity)) }
	bare := func() (*server, error) { return w.bare(ctx, "channels") }
	disorder := 0
	variants := []struct {
		name  string
		rate  func(*server) (float64, error)
		start func() (*server, error)
		rates []float64
	}{
		{name: "leasectl", start: leasectl, rate: func(s *server) (float64, error) {
			rate, grants, err := s.drain(ctx, drainCapacity)
			disorder += outOfOrder(grants)
			return rate, err
		}},
		{name: "leasectl, nobody waits", start: leasectl, rate: (*server).kept},
		{name: "bare channels", start: bare, rate: func(s *server) (float64, error) {
			rate, _, err := s.drain(ctx, bareCapacity) // its leases have no generations, which would show the order
			return rate, err
		}},
		{name: "bare channels, nobody waits", start: bare, rate: (*server).kept},
	}
	for range drainRounds {
		for _, i := range rand.Perm(len(variants)) {
			v := &variants[i]
			s, err := v.start()
			if err != nil {
				return nil, err
			}
			rate, err := v.rate(s)
			if err := errors.Join(err, s.stop()); err != nil {
				return nil, fmt.Errorf("%s: %w", v.name, err)
			}
			v.rates = append(v.rates, rate)
		}
	}
	var measures []measure
	for _, v := range variants {
		measures = append(measures, median(v.name, v.rates))
	}
	rate := resultOf("pairs while 10,000 waiters drain through 50 leases", perSecond, measures)
	// What the machine does to both is not ours.
	part := result{What: "… ÷ nobody waits", Unit: number,
		Ours:  measure{Name: "leasectl", Value: measures[0].Value / measures[1].Value, Values: drainRounds},
		Peers: []measure{{Name: "bare channels", Value: measures[2].Value / measures[3].Value, Values: drainRounds}}}
	part.budget("bare channels", atLeast(1.2).missedTo(0.9))
	order := result{What: "grants out of order while they drain", Unit: number,
		Ours: measure{Name: "leasectl", Value: float64(disorder), Values: drainRounds}, Limit: atMost(0)}
	return []result{rate, part, order}, nil
}

// kept returns the pairs per second of as many clients as there are leases.
func (s *server) kept() (float64, error) {
	return throughput(s.addr, drainCapacity, 2*time.Second, func(c *wire, _ int) error { return c.pair("many") })
}

// drain drains drainWaiters waiters of a server.
func (s *server) drain(ctx context.Context, capacity int) (rate float64, grants []grant, err error) {
	dial := func() (*wire, error) { return dial(s.addr) }
	holders, names, err := hold(dial, capacity)
	defer holders.close()
	if err != nil {
		return 0, nil, err
	}
	waiters, err := lineUp(ctx, dial, "many", drainWaiters)
	defer waiters.close()
	if err != nil {
		return 0, nil, err
	}
	return drain(holders, names, waiters)
}

// hold takes that many leases, and returns their holders and names.
func hold(dial func() (*wire, error), capacity int) (holders queue, names []string, err error) {
	for range capacity {
		c, err := dial()
		if err != nil {
			return holders, nil, err
		}
		holders = append(holders, c)
		if err := c.acquiring("many"); err != nil {
			return holders, nil, err
		}
		got, err := c.granted()
		if err != nil {
			return holders, nil, err
		}
		names = append(names, got.Names[0])
	}
	return holders, names, nil
}

// drain releases the leases of holders. Then each waiter releases its lease as soon as it is granted.
func drain(holders queue, names []string, waiters queue) (rate float64, grants []grant, err error) {
	grants = make([]grant, len(waiters))
	failed := make(chan error, len(waiters))
	var running sync.WaitGroup
	for i, c := range waiters {
		running.Go(func() {
			got, err := c.granted()
			if err == nil {
				grants[i].arrived = i
				if len(got.Leases) > 0 {
					grants[i].lease = got.Leases[0]
				}
				err = c.release(got.Names[0])
			}
			if err != nil {
				failed <- fmt.Errorf("waiter %d: %w", i, err)
			}
		})
	}
	begin := time.Now()
	for i, c := range holders {
		err = errors.Join(err, c.release(names[i]))
	}
	if err != nil {
		waiters.close() // otherwise they would wait forever
	}
	running.Wait()
	rate = float64(len(waiters)) / time.Since(begin).Seconds()
	close(failed)
	return rate, grants, errors.Join(err, <-failed)
}

func (w *wire) release(name string) error {
	if err := w.releasing(name); err != nil {
		return err
	}
	_, err := w.answer()
	return err
}

// grant is the lease of a waiter, with the number of waiters that arrived before it.
type grant struct {
	arrived int
	lease   leaseapi.Lease
}

// outOfOrder counts the grants to waiters that had certainly arrived before a waiter that was
// granted earlier. Generations show the order of the grants.
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
