package proxyserver

import (
	"bufio"
	"fmt"
	"io"
	"net"
	"slices"
	"strconv"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	bolt "go.etcd.io/bbolt"

	"github.com/leasectl/leasectl/internal/pool"
)

// The benchmarks in this file print ratios. The servers that they compare run in turns, on the
// same machine at nearly the same time, and the median of the turns counts. Run them with
// -benchtime=1x.

const (
	turns    = 7
	turnTime = 300 * time.Millisecond
)

// BenchmarkDurableRatio measures durable pairs per second, over those of the better of two
// bare handlers that only write each change to bbolt.
func BenchmarkDurableRatio(b *testing.B) {
	for _, clients := range []int{1, 16, 64} {
		b.Run(strconv.Itoa(clients), func(b *testing.B) {
			_, ours := ourServer(b, Options{Pools: []pool.Config{{Type: "q", Names: pool.Numbered("n", 64)}}, Store: openStore(b, b.TempDir())})
			update := bareServer(b, bareBolt(b, func(db *bolt.DB, f func(*bolt.Tx) error) error { return db.Update(f) }))
			batch := bareServer(b, bareBolt(b, func(db *bolt.DB, f func(*bolt.Tx) error) error { return db.Batch(f) }))
			for b.Loop() {
				rates := inTurns(b, clients, ours, update, batch)
				bare := max(rates[1], rates[2])
				b.ReportMetric(rates[0], "pairs/s")
				b.ReportMetric(bare, "bare-pairs/s")
				b.ReportMetric(rates[0]/bare, "ratio")
			}
		})
	}
}

// inTurns returns the median rate of pairs of each server.
func inTurns(b *testing.B, clients int, addrs ...string) []float64 {
	rates := make([][]float64, len(addrs))
	for range turns {
		for i, addr := range addrs {
			rates[i] = append(rates[i], pairRate(b, addr, clients))
		}
	}
	medians := make([]float64, len(addrs))
	for i := range rates {
		slices.Sort(rates[i])
		medians[i] = rates[i][turns/2]
	}
	return medians
}

func pairRate(b *testing.B, addr string, clients int) float64 {
	var running sync.WaitGroup
	done := make([]int, clients)
	var wires []*wire
	for range clients {
		w := dialWire(b, addr)
		wires = append(wires, w)
	}
	begin := time.Now()
	for i, w := range wires {
		running.Go(func() {
			for time.Since(begin) < turnTime {
				got, err := w.call("/lease/acquire?type=q", "")
				if err == nil {
					_, err = w.call("/lease/release", `{"names":["`+strings.Split(got, `"`)[3]+`"]}`)
				}
				if err != nil {
					b.Error(err)
					return
				}
				done[i]++
			}
		})
	}
	running.Wait()
	took := time.Since(begin).Seconds()
	total := 0
	for i, w := range wires {
		w.Close()
		total += done[i]
	}
	return float64(total) / took
}

// BenchmarkDrain measures pairs per second while a queue of 10,000 is drained through a pool
// of 50, each lease released as soon as it is granted. It compares them with the pairs of the
// same number of connections that come 50 at a time, so that nobody waits. There are fewer
// waiters if this process may not have that many connections.
//
// Both ways each connection had its first request before, and makes one pair. The acquire of
// a waiter is read while the waiter queues.
// Fifty clients that keep their connections are no baseline. They make more pairs than 10,000
// waiters, but so they do with a bare net/http handler over a channel, and by more, because
// the data of their connections stays in the processor's caches.
func BenchmarkDrain(b *testing.B) {
	n := 10_000
	var files syscall.Rlimit
	if err := syscall.Getrlimit(syscall.RLIMIT_NOFILE, &files); err == nil {
		n = min(n, (int(min(files.Cur, 1<<20))-500)/2)
	}
	for _, data := range []bool{false, true} {
		b.Run(fmt.Sprintf("durable=%v", data), func(b *testing.B) {
			opts := Options{Pools: []pool.Config{{Type: "q", Names: pool.Numbered("n", 50)}}}
			if data {
				opts.Store = openStore(b, b.TempDir())
			}
			s, addr := ourServer(b, opts)
			for b.Loop() {
				without := unqueuedRate(b, addr, n)
				with := drainRate(b, s, addr, n)
				b.ReportMetric(float64(n), "waiters")
				b.ReportMetric(with, "pairs/s")
				b.ReportMetric(without, "unqueued-pairs/s")
				b.ReportMetric(with/without, "ratio")
			}
		})
	}
}

func unqueuedRate(b *testing.B, addr string, n int) float64 {
	conns := make([]net.Conn, n)
	for i := range conns {
		c, err := net.Dial("tcp", addr)
		if err != nil {
			b.Fatal(err)
		}
		defer c.Close()
		conns[i] = c
	}
	pair := func(c net.Conn) {
		if err := ask(c); err != nil {
			b.Error(err)
		}
		if err := releaseGranted(c); err != nil {
			b.Error(err)
		}
	}
	for _, c := range conns {
		pair(c)
	}
	todo := make(chan net.Conn)
	var clients sync.WaitGroup
	begin := time.Now()
	for range 50 {
		clients.Go(func() {
			for c := range todo {
				pair(c)
			}
		})
	}
	for _, c := range conns {
		todo <- c
	}
	close(todo)
	clients.Wait()
	return float64(n) / time.Since(begin).Seconds()
}

func ask(c net.Conn) error {
	_, err := io.WriteString(c, "POST /lease/acquire?type=q HTTP/1.1\r\nHost: localhost\r\nContent-Length: 0\r\n\r\n")
	return err
}

func drainRate(b *testing.B, s *Server, addr string, n int) float64 {
	holder := dialWire(b, addr)
	defer holder.Close()
	if _, err := holder.call("/lease/acquire?type=q&count=50", ""); err != nil {
		b.Fatal(err)
	}
	var waiters sync.WaitGroup
	for range n {
		c, err := net.Dial("tcp", addr)
		if err != nil {
			b.Fatal(err)
		}
		if err := ask(c); err != nil {
			b.Fatal(err)
		}
		waiters.Go(func() {
			defer c.Close()
			if err := releaseGranted(c); err != nil {
				b.Error(err)
			}
		})
	}
	for {
		s.term.mu.Lock()
		_, waiting := s.term.set.Busy()
		s.term.mu.Unlock()
		if waiting == n {
			break
		}
		time.Sleep(time.Millisecond)
	}
	begin := time.Now()
	if _, err := holder.call("/lease/release", `{"names":["`+strings.Join(pool.Numbered("n", 50), `","`)+`"]}`); err != nil {
		b.Fatal(err)
	}
	waiters.Wait()
	return float64(n) / time.Since(begin).Seconds()
}

// releaseGranted reads the answer to an acquire from c, and releases the lease.
func releaseGranted(c net.Conn) error {
	w := &wire{Conn: c, r: bufio.NewReaderSize(c, 512)}
	got, err := w.answer()
	if err != nil {
		return err
	}
	_, err = w.call("/lease/release", `{"names":["`+strings.Split(got, `"`)[3]+`"]}`)
	return err
}
