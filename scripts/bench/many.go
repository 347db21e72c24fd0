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
	"net/url"
	"os"
	"sync"
	"time"

	"github.com/leasectl/leasectl/internal/pool"
	"github.com/leasectl/leasectl/internal/proxyserver"
	"github.com/leasectl/leasectl/internal/proxyserver/store"
	"github.com/leasectl/leasectl/internal/proxyserver/store/bolt"
	"github.com/leasectl/leasectl/leaseapi"
)

// hosted serves a handler in this process to clients in this process, over connections in memory.
// Few machines let a process have a descriptor for each of 100,000 connections.
type hosted struct {
	http  http.Server
	conns chan net.Conn
	done  chan struct{}
	once  sync.Once
}

func host(handler http.Handler) *hosted {
	h := &hosted{http: http.Server{Handler: handler}, conns: make(chan net.Conn), done: make(chan struct{})}
	go h.http.Serve(h) // until close
	return h
}

// Accept returns the server's end of the next connection.
func (h *hosted) Accept() (net.Conn, error) {
	select {
	case c := <-h.conns:
		return c, nil
	case <-h.done:
		return nil, net.ErrClosed
	}
}

// Close ends Accept.
func (h *hosted) Close() error {
	h.once.Do(func() { close(h.done) })
	return nil
}

// Addr is there to make h a listener.
func (h *hosted) Addr() net.Addr { return &net.UnixAddr{Net: "memory"} }

func (h *hosted) dial() (*wire, error) {
	ours, its := net.Pipe()
	return &wire{ours, bufio.NewReaderSize(ours, 1<<10)}, h.connect(its)
}

// connect gives the server its end of a connection.
func (h *hosted) connect(its net.Conn) error {
	select {
	case h.conns <- its:
		return nil
	case <-h.done:
		return net.ErrClosed
	}
}

// close ends all connections. Handlers notice that their clients are gone.
func (h *hosted) close() error { return h.http.Close() }

// hostOurs runs a server without a store in this process, and returns how to stop it.
func hostOurs(config pool.Config) (h *hosted, stop func() error, err error) {
	server, err := proxyserver.New(proxyserver.Options{Pools: []pool.Config{config}})
	if err != nil {
		return nil, nil, err
	}
	// The server's own listener is unused: it accepts no more connections than there are descriptors.
	ctx, cancel := context.WithCancel(context.Background())
	ended := make(chan error, 1)
	go func() { ended <- server.Serve(ctx) }()
	h = host(server)
	return h, func() error {
		err := h.close()
		cancel()
		return errors.Join(err, <-ended)
	}, nil
}

// fill makes the directory of a server whose pool has that many leases held and waiters queued, all
// in one commit.
func fill(dir string, config pool.Config, leases, waiters int) (err error) {
	if err := os.Mkdir(dir, 0o700); err != nil {
		return err
	}
	s, err := bolt.Open(dir)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, s.Close()) }()
	snap, err := s.Load()
	if err != nil {
		return err
	}
	set, err := pool.New([]pool.Config{config}, snap, pool.PriorityAging)
	if err != nil {
		return err
	}
	now := snap.Clock
	for i := range leases + waiters {
		granted, err := set.Acquire(now, pool.Request{ID: manyID(i), Type: config.Type, Owner: fmt.Sprint("job-", i), TTL: time.Hour})
		if err == nil && (len(granted) > 0) != (i < leases) {
			err = fmt.Errorf("request %d of %d: %d leases were granted", i, leases+waiters, len(granted))
		}
		if err != nil {
			return err
		}
		if len(granted) > 0 { // firm, as after the first renewal
			set.Renew(now, pool.Ref{Name: granted[0].Name, Generation: granted[0].Generation}, 0)
		}
	}
	b := store.Batch{Changes: set.Drain(), Clock: now, Generation: snap.Generation}
	for _, c := range b.Changes {
		for _, l := range c.Leases {
			b.Generation = max(b.Generation, l.Generation)
		}
	}
	return s.Commit(b)
}

// manyID is the id of the request with index i.
func manyID(i int) string { return fmt.Sprintf("many-request-%06d", i) }

// startMany starts a real server from a directory, and returns how long it took to answer. Its
// pool has the names of [pool.Numbered].
func (w *world) startMany(ctx context.Context, dir string, capacity, waiters int) (s *server, took time.Duration, err error) {
	path := w.fresh("config")
	config := fmt.Sprintf("resources:\n- {type: many, state: free, min-count: %d, max-count: %[1]d, max_waiters: %d}\n", capacity, waiters)
	if err := os.WriteFile(path, []byte(config), 0o600); err != nil {
		return nil, 0, err
	}
	begin := time.Now()
	s, err = w.serve(ctx, "--config", path, "--data", dir)
	if err != nil {
		return nil, 0, err
	}
	c, err := dial(s.addr)
	if err == nil {
		_, err = c.pool()
		took = time.Since(begin)
		c.close()
	}
	if err != nil {
		return nil, 0, errors.Join(err, s.stop())
	}
	return s, took, nil
}

// firstBytesOf measures how long each target takes to its first byte, in random turns.
func (w *wire) firstBytesOf(rounds int, targets ...string) ([][]float64, error) {
	took := make([][]float64, len(targets))
	for round := range rounds + 1 {
		for _, i := range rand.Perm(len(targets)) {
			d, err := w.firstByte(targets[i])
			if err != nil {
				return nil, err
			}
			if round > 0 {
				took[i] = append(took[i], d.Seconds())
			}
		}
	}
	return took, nil
}

// listAll reads all pages of /pools, and returns how many leases and waiters they have.
func (w *wire) listAll() (leases, waiters int, err error) {
	for after := ""; ; {
		target := leaseapi.PathPools
		if after != "" {
			target += "?" + url.Values{leaseapi.ParamAfter: {after}}.Encode()
		}
		text, err := w.call(http.MethodGet, target, "")
		if err != nil {
			return 0, 0, err
		}
		var page leaseapi.PoolsReply
		if err := json.Unmarshal(text, &page); err != nil {
			return 0, 0, err
		}
		for _, p := range page.Pools {
			leases, waiters = leases+len(p.Leases), waiters+len(p.Waiters)
		}
		if after = page.Next; after == "" {
			return leases, waiters, nil
		}
	}
}

// backup reads a backup into a file, and returns its size.
func (s *server) backup(path string) (int64, error) {
	resp, err := http.Post(s.url+leaseapi.PathBackup, "", nil)
	if err != nil {
		return 0, err
	}
	defer resp.Body.Close()
	if resp.StatusCode != http.StatusOK {
		return 0, fmt.Errorf("backup: %s", resp.Status)
	}
	f, err := os.Create(path)
	if err != nil {
		return 0, err
	}
	n, err := io.Copy(f, resp.Body)
	return n, errors.Join(err, f.Close())
}
