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
	pairRounds = 9
	pairWindow = 300 * time.Millisecond // of each server in each round
)

// deployedPairs is the number of pairs a second of the deployed proxy over Boskos, with 64
// clients, on a machine of two cores like ours. It cannot be run here: it needs a cluster.
const deployedPairs = 390

// pairsOf measures how many acquires and releases a second a durable server does for that many
// clients, each of which sends one request after the other.
func pairsOf(clients int) func(context.Context, *world) ([]result, error) {
	return func(ctx context.Context, w *world) (_ []result, failed error) {
		type rival struct {
			name    string
			start   func() (pairRate, func() error, error)
			missing string
			rate    pairRate
			rates   []float64
		}
		// serving makes a start of a server whose clients have a connection each.
		serving := func(start func() (*server, error), pair func(c *wire, n int) error) func() (pairRate, func() error, error) {
			return func() (pairRate, func() error, error) {
				s, err := start()
				if err != nil {
					return nil, nil, err
				}
				return func() (float64, error) { return throughput(s.addr, clients, pairWindow, pair) }, s.stop, nil
			}
		}
		version1 := func(c *wire, _ int) error { return c.pair("many") }
		const update, batch, redis = "bare bbolt Update", "bare bbolt Batch", "Redis, appendfsync always"
		all := []*rival{
			{name: "leasectl --data", start: serving(func() (*server, error) { return w.serveDurable(ctx, "--pool", "many=64") }, version1)},
			{name: update, start: serving(func() (*server, error) { return w.bare(ctx, "update") }, version1)},
			{name: batch, start: serving(func() (*server, error) { return w.bare(ctx, "batch") }, version1)},
			{name: "etcd txn", start: serving(func() (*server, error) { return w.etcd(ctx) }, etcdPair), missing: lacks("etcd")},
			{name: redis, start: serving(func() (*server, error) { return w.redis(ctx) }, redisPair), missing: lacks("redis-server")},
			{name: "bare fdatasyncs of a log, without a server", start: func() (pairRate, func() error, error) {
				log, err := newBareLog(w.fresh("log"))
				if err != nil {
					return nil, nil, err
				}
				txns := newFencedTxns(log.commit)
				return func() (float64, error) { return txns.pairs(clients, pairWindow) }, log.close, nil
			}},
		}
		for _, a := range all {
			if a.missing != "" {
				continue
			}
			rate, stop, err := a.start()
			if err != nil {
				return nil, err
			}
			a.rate = rate
			defer func() { failed = errors.Join(failed, stop()) }()
		}
		for round := range pairRounds + 1 {
			// In a random order: etcd goes on writing for a while, which must not slow the same
			// rival in each round.
			for _, i := range rand.Perm(len(all)) {
				a := all[i]
				if a.missing != "" {
					continue
				}
				rate, err := a.rate()
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
		best := update // of the two ways to use bbolt
		if r.Peers[1].Value > r.Peers[0].Value {
			best = batch
		}
		r.budget(best, pairsBudget[clients])
		if clients == 1 {
			r.budget(redis, atLeast(1).missedTo(0.4))
		}
		if clients == 64 {
			r.Peers = append(r.Peers, measure{Name: "deployed proxy (quoted, not run)", Value: deployedPairs, Limit: atLeast(10)})
		}
		return []result{r}, nil
	}
}

// pairRate measures the pairs per second for a while.
type pairRate func() (float64, error)

// pairsBudget is the required part of the rate of bare bbolt, by clients. A single client has nobody
// to share a transaction with, and so pays for everything else that a lease proxy does.
var pairsBudget = map[int]*limit{1: atLeast(0.9).missedTo(0.75), 16: atLeast(1.5), 64: atLeast(1)}

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
