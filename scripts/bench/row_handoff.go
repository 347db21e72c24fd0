package main

import (
	"context"
	"errors"
	"math/rand/v2"
	"net/http"
	"time"

	"github.com/leasectl/leasectl/leaseapi"
)

const (
	// Fewer than 20,000 hand-offs of a server have a 99th percentile that depends on what else the
	// machine did at the time.
	handOffRounds = 200
	handOffsEach  = 100 // in a round, of a server
	// durableEvery is in how many rounds the durable server is measured once: it has no budget, and
	// waits for the disk.
	durableEvery = 10
	// pollEvery is how often a client that polls asks, as clients of the deployed proxy do.
	pollEvery   = 3 * time.Second
	pollSamples = 5
)

// measureHandOff measures how long a free lease is idle while a client waits for it.
func measureHandOff(ctx context.Context, w *world) (_ []result, err error) {
	ours, err := w.serve(ctx, "--pool", "one=1")
	if err != nil {
		return nil, err
	}
	defer func() { err = errors.Join(err, ours.stop()) }()
	durable, err := w.serveDurable(ctx, "--pool", "one=1")
	if err != nil {
		return nil, err
	}
	defer func() { err = errors.Join(err, durable.stop()) }()
	bare, err := w.bare(ctx, "channels")
	if err != nil {
		return nil, err
	}
	defer func() { err = errors.Join(err, bare.stop()) }()

	servers := []*server{ours, durable, bare}
	took := make([][]float64, len(servers))
	for round := range handOffRounds + 1 {
		for _, i := range rand.Perm(len(servers)) {
			s := servers[i]
			if s == durable && round%durableEvery != 0 {
				continue
			}
			if err := ctx.Err(); err != nil {
				return nil, err
			}
			values, err := handOffs(s.addr, handOffsEach)
			if err != nil {
				return nil, err
			}
			if round > 0 {
				took[i] = append(took[i], values...)
			}
		}
	}
	polled, err := polledHandOffs(ours.addr)
	if err != nil {
		return nil, err
	}
	middle := result{
		What: "hand-off of a release to who waits, median", Unit: inSeconds, Ours: median("leasectl", took[0]),
		Peers: []measure{median("bare channels", took[2]), median("leasectl --data", took[1]), median("client that polls every 3 s", polled)},
	}
	middle.budget("bare channels", atMost(1.3).missedTo(1.55))
	late := result{
		What: "hand-off, 99th percentile", Unit: inSeconds, Ours: quantile("leasectl", took[0], 0.99),
		Peers: []measure{quantile("bare channels", took[2], 0.99), quantile("leasectl --data", took[1], 0.99)},
	}
	late.budget("bare channels", atMost(1.5))
	return []result{middle, late}, nil
}

// handOffs lets two clients hand the only lease to each other n times, and returns how many
// seconds each time took.
func handOffs(addr string, n int) ([]float64, error) {
	var clients [3]*wire
	for i := range clients {
		c, err := dial(addr)
		if err != nil {
			return nil, err
		}
		defer c.close()
		clients[i] = c
	}
	holder, waiter, watcher := clients[0], clients[1], clients[2]
	if err := holder.acquiring("one"); err != nil {
		return nil, err
	}
	if _, err := holder.granted(); err != nil {
		return nil, err
	}
	var took []float64
	for range n {
		if err := waiter.acquiring("one"); err != nil {
			return nil, err
		}
		for waiting := 0; waiting == 0; {
			var err error
			if waiting, err = watcher.waiting(); err != nil {
				return nil, err
			}
		}
		begin := time.Now()
		if err := holder.releasing("one-0"); err != nil {
			return nil, err
		}
		if _, err := waiter.granted(); err != nil {
			return nil, err
		}
		took = append(took, time.Since(begin).Seconds())
		if _, err := holder.answer(); err != nil {
			return nil, err
		}
		holder, waiter = waiter, holder
	}
	err := holder.releasing("one-0")
	if err == nil {
		_, err = holder.answer()
	}
	return took, err
}

// polledHandOffs measures the same with a waiter that asks every three seconds. The releases
// are spread evenly over the time between two of its requests.
func polledHandOffs(addr string) ([]float64, error) {
	holder, err := dial(addr)
	if err != nil {
		return nil, err
	}
	defer holder.close()
	waiter, err := dial(addr)
	if err != nil {
		return nil, err
	}
	defer waiter.close()
	const try = `{"type":"one","wait":"0s"}`
	var took []float64
	for i := range pollSamples {
		if _, err := holder.call(http.MethodPost, leaseapi.PathAcquire, try); err != nil {
			return nil, err
		}
		if _, err := waiter.call(http.MethodPost, leaseapi.PathAcquire, try); err == nil {
			return nil, errors.New("a lease that is held was granted")
		}
		ask := time.NewTimer(pollEvery)
		time.Sleep(pollEvery * time.Duration(2*i+1) / (2 * pollSamples))
		begin := time.Now()
		if _, err := holder.call(http.MethodPost, leaseapi.PathRelease, `{"names":["one-0"]}`); err != nil {
			return nil, err
		}
		<-ask.C
		if _, err := waiter.call(http.MethodPost, leaseapi.PathAcquire, try); err != nil {
			return nil, err
		}
		took = append(took, time.Since(begin).Seconds())
		if _, err := waiter.call(http.MethodPost, leaseapi.PathRelease, `{"names":["one-0"]}`); err != nil {
			return nil, err
		}
	}
	return took, nil
}
