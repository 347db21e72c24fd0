package main

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/leasectl/leasectl/leaseapi"
	"github.com/leasectl/leasectl/proxyclient"
)

// durableServer is a `leasectl serve` with a store, to be killed and started again.
type durableServer struct {
	t       *testing.T
	program string
	args    []string
	client  *proxyclient.Client
	log     liveLog
	cmd     *exec.Cmd
}

func newDurableServer(t *testing.T, program string, args ...string) *durableServer {
	t.Helper()
	dir := shortDir(t)
	socket := filepath.Join(dir, "s")
	args = append([]string{"serve", "--socket", socket, "--data", filepath.Join(dir, "data")}, args...)
	r := &durableServer{t: t, program: program, args: args, client: newClient(t, "unix://"+socket)}
	r.start()
	t.Cleanup(func() { r.cmd.Process.Kill(); r.cmd.Wait() })
	return r
}

// start starts the server, and returns when it answers.
func (r *durableServer) start() {
	r.t.Helper()
	r.cmd = exec.Command(r.program, r.args...)
	r.cmd.Stderr = &r.log
	if err := r.cmd.Start(); err != nil {
		r.t.Fatal(err)
	}
	r.pool()
}

// restart kills the server and starts it again.
func (r *durableServer) restart() {
	r.t.Helper()
	r.cmd.Process.Kill()
	r.cmd.Wait()
	r.start()
}

func (r *durableServer) context() context.Context {
	ctx, cancel := context.WithTimeout(context.Background(), patience)
	r.t.Cleanup(cancel)
	return ctx
}

// pool asks the server for its first pool.
func (r *durableServer) pool() (pool leaseapi.Pool) {
	r.t.Helper()
	await(r.t, &r.log, "the server to answer", func() bool {
		pools, err := r.client.Pools(r.context())
		if err == nil {
			pool = pools[0]
		}
		return err == nil
	})
	return pool
}

// hold acquires a lease and confirms it.
func (r *durableServer) hold(ttl time.Duration) []leaseapi.Lease {
	r.t.Helper()
	g, err := r.client.Acquire(r.context(), proxyclient.Request{Type: r.pool().Type, Count: 1, Owner: "holder", TTL: ttl, Wait: patience})
	if err != nil {
		r.t.Fatal(err)
	}
	if _, err := r.client.Renew(r.context(), g.Leases, 0); err != nil {
		r.t.Fatal(err)
	}
	return g.Leases
}

func (r *durableServer) release(leases []leaseapi.Lease, delay time.Duration) {
	r.t.Helper()
	req := leaseapi.ReleaseRequest{Leases: leases, Delay: leaseapi.Duration(delay)}
	if _, err := r.client.Release(r.context(), req); err != nil {
		r.t.Fatal(err)
	}
}

// awaitStored waits until the server has stored the requests of all owners. The server stores
// waiting requests a moment after they come, and the directory has them before they are committed.
// So awaitStored also makes a change, since the answer to a change comes after the commit.
func (r *durableServer) awaitStored(owners []string) {
	r.t.Helper()
	await(r.t, &r.log, "all owners to be stored", func() bool {
		var stored []byte
		files, _ := filepath.Glob(filepath.Join(filepath.Dir(r.args[2]), "data", "*"))
		for _, file := range files {
			text, _ := os.ReadFile(file)
			stored = append(stored, text...)
		}
		return !slices.ContainsFunc(owners, func(owner string) bool { return !bytes.Contains(stored, []byte(`"`+owner+`"`)) })
	})
	typ := r.pool().Type
	if _, err := r.client.Pause(r.context(), typ, "to commit what waits"); err != nil {
		r.t.Fatal(err)
	}
	if _, err := r.client.Resume(r.context(), typ); err != nil {
		r.t.Fatal(err)
	}
}

// After a KILL of the server the queue has the same order as before, although its clients come back
// in any order.
func TestQueueKeepsItsOrderOverARestart(t *testing.T) {
	t.Parallel()
	const waiters = 16
	r := newDurableServer(t, build(t, ""), "--pool", "q=1")
	held := r.hold(time.Hour)
	var mu sync.Mutex
	var order []int
	var running sync.WaitGroup
	for n := range waiters {
		running.Go(func() {
			client, err := proxyclient.New(proxyclient.Options{URL: "unix://" + r.args[2]})
			if err != nil {
				t.Error(err)
				return
			}
			defer client.Close()
			g, err := client.Acquire(r.context(), proxyclient.Request{Type: "q", Count: 1, Owner: fmt.Sprint("w", n), Wait: patience})
			if err != nil {
				t.Error(err)
				return
			}
			mu.Lock()
			order = append(order, n)
			mu.Unlock()
			r.release(g.Leases, 0)
		})
		for r.pool().Waiting <= n {
			time.Sleep(time.Millisecond)
		}
	}
	var owners []string
	for n := range waiters {
		owners = append(owners, fmt.Sprint("w", n))
	}
	r.awaitStored(owners)
	r.restart()
	r.release(held, 0) // before all clients are back
	running.Wait()
	inverted := 0
	for i, a := range order {
		for _, b := range order[i+1:] {
			if a > b {
				inverted++
			}
		}
	}
	if len(order) != waiters || inverted > 0 {
		t.Errorf("granted in the order %v: %d of %d pairs are inverted", order, inverted, waiters*(waiters-1)/2)
	}
}

// If restarts come more often than a lease would end, a lease that nobody renews ends nevertheless,
// and so does a lease whose release was delayed.
func TestRestartsKeepNothingDeadAlive(t *testing.T) {
	t.Parallel()
	program := build(t, "")
	for _, tt := range []struct {
		name       string
		ttl, delay time.Duration
	}{
		{"nobody renews it", 2 * time.Second, 0},
		{"its release was put off", time.Hour, 2 * time.Second},
	} {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			r := newDurableServer(t, program, "--pool", "q=1")
			leases := r.hold(tt.ttl)
			if tt.delay > 0 {
				r.release(leases, tt.delay)
			}
			// At least half of each life of the server counts, and the first restart starts
			// the TTL anew. So 2 × 2 s are over after at most ten lives.
			const life, most = 900 * time.Millisecond, 12
			for n := range most {
				time.Sleep(life)
				if r.restart(); r.pool().InUse == 0 {
					t.Logf("it ended in life %d", n+2)
					return
				}
			}
			t.Errorf("it is held after %d restarts: %+v", most, r.pool().Leases)
		})
	}
}

// A pool keeps its pace over a restart, also if its last lease was released.
func TestPaceOutlivesARestart(t *testing.T) {
	t.Parallel()
	config := filepath.Join(t.TempDir(), "pools.yaml")
	if err := os.WriteFile(config, []byte("resources: [{type: q, names: [a, b, c], pace: 1h}]\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	r := newDurableServer(t, build(t, ""), "--config", config)
	r.release(r.hold(0), 0)
	for range 2 {
		r.restart()
		g, err := r.client.Acquire(r.context(), proxyclient.Request{Type: "q", Count: 1})
		if !errors.Is(err, proxyclient.ErrExhausted) {
			t.Fatalf("within the pace %+v was granted, %v", g, err)
		}
	}
}

// A server that is stopped for twice the TTL gets no renewals. When it goes on, the holder still
// has the lease, and no waiter gets it.
func TestStall(t *testing.T) {
	t.Parallel()
	r := newDurableServer(t, build(t, ""), "--pool", "q=1")
	const ttl = 4 * time.Second
	held := r.hold(ttl)
	ctx, leave := context.WithCancel(r.context())
	waited := make(chan error)
	go func() {
		_, err := r.client.Acquire(ctx, proxyclient.Request{Type: "q", Count: 1, Wait: patience})
		waited <- err
	}()
	for r.pool().Waiting == 0 {
		time.Sleep(time.Millisecond)
	}
	if _, err := r.client.Renew(r.context(), held, 0); err != nil {
		t.Fatal(err)
	}
	r.cmd.Process.Signal(syscall.SIGSTOP)
	time.Sleep(2 * ttl)
	r.cmd.Process.Signal(syscall.SIGCONT)
	if p := r.pool(); len(p.Leases) != 1 || p.Leases[0].Lease != held[0] {
		t.Errorf("after the stall %+v is held, want %+v", p.Leases, held)
	}
	if _, err := r.client.Renew(r.context(), held, 0); err != nil {
		t.Errorf("the first renewal after the stall: %v", err)
	}
	// Now nobody renews the lease, so the waiter gets it.
	if err := <-waited; err != nil {
		t.Errorf("when the holder is gone: %v", err)
	}
	leave()
}
