package main

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/leasectl/leasectl/cmd/leasectl/clitest"
	"github.com/leasectl/leasectl/leaseapi"
	"github.com/leasectl/leasectl/proxyclient"
)

// After a KILL of the server the queue has the same order as before, although its clients come back
// in any order.
func TestQueueKeepsItsOrderOverARestart(t *testing.T) {
	t.Parallel()
	const waiters = 16
	r := clitest.NewDurableServer(t, clitest.Build(t, ""), "--pool", "q=1")
	held := r.Hold(time.Hour)
	var mu sync.Mutex
	var order []int
	var running sync.WaitGroup
	for n := range waiters {
		running.Go(func() {
			client, err := proxyclient.New(proxyclient.Options{URL: "unix://" + r.Socket})
			if err != nil {
				t.Error(err)
				return
			}
			defer client.Close()
			g, err := client.Acquire(r.Context(), proxyclient.Request{Ask: leaseapi.Ask{Type: "q", Count: 1}, Owner: fmt.Sprint("w", n), Wait: clitest.Patience})
			if err != nil {
				t.Error(err)
				return
			}
			mu.Lock()
			order = append(order, n)
			mu.Unlock()
			r.Release(g.Leases, 0)
		})
		for r.Pool().Waiting <= n {
			time.Sleep(time.Millisecond)
		}
	}
	var owners []string
	for n := range waiters {
		owners = append(owners, fmt.Sprint("w", n))
	}
	r.AwaitStored(owners)
	r.Restart()
	r.Release(held, 0) // before all clients are back
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
	program := clitest.Build(t, "")
	for _, tt := range []struct {
		name       string
		ttl, delay time.Duration
	}{
		{"nobody renews it", 2 * time.Second, 0},
		{"its release was put off", time.Hour, 2 * time.Second},
	} {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			r := clitest.NewDurableServer(t, program, "--pool", "q=1")
			leases := r.Hold(tt.ttl)
			if tt.delay > 0 {
				r.Release(leases, tt.delay)
			}
			// At least half of each life of the server counts, and the first restart starts
			// the TTL anew. So 2 × 2 s are over after at most ten lives.
			const life, most = 900 * time.Millisecond, 12
			for n := range most {
				time.Sleep(life)
				if r.Restart(); r.Pool().InUse == 0 {
					t.Logf("it ended in life %d", n+2)
					return
				}
			}
			t.Errorf("it is held after %d restarts: %+v", most, r.Pool().Leases)
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
	r := clitest.NewDurableServer(t, clitest.Build(t, ""), "--config", config)
	r.Release(r.Hold(0), 0)
	for range 2 {
		r.Restart()
		g, err := r.Client.Acquire(r.Context(), proxyclient.Request{Ask: leaseapi.Ask{Type: "q", Count: 1}})
		if !errors.Is(err, proxyclient.ErrExhausted) {
			t.Fatalf("within the pace %+v was granted, %v", g, err)
		}
	}
}

// A server that is stopped for twice the TTL gets no renewals. When it goes on, the holder still
// has the lease, and no waiter gets it.
func TestStall(t *testing.T) {
	t.Parallel()
	r := clitest.NewDurableServer(t, clitest.Build(t, ""), "--pool", "q=1")
	const ttl = 4 * time.Second
	held := r.Hold(ttl)
	ctx, leave := context.WithCancel(r.Context())
	waited := make(chan error)
	go func() {
		_, err := r.Client.Acquire(ctx, proxyclient.Request{Ask: leaseapi.Ask{Type: "q", Count: 1}, Wait: clitest.Patience})
		waited <- err
	}()
	for r.Pool().Waiting == 0 {
		time.Sleep(time.Millisecond)
	}
	if _, err := r.Client.Renew(r.Context(), held, 0); err != nil {
		t.Fatal(err)
	}
	r.Cmd.Process.Signal(syscall.SIGSTOP)
	time.Sleep(2 * ttl)
	r.Cmd.Process.Signal(syscall.SIGCONT)
	if p := r.Pool(); len(p.Leases) != 1 || p.Leases[0].Lease != held[0] {
		t.Errorf("after the stall %+v is held, want %+v", p.Leases, held)
	}
	if _, err := r.Client.Renew(r.Context(), held, 0); err != nil {
		t.Errorf("the first renewal after the stall: %v", err)
	}
	// Now nobody renews the lease, so the waiter gets it.
	if err := <-waited; err != nil {
		t.Errorf("when the holder is gone: %v", err)
	}
	leave()
}
