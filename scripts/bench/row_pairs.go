package main

import (
	"context"
	"encoding/base64"
	"errors"
	"fmt"
	"math/rand/v2"
	"net/http"
	"sync"
	"sync/atomic"
	"time"
)

const (
	pairRounds = 21
	pairWindow = 300 * time.Millisecond // of each server in each round
)

// deployedPairs is the number of pairs a second of the deployed proxy over Boskos, with 64
// clients, on a machine of two cores like ours. It cannot be run here: it needs a cluster.
const deployedPairs = 390

// pairsOf measures how many acquires and releases a second a durable server does for that many
// clients, each of which sends one request after the other.
func pairsOf(clients int) func(context.Context, *world) ([]result, error) {
	return func(ctx context.Context, w *world) (_ []result, err error) {
		type rival struct {
			name    string
			start   func() (*server, error)
			pair    func(c *wire, n int) error
			missing string
			server  *server
			rates   []float64
		}
		version1 := func(c *wire, _ int) error { return c.pair("many") }
		all := []*rival{
			{name: "leasectl --data", start: func() (*server, error) { return w.serveDurable(ctx, "--pool", "many=64") }, pair: version1},
			{name: "bare bbolt Update", start: func() (*server, error) { return w.bare(ctx, "update") }, pair: version1},
			{name: "bare bbolt Batch", start: func() (*server, error) { return w.bare(ctx, "batch") }, pair: version1},
			{name: "etcd txn", start: func() (*server, error) { return w.etcd(ctx) }, pair: etcdPair, missing: lacks("etcd")},
		}
		for _, a := range all {
			if a.missing != "" {
				continue
			}
			if a.server, err = a.start(); err != nil {
				return nil, err
			}
			defer func() { err = errors.Join(err, a.server.stop()) }()
		}
		for round := range pairRounds + 1 {
			// In a random order: etcd goes on writing for a while, which must not slow the same
			// rival in each round.
			for _, i := range rand.Perm(len(all)) {
				a := all[i]
				if a.missing != "" {
					continue
				}
				rate, err := throughput(a.server.addr, clients, pairWindow, a.pair)
				if err != nil {
					return nil, fmt.Errorf("%s: %w", a.name, err)
				}
				if round > 0 {
					a.rates = append(a.rates, rate)
				}
			}
		}
		var measures []measure
		for _, a := range all {
			measures = append(measures, medianUnless(a.missing, a.name, a.rates))
		}
		r := resultOf(fmt.Sprintf("durable acquire + release, %d at once", clients), perSecond, measures)
		best := &r.Peers[0] // of the two ways to use bbolt
		if r.Peers[1].Value > best.Value {
			best = &r.Peers[1]
		}
		best.Limit = atLeast(pairsBudget(clients))
		if clients == 64 {
			r.Peers = append(r.Peers, measure{Name: "deployed proxy (quoted, not run)", Value: deployedPairs, Limit: atLeast(10)})
		}
		return []result{r}, nil
	}
}

// pairsBudget is the required part of the rate of bare bbolt. A single client has nobody to
// share a transaction with, and so pays for everything else that a lease proxy does.
func pairsBudget(clients int) float64 {
	if clients == 1 {
		return 0.85
	}
	return 1
}

// throughput runs pair on that many connections for a window of time, and returns the pairs per
// second.
func throughput(addr string, clients int, window time.Duration, pair func(c *wire, n int) error) (float64, error) {
	return pairsPerSecond(clients, window, func(n int, repeat func(pair func() error) error) error {
		c, err := dial(addr)
		if err != nil {
			return err
		}
		defer c.close()
		return repeat(func() error { return pair(c, n) })
	})
}

// pairsPerSecond runs that many clients at once, each with a number of its own. A client passes
// its pair to repeat, which makes pairs until the window of time is over or a pair fails.
func pairsPerSecond(clients int, window time.Duration, client func(n int, repeat func(pair func() error) error) error) (float64, error) {
	var done atomic.Int64
	var running sync.WaitGroup
	failed := make(chan error, clients)
	begin := time.Now()
	repeat := func(pair func() error) error {
		for time.Since(begin) < window {
			if err := pair(); err != nil {
				return err
			}
			done.Add(1)
		}
		return nil
	}
	for n := range clients {
		running.Go(func() {
			if err := client(n, repeat); err != nil {
				failed <- err
			}
		})
	}
	running.Wait()
	took := time.Since(begin)
	close(failed)
	return float64(done.Load()) / took.Seconds(), <-failed
}

// etcdPair takes and releases a key of its own like a lock: it creates the key if it does not
// exist, and removes it.
func etcdPair(c *wire, n int) error {
	key := base64.StdEncoding.EncodeToString(fmt.Appendf(nil, "lease-%d", n))
	body := fmt.Sprintf(`{"compare":[{"target":"CREATE","key":%q,"createRevision":"0"}],"success":[{"requestPut":{"key":%q,"value":"aGVsZA=="}}]}`, key, key)
	if _, err := c.call(http.MethodPost, "/v3/kv/txn", body); err != nil {
		return err
	}
	_, err := c.call(http.MethodPost, "/v3/kv/deleterange", fmt.Sprintf(`{"key":%q}`, key))
	return err
}
