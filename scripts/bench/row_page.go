package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"os"
	"strings"
	"sync"
	"time"

	"github.com/leasectl/leasectl/leaseapi"
)

const (
	pagePools    = 400
	pageWaiters  = 10_000
	pageRounds   = 31
	openPages    = 10
	openRounds   = 8
	openClients  = 16
	openWindow   = time.Second // long enough that each open page changes
	pageSlower   = 5           // how many times longer than for a page of /pools the first byte may take
	pageFraction = 0.95        // of the pairs a second without open pages
)

// measurePage measures the cost of the status page: to make it for a full server, and to keep
// it open beside work.
func measurePage(ctx context.Context, w *world) ([]result, error) {
	bytes, err := w.firstBytes(ctx, pagePools, pageWaiters, pageRounds)
	if err != nil {
		return nil, err
	}
	pairs, err := w.pairsBesidePages(ctx, openRounds, openWindow)
	return append(bytes, pairs), err
}

// firstBytes measures how long a page takes to its first byte, beside a page of /pools. The
// server has that many pools, and that many waiters, all in the first pool.
func (w *world) firstBytes(ctx context.Context, pools, waiters, rounds int) (results []result, err error) {
	var config strings.Builder
	config.WriteString("resources:\n")
	for i := range pools {
		fmt.Fprintf(&config, "- {type: pool-%03d, min-count: 1, max-count: 1}\n", i)
	}
	path := w.fresh("config")
	if err := os.WriteFile(path, []byte(config.String()), 0o600); err != nil {
		return nil, err
	}
	s, err := w.serve(ctx, "--config", path)
	if err != nil {
		return nil, err
	}
	defer func() { err = errors.Join(err, s.stop()) }()
	c, err := dial(s.addr)
	if err != nil {
		return nil, err
	}
	defer c.close()
	const first = "pool-000"
	if err := c.acquiring(first); err != nil {
		return nil, err
	}
	if _, err := c.granted(); err != nil {
		return nil, err
	}
	queue, err := line(ctx, s.addr, first, waiters)
	defer queue.close()
	if err != nil {
		return nil, err
	}
	targets := []string{leaseapi.PathPools, "/", "/ui/pools/" + first}
	took := make([][]float64, len(targets))
	for round := range rounds + 1 {
		for i, target := range targets {
			d, err := c.firstByte(target)
			if err != nil {
				return nil, err
			}
			if round > 0 {
				took[i] = append(took[i], d.Seconds())
			}
		}
	}
	for i, what := range []string{"the page of all pools", "the page of a pool"} {
		peer := median("a page of "+leaseapi.PathPools, took[0])
		peer.Limit = atMost(pageSlower)
		results = append(results, result{What: fmt.Sprintf("first byte of %s, %d pools, %d waiters", what, pools, waiters), Unit: inSeconds,
			Ours: median("leasectl", took[i+1]), Peers: []measure{peer}})
	}
	return results, nil
}

// firstByte returns the time from a request to the first byte of its answer.
func (w *wire) firstByte(target string) (time.Duration, error) {
	begin := time.Now()
	if err := w.send(http.MethodGet, target, ""); err != nil {
		return 0, err
	}
	if _, err := w.r.Peek(1); err != nil {
		return 0, err
	}
	took := time.Since(begin)
	_, err := w.answer()
	return took, err
}

// pairsBesidePages measures durable pairs a second while browsers are told of changes, beside
// pairs without open pages, in turns on one server.
func (w *world) pairsBesidePages(ctx context.Context, rounds int, window time.Duration) (r result, err error) {
	s, err := w.serveDurable(ctx, "--pool", "many=64")
	if err != nil {
		return r, err
	}
	defer func() { err = errors.Join(err, s.stop()) }()
	var rates [2][]float64
	for round := range rounds + 1 {
		for i, pages := range []int{openPages, 0} {
			rate, err := pairsBeside(s.addr, pages, window)
			if err != nil {
				return r, err
			}
			if round > 0 {
				rates[i] = append(rates[i], rate)
			}
		}
	}
	alone := median("no page is open", rates[1])
	alone.Limit = atLeast(pageFraction)
	return result{What: fmt.Sprintf("durable acquire + release, %d at once, %d pages open", openClients, openPages), Unit: perSecond,
		Ours: median("leasectl", rates[0]), Peers: []measure{alone}}, nil
}

// pairsBeside measures a window of pairs with that many pages open: half show all pools, half
// the pool that is used.
func pairsBeside(addr string, pages int, window time.Duration) (rate float64, err error) {
	var browsers sync.WaitGroup
	defer browsers.Wait()
	for i := range pages {
		c, err := dial(addr)
		if err != nil {
			return 0, err
		}
		defer c.close() // runs before browsers.Wait
		if err := c.watch([]string{"/", "/ui/pools/many"}[i%2]); err != nil {
			return 0, err
		}
		browsers.Go(func() { io.Copy(io.Discard, c.r) })
	}
	return throughput(addr, openClients, window, func(c *wire, _ int) error { return c.pair("many") })
}

// watch opens a live page, and returns when its first parts have arrived. The rest can be read
// from w.r.
func (w *wire) watch(page string) error {
	if err := w.send(http.MethodGet, "/ui/live?of="+url.QueryEscape(page), ""); err != nil {
		return err
	}
	var head string
	for {
		text, err := w.r.ReadString('\n')
		if err != nil {
			return fmt.Errorf("live page %s: %w: %s", page, err, head)
		}
		if strings.HasPrefix(text, "event: part") {
			return nil
		}
		head += text
	}
}
