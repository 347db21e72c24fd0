package main

import (
	"bufio"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"math/rand/v2"
	"net"
	"net/http"
	"os"
	"os/exec"
	"strings"
	"time"

	"github.com/leasectl/leasectl/internal/pool"
	"github.com/leasectl/leasectl/leaseapi"
)

// The next order of magnitude: what breaks first is to be seen before somebody has so many.
const (
	many           = 100_000
	manyRestart    = 3 // seconds
	manyRestarts   = 2
	manyPages      = 21
	manyPlaces     = 500 // requests that are asked for their place
	manyPairRounds = 11
	manyPairs      = 0.8 // of the pairs a second of an empty server
	manySpare      = 64  // leases that nobody holds: a pool has 100,000 names at most
)

// measureManyWaiters measures a queue of 100,000. What the waiters' connections cost is measured in
// this process, over connections in memory. The rest is measured on a real server that begins with
// such a queue.
func measureManyWaiters(ctx context.Context, w *world) ([]result, error) {
	config := pool.Config{Type: "many", Names: pool.Numbered("many", drainCapacity), MaxWaiters: many}
	var all [2]crowded
	for i, name := range []string{"leasectl", "channels"} {
		var err error
		if all[i], err = w.hosted(ctx, name); err != nil {
			return nil, err
		}
	}
	pair := func(value func(crowded) float64) (ours measure, bare []measure) {
		return median("leasectl", []float64{value(all[0])}), []measure{median("bare channels", []float64{value(all[1])})}
	}
	size := result{What: "server memory for each waiter, without its connection", Unit: inBytes, Limit: atMost(22 << 10)}
	size.Ours, size.Peers = pair(func(c crowded) float64 { return c.Memory })
	drained := result{What: "pairs while they drain, in memory, client and server in one process", Unit: perSecond}
	drained.Ours, drained.Peers = pair(func(c crowded) float64 { return c.Rate })
	order := result{What: "grants out of order while they drain", Unit: number, Limit: atMost(0),
		Ours: one("leasectl", float64(all[0].Disorder))}

	dir := w.fresh("data")
	if err := fill(dir, config, drainCapacity, many); err != nil {
		return nil, err
	}
	real, err := w.measureMany(ctx, dir, drainCapacity, func(s *server, c *wire) ([]result, error) {
		var took []float64
		for range manyPlaces {
			i := drainCapacity + rand.IntN(many)
			begin := time.Now()
			text, err := c.call(http.MethodGet, leaseapi.PathRequests+manyID(i), "")
			if err != nil {
				return nil, err
			}
			took = append(took, time.Since(begin).Seconds())
			var reply leaseapi.RequestReply
			if err := json.Unmarshal(text, &reply); err != nil {
				return nil, err
			}
			if reply.Place != i-drainCapacity+1 {
				return nil, fmt.Errorf("waiter %d of the queue has place %d", i-drainCapacity+1, reply.Place)
			}
		}
		return []result{{What: "place and estimate of a waiter", Unit: inSeconds, Ours: median("leasectl", took)}}, nil
	})
	return append([]result{size, drained, order}, real...), err
}

// crowded is what a process measures that has many waiters; see [runHosted].
type crowded struct {
	Memory   float64 // bytes for each waiter
	Rate     float64 // pairs per second while they drain
	Disorder int     // grants out of order
}

// hosted measures in a process of its own, whose memory is fresh.
func (w *world) hosted(ctx context.Context, name string) (c crowded, err error) {
	cmd := exec.CommandContext(ctx, w.self, "-hosted", name)
	cmd.Env = w.environment()
	cmd.SysProcAttr = dyingWithUs()
	var stderr strings.Builder
	cmd.Stderr = &stderr
	text, err := cmd.Output()
	if err != nil {
		return c, fmt.Errorf("%d waiters of %s: %w: %s", many, name, err, &stderr)
	}
	return c, json.Unmarshal(text, &c)
}

// runHosted lets many clients of this process wait for a server of this process, and drains them.
func runHosted(ctx context.Context, name string, waiters int, out io.Writer) (err error) {
	capacity := bareCapacity
	var h *hosted
	var stop func() error
	switch name {
	case "leasectl":
		capacity = drainCapacity
		h, stop, err = hostOurs(pool.Config{Type: "many", Names: pool.Numbered("many", capacity), MaxWaiters: waiters})
	case "channels":
		h = host(newBare(noLedger{}))
		stop = h.close
	default:
		err = fmt.Errorf("-hosted %q: want leasectl or channels", name)
	}
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, stop()) }()
	holders, names, err := hold(h.dial, capacity)
	defer holders.close()
	if err != nil {
		return err
	}
	ours, its := make(queue, waiters+1), make([]net.Conn, waiters+1) // lineUp has one to watch
	for i := range ours {
		client, server := net.Pipe()
		ours[i], its[i] = &wire{client, bufio.NewReaderSize(client, 1<<10)}, server
	}
	before, err := usageOf(os.Getpid())
	if err != nil {
		return err
	}
	next := 0
	q, err := lineUp(ctx, func() (*wire, error) {
		next++
		return ours[next-1], h.connect(its[next-1])
	}, "many", waiters)
	defer q.close()
	if err != nil {
		return err
	}
	full, err := usageOf(os.Getpid())
	if err != nil {
		return err
	}
	rate, grants, err := drain(holders, names, q)
	if err != nil {
		return err
	}
	return json.NewEncoder(out).Encode(crowded{(full.memory - before.memory) / float64(waiters), rate, outOfOrder(grants)})
}

// measureManyLeases measures a server whose pool has 100,000 leases held.
func measureManyLeases(ctx context.Context, w *world) (_ []result, err error) {
	config := pool.Config{Type: "many", Names: pool.Numbered("many", many)}
	dir, empty := w.fresh("data"), w.fresh("data")
	if err := errors.Join(fill(dir, config, many-manySpare, 0), fill(empty, config, 0, 0)); err != nil {
		return nil, err
	}
	peer, _, err := w.startMany(ctx, empty, many, 1)
	if err != nil {
		return nil, err
	}
	defer func() { err = errors.Join(err, peer.stop()) }()
	return w.measureMany(ctx, dir, many, func(s *server, c *wire) ([]result, error) {
		rates := make([][]float64, 2)
		for round := range manyPairRounds + 1 {
			for _, i := range rand.Perm(2) {
				addr := []string{s.addr, peer.addr}[i]
				rate, err := throughput(addr, 16, pairWindow, func(c *wire, _ int) error { return c.pair("many") })
				if err != nil {
					return nil, err
				}
				if round > 0 {
					rates[i] = append(rates[i], rate)
				}
			}
		}
		pairs := resultOf("durable acquire + release, 16 at once", perSecond, []measure{median("leasectl", rates[0]), median("an empty server", rates[1])})
		pairs.budget("an empty server", atLeast(manyPairs))
		return []result{pairs}, nil
	})
}

// measureMany measures what both rows ask of a real server that begins with the content of dir, and
// what more says.
func (w *world) measureMany(ctx context.Context, dir string, capacity int, more func(*server, *wire) ([]result, error)) (_ []result, err error) {
	var starts, cpu []float64
	var s *server
	for range manyRestarts {
		if s != nil {
			if err := s.stop(); err != nil {
				return nil, err
			}
		}
		var took time.Duration
		if s, took, err = w.startMany(ctx, dir, capacity, many); err != nil {
			return nil, err
		}
		u, err := s.usage()
		if err != nil {
			return nil, errors.Join(err, s.stop())
		}
		starts, cpu = append(starts, took.Seconds()), append(cpu, u.cpu)
	}
	defer func() { err = errors.Join(err, s.stop()) }()
	c, err := dial(s.addr)
	if err != nil {
		return nil, err
	}
	defer c.close()
	before, err := c.pool()
	if err != nil {
		return nil, err
	}
	results, err := more(s, c)
	if err != nil {
		return nil, err
	}
	took, err := c.firstBytesOf(manyPages, leaseapi.PathPools, "/ui/pools/many")
	if err != nil {
		return nil, err
	}
	begin := time.Now()
	leases, waiters, err := c.listAll()
	if err == nil && (leases != before.InUse || waiters == 0 && before.Waiting > 0) { // of a long queue, only the first waiters are listed
		err = fmt.Errorf("the pages of %s have %d leases and %d waiters of %d and %d", leaseapi.PathPools, leases, waiters, before.InUse, before.Waiting)
	}
	if err != nil {
		return nil, err
	}
	listed := time.Since(begin)
	begin = time.Now()
	size, err := s.backup(w.fresh("backup"))
	if err != nil {
		return nil, err
	}
	copied := time.Since(begin)
	once := func(what string, u unit, x float64) result {
		return result{What: what, Unit: u, Ours: one("leasectl", x)}
	}
	page := median("a page of "+leaseapi.PathPools, took[0])
	page.Limit = atMost(pageSlower)
	return append([]result{
		{What: "from the start of a server to its first answer", Unit: inSeconds, Ours: median("leasectl", starts), Limit: atMost(manyRestart)},
		{What: "… CPU time until then", Unit: inSeconds, Ours: median("leasectl", cpu)},
	}, append(results,
		result{What: "first byte of the page of the pool", Unit: inSeconds, Ours: median("leasectl", took[1]), Peers: []measure{page}},
		once("all pages of "+leaseapi.PathPools, inSeconds, listed.Seconds()),
		once("a backup", inSeconds, copied.Seconds()),
		once("… its size", inBytes, float64(size)),
	)...), nil
}
