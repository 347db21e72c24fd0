package proxyserver

import (
	"bufio"
	"context"
	"fmt"
	"io"
	"log/slog"
	"net"
	"net/http"
	"os"
	"path/filepath"
	"runtime"
	"slices"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	bolt "go.etcd.io/bbolt"

	"github.com/leasectl/leasectl/internal/pool"
	"github.com/leasectl/leasectl/internal/wiretest"
)

// listen serves h on loopback until the benchmark ends.
func listen(b *testing.B, serve func(ctx context.Context, l net.Listener) error) (addr string) {
	b.Helper()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		b.Fatal(err)
	}
	ctx, cancel := context.WithCancel(context.Background())
	served := make(chan error, 1)
	go func() { served <- serve(ctx, l) }()
	b.Cleanup(func() {
		cancel()
		if err := <-served; err != nil {
			b.Error(err)
		}
	})
	return l.Addr().String()
}

func ourServer(b *testing.B, opts Options) (*Server, string) {
	b.Helper()
	s, err := New(opts)
	if err != nil {
		b.Fatal(err)
	}
	return s, listen(b, func(ctx context.Context, l net.Listener) error { return s.Serve(ctx, l) })
}

func bareServer(b *testing.B, h http.HandlerFunc) string {
	b.Helper()
	return listen(b, func(ctx context.Context, l net.Listener) error {
		srv := http.Server{Handler: h}
		stop := context.AfterFunc(ctx, func() { srv.Close() })
		defer stop()
		if err := srv.Serve(l); err != http.ErrServerClosed {
			return err
		}
		return nil
	})
}

// wire is a cheap client: a connection, and requests as text.
type wire struct {
	net.Conn
	r *bufio.Reader
}

func dialWire(b *testing.B, addr string) *wire {
	b.Helper()
	c, err := net.Dial("tcp", addr)
	if err != nil {
		b.Fatal(err)
	}
	b.Cleanup(func() { c.Close() })
	return &wire{c, bufio.NewReader(c)}
}

func (w *wire) send(target, body string) error {
	_, err := fmt.Fprintf(w, "POST %s HTTP/1.1\r\nHost: localhost\r\nContent-Length: %d\r\n\r\n%s", wiretest.Target(target), len(body), body)
	return err
}

func (w *wire) answer() (string, error) {
	resp, err := http.ReadResponse(w.r, nil)
	if err != nil {
		return "", err
	}
	body, err := io.ReadAll(resp.Body)
	if err == nil && resp.StatusCode >= 300 {
		err = fmt.Errorf("%s: %s", resp.Status, body)
	}
	return string(body), err
}

func (w *wire) call(target, body string) (string, error) {
	if err := w.send(target, body); err != nil {
		return "", err
	}
	return w.answer()
}

// BenchmarkPairs measures acquire and release: as version 1 and with a request id, in memory
// and durable, with and without a log, by 1, 16 and 64 clients. For comparison it measures a
// handler that only writes to bbolt, in its two ways.
func BenchmarkPairs(b *testing.B) {
	for _, clients := range []int{1, 16, 64} {
		ours := func(name, data, ask string, logs bool) {
			b.Run(fmt.Sprintf("%s/%d", name, clients), func(b *testing.B) {
				opts := Options{Pools: []pool.Config{{Type: "q", Names: pool.Numbered("n", 64)}}}
				if data != "" {
					opts.Store = openStore(b, b.TempDir())
				}
				if logs { // to a file, as in production
					file, err := os.Create(filepath.Join(b.TempDir(), "log"))
					if err != nil {
						b.Fatal(err)
					}
					b.Cleanup(func() { file.Close() })
					opts.Log = slog.New(slog.NewTextHandler(file, nil))
				}
				_, addr := ourServer(b, opts)
				pairs(b, addr, clients, ask)
			})
		}
		ours("memory", "", "", false)
		ours("memory-log", "", "", true)
		ours("durable", "yes", "", false)
		ours("durable-log", "yes", "", true)
		ours("durable-id", "yes", "&request_id=", false)
		bare := func(name string, write func(*bolt.DB, func(*bolt.Tx) error) error) {
			b.Run(fmt.Sprintf("%s/%d", name, clients), func(b *testing.B) {
				pairs(b, bareServer(b, bareBolt(b, write)), clients, "")
			})
		}
		bare("bare-update", func(db *bolt.DB, f func(*bolt.Tx) error) error { return db.Update(f) })
		bare("bare-batch", func(db *bolt.DB, f func(*bolt.Tx) error) error { return db.Batch(f) })
	}
}

func bareBolt(b *testing.B, write func(*bolt.DB, func(*bolt.Tx) error) error) http.HandlerFunc {
	db, err := bolt.Open(filepath.Join(b.TempDir(), "db"), 0o600, &bolt.Options{FreelistType: bolt.FreelistMapType})
	if err != nil {
		b.Fatal(err)
	}
	b.Cleanup(func() { db.Close() })
	db.MaxBatchDelay = time.Millisecond
	bucket := []byte("bare")
	err = db.Update(func(tx *bolt.Tx) error { _, err := tx.CreateBucket(bucket); return err })
	if err != nil {
		b.Fatal(err)
	}
	var mu sync.Mutex
	free := pool.Numbered("n", 64)
	return func(w http.ResponseWriter, r *http.Request) {
		body, _ := io.ReadAll(r.Body)
		mu.Lock()
		var name string
		acquire := strings.HasPrefix(r.URL.Path, "/lease/acquire")
		if acquire {
			name, free = free[0], free[1:]
		} else {
			name = strings.Split(string(body), `"`)[3]
		}
		mu.Unlock()
		err := write(db, func(tx *bolt.Tx) error {
			if acquire {
				return tx.Bucket(bucket).Put([]byte(name), []byte(r.URL.RawQuery))
			}
			return tx.Bucket(bucket).Delete([]byte(name))
		})
		if err != nil {
			http.Error(w, err.Error(), 500)
			return
		}
		if acquire {
			fmt.Fprintf(w, `{"names":[%q]}`, name)
			return
		}
		mu.Lock()
		free = append(free, name)
		mu.Unlock()
		w.WriteHeader(204)
	}
}

func pairs(b *testing.B, addr string, clients int, ask string) {
	var running sync.WaitGroup
	todo := make(chan int)
	for range clients {
		w := dialWire(b, addr)
		running.Go(func() {
			for n := range todo {
				target := "/lease/acquire?type=q" + ask
				if ask != "" {
					target += strconv.Itoa(n)
				}
				got, err := w.call(target, "")
				if err == nil {
					_, err = w.call("/lease/release", `{"names":["`+strings.Split(got, `"`)[3]+`"]}`)
				}
				if err != nil {
					b.Error(err)
				}
			}
		})
	}
	b.ReportAllocs()
	n := 0
	for b.Loop() {
		n++
		todo <- n
	}
	close(todo)
	running.Wait()
	b.ReportMetric(float64(b.N)/b.Elapsed().Seconds(), "pairs/s")
}

// BenchmarkHandOff measures the time from the start of a release to the answer of the next
// waiter; for comparison, through a bare channel behind HTTP.
func BenchmarkHandOff(b *testing.B) {
	for _, data := range []bool{false, true} {
		b.Run(fmt.Sprintf("durable=%v", data), func(b *testing.B) {
			opts := Options{Pools: []pool.Config{quota(1)}}
			if data {
				opts.Store = openStore(b, b.TempDir())
			}
			s, addr := ourServer(b, opts)
			handOff(b, addr, func() bool {
				s.term.mu.Lock()
				defer s.term.mu.Unlock()
				return len(s.term.waiting) > 0
			})
		})
	}
	b.Run("bare", func(b *testing.B) {
		free := make(chan struct{}, 1)
		free <- struct{}{}
		var mu sync.Mutex
		waiting := 0
		handOff(b, bareServer(b, func(w http.ResponseWriter, r *http.Request) {
			if r.URL.Path == "/lease/release" {
				io.Copy(io.Discard, r.Body)
				free <- struct{}{}
				w.WriteHeader(204)
				return
			}
			mu.Lock()
			waiting++
			mu.Unlock()
			<-free
			mu.Lock()
			waiting--
			mu.Unlock()
			io.WriteString(w, `{"names":["q-0"]}`)
		}), func() bool {
			mu.Lock()
			defer mu.Unlock()
			return waiting > 0
		})
	})
}

func handOff(b *testing.B, addr string, waits func() bool) {
	holder, waiter := dialWire(b, addr), dialWire(b, addr)
	if _, err := holder.call("/lease/acquire?type=q", ""); err != nil {
		b.Fatal(err)
	}
	var took []time.Duration
	for b.Loop() {
		if err := waiter.send("/lease/acquire?type=q", ""); err != nil {
			b.Fatal(err)
		}
		for !waits() {
			runtime.Gosched()
		}
		begin := time.Now()
		if err := holder.send("/lease/release", `{"names":["q-0"]}`); err != nil {
			b.Fatal(err)
		}
		if _, err := waiter.answer(); err != nil {
			b.Fatal(err)
		}
		took = append(took, time.Since(begin))
		if _, err := holder.answer(); err != nil {
			b.Fatal(err)
		}
		holder, waiter = waiter, holder
	}
	slices.Sort(took)
	b.ReportMetric(float64(took[len(took)/2].Nanoseconds()), "median-ns")
	b.ReportMetric(float64(took[len(took)*99/100].Nanoseconds()), "p99-ns")
}

// BenchmarkWaiters measures all the memory of a blocked waiter; for comparison, of one with
// bare net/http. Both include the client's connection, which is as small as can be.
func BenchmarkWaiters(b *testing.B) {
	const n = 5_000 // two descriptors each; a process may commonly open 20,000
	b.Run("ours", func(b *testing.B) {
		s, addr := ourServer(b, Options{Pools: []pool.Config{quota(1)}})
		if _, err := dialWire(b, addr).call("/lease/acquire?type=q", ""); err != nil {
			b.Fatal(err)
		}
		benchWaiters(b, n, addr, func() int {
			s.term.mu.Lock()
			defer s.term.mu.Unlock()
			return len(s.term.waiting)
		})
	})
	b.Run("bare", func(b *testing.B) {
		var mu sync.Mutex
		waiting := 0
		benchWaiters(b, n, bareServer(b, func(w http.ResponseWriter, r *http.Request) {
			mu.Lock()
			waiting++
			mu.Unlock()
			<-r.Context().Done()
		}), func() int {
			mu.Lock()
			defer mu.Unlock()
			return waiting
		})
	})
}

func benchWaiters(b *testing.B, n int, addr string, waiting func() int) {
	var conns []net.Conn
	defer func() {
		for _, c := range conns {
			c.Close()
		}
	}()
	heapBefore, stackBefore := memory()
	for b.Loop() {
		if len(conns) > 0 {
			continue // they wait
		}
		for i := range n {
			c, err := net.Dial("tcp", addr)
			if err != nil {
				b.Fatal(err)
			}
			conns = append(conns, c)
			if _, err := fmt.Fprintf(c, "POST %s HTTP/1.1\r\nHost: localhost\r\nContent-Length: 0\r\n\r\n", wiretest.Target(fmt.Sprintf("/lease/acquire?type=q&request_id=r%d&owner=job-%d", i, i))); err != nil {
				b.Fatal(err)
			}
		}
		for waiting() < n {
			time.Sleep(time.Millisecond)
		}
	}
	heap, stack := memory()
	b.ReportMetric((heap-heapBefore)/float64(n), "heap-B/waiter")
	b.ReportMetric((stack-stackBefore)/float64(n), "stack-B/waiter")
}

// memory returns the bytes of the heap and the stacks after a collection.
func memory() (heap, stack float64) {
	runtime.GC()
	runtime.GC()
	var m runtime.MemStats
	runtime.ReadMemStats(&m)
	return float64(m.HeapInuse), float64(m.StackInuse)
}
