package main

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"os"
	"path/filepath"
	"strconv"
	"sync/atomic"

	"github.com/leasectl/leasectl/internal/pool"
	"github.com/leasectl/leasectl/leaseapi"
)

const (
	// A server remembers a million requests that have ended ([pool.MaxEnded]). Until then it grows.
	millionPart    = pool.MaxEnded / 5 // pairs after which the state is looked at
	millionParts   = 6
	millionClients = 64
	// millionMemory and millionStore are the most bytes for each of the remembered requests. Half of
	// the memory may be garbage: Go collects it when it is as much as what is in use.
	millionMemory, millionStore = 1 << 10, 400
	millionGrowth               = 1.1 // of the store and the descriptors, after the first million
)

// footprint is what a server takes.
type footprint struct{ memory, descriptors, store float64 }

// measureMillion measures what is left of leases that were taken and given back, each under a
// request id of its own, as leasectl asks.
func measureMillion(ctx context.Context, w *world) (_ []result, err error) {
	dir := w.fresh("data")
	s, err := w.serve(ctx, "--pool", "many=64", "--data", dir)
	if err != nil {
		return nil, err
	}
	defer func() { err = errors.Join(err, s.stop()) }()
	idle, err := s.footprint(dir)
	if err != nil {
		return nil, err
	}
	var all []footprint
	var serial atomic.Int64
	for part := range millionParts {
		if err := ctx.Err(); err != nil {
			return nil, err
		}
		end := int64(millionPart * (part + 1))
		if err := inParallel(s.addr, millionClients, func(c *wire) error {
			for n := serial.Add(1); n <= end; n = serial.Add(1) {
				if err := c.pairOf(n); err != nil {
					return err
				}
			}
			serial.Add(-1) // not taken
			return nil
		}); err != nil {
			return nil, err
		}
		f, err := s.footprint(dir)
		if err != nil {
			return nil, err
		}
		all = append(all, f)
	}
	var results []result
	for _, line := range []struct {
		what  string
		unit  unit
		value func(footprint) float64
		limit *limit // alone
		grown *limit
	}{
		{"server memory", inBytes, func(f footprint) float64 { return f.memory }, atMost(pool.MaxEnded * millionMemory), nil},
		{"descriptors", number, func(f footprint) float64 { return f.descriptors }, atMost(millionClients / 2), atMost(millionGrowth)},
		{"size of the store", inBytes, func(f footprint) float64 { return f.store }, atMost(pool.MaxEnded * millionStore), atMost(millionGrowth)},
	} {
		once := func(name string, f footprint) measure { return one(name, line.value(f)) }
		const last = millionParts - 1
		r := result{What: fmt.Sprintf("%s after %d acquires and releases", line.what, millionParts*millionPart), Unit: line.unit,
			Ours: once("leasectl", all[last]), Limit: line.limit}
		for part := last - 1; part >= 0; part-- {
			r.Peers = append(r.Peers, once(fmt.Sprintf("after %d", millionPart*(part+1)), all[part]))
		}
		r.Peers[0].Limit = line.grown
		r.Peers = append(r.Peers, once("before", idle))
		results = append(results, r)
	}
	return results, nil
}

// inParallel runs f on that many connections at once.
func inParallel(addr string, clients int, f func(*wire) error) error {
	failed := make(chan error, clients)
	for range clients {
		go func() {
			c, err := dial(addr)
			if err == nil {
				err = f(c)
				c.close()
			}
			failed <- err
		}()
	}
	var errs []error
	for range clients {
		errs = append(errs, <-failed)
	}
	return errors.Join(errs...)
}

// pairOf takes and gives back a lease under a request id.
func (w *wire) pairOf(n int64) error {
	id := "million-pairs-" + strconv.FormatInt(n, 10)
	text, err := w.call(http.MethodPost, leaseapi.PathAcquire, `{"type":"many","owner":"job-`+id+`","request_id":"`+id+`"}`)
	if err != nil {
		return err
	}
	var got leaseapi.AcquireReply
	if err := json.Unmarshal(text, &got); err != nil {
		return err
	}
	body, err := json.Marshal(leaseapi.ReleaseRequest{Leases: got.Leases})
	if err != nil {
		return err
	}
	_, err = w.call(http.MethodPost, leaseapi.PathRelease, string(body))
	return err
}

// footprint returns what s takes once its connections are closed. Its directory is dir.
func (s *server) footprint(dir string) (f footprint, err error) {
	pid := s.cmd.Process.Pid
	// The server closes its end of a connection a moment after the client.
	var descriptors int
	err = await(context.Background(), startTime, func() (bool, error) {
		open, err := os.ReadDir("/proc/" + strconv.Itoa(pid) + "/fd")
		descriptors = len(open)
		return descriptors < millionClients/2, err
	})
	if err != nil {
		return f, err
	}
	u, err := usageOf(pid)
	if err != nil {
		return f, err
	}
	size, err := storeSize(dir)
	return footprint{u.memory, float64(descriptors), float64(size)}, err
}

// storeSize is the size of the files in a server's directory.
func storeSize(dir string) (n int64, err error) {
	err = filepath.WalkDir(dir, func(_ string, d os.DirEntry, err error) error {
		if err != nil || d.IsDir() {
			return err
		}
		info, err := d.Info()
		if err == nil {
			n += info.Size()
		}
		return err
	})
	return n, err
}
