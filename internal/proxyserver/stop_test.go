package proxyserver

import (
	"context"
	"testing"
	"testing/synctest"
	"time"

	"github.com/leasectl/leasectl/internal/pool"
	"github.com/leasectl/leasectl/internal/proxyserver/store"
)

// closing is a store of which a test knows when it is closed.
type closing struct {
	store.Store
	begins func()
}

func (c closing) Close() error {
	c.begins()
	return c.Store.Close()
}

// A server that stops closes its store, so that the next one may begin, before it answers those who
// wait, who may be many. It does not let them wait for a store that takes long.
func TestStopAnswersWaitersLast(t *testing.T) {
	for _, c := range []struct {
		name  string
		takes time.Duration // the store, to close
		early bool          // answers come before it is closed
	}{{"a store that closes", tellTime / 2, false}, {"a store that hangs", time.Minute, true}} {
		t.Run(c.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				var waits, anonymous <-chan reply
				answered := func() bool { return len(waits) > 0 || len(anonymous) > 0 }
				opts := durable(t, t.TempDir(), 1)
				opts.Store = closing{opts.Store, func() {
					synctest.Wait()
					if answered() {
						t.Error("an answer came before the store began to close")
					}
					time.Sleep(c.takes)
					synctest.Wait()
					if answered() != c.early {
						t.Errorf("answered before the store was closed: %t", answered())
					}
				}}
				p := start(t, opts)
				p.acquire("type=q")
				waits, anonymous = p.later(t.Context(), "type=q&request_id=w"), p.later(t.Context(), "type=q")
				synctest.Wait()
				if err := p.stop(); err != nil {
					t.Error(err)
				}
				if a, b := (<-waits).status, (<-anonymous).status; a != 202 || b != 503 {
					t.Errorf("who may come back got %d, who may not %d", a, b)
				}
			})
		})
	}
}

// A lease that is granted as the server stops, to a client that cannot come back for it, is
// given back before the store closes: after the restart it is free. A lease that a client
// received stays held.
func TestStopGivesBackWhatNobodyReceived(t *testing.T) {
	for _, c := range []struct {
		name  string
		query string
		do    func(leave, stop func()) // between the grant and its commit
		held  int                      // after the restart
	}{
		{"gone, then stopped", "type=q", func(leave, stop func()) { leave(); stop() }, 0},
		{"stopped, then gone", "type=q", func(leave, stop func()) { stop(); leave() }, 0},
		{"stopped", "type=q", func(_, stop func()) { stop() }, 1},
		{"gone, and comes back", "type=q&request_id=r", func(leave, stop func()) { leave(); stop() }, 1},
	} {
		t.Run(c.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				dir := t.TempDir()
				p := start(t, durable(t, dir, 1))
				p.acquire("type=q")
				ctx, leave := context.WithCancel(t.Context())
				defer leave()
				got := p.later(ctx, c.query)
				synctest.Wait()
				behind := p.later(t.Context(), "type=q") // must not get the lease
				synctest.Wait()
				p.server.term.commitSem <- struct{}{} // a commit that takes long
				released := make(chan reply, 1)
				go func() { released <- p.do("POST", "/lease/release", `{"names":["q-0"]}`) }()
				synctest.Wait()
				c.do(func() { leave(); synctest.Wait() }, func() { p.cancel(); synctest.Wait() })
				<-p.server.term.commitSem
				if r := <-released; r.status != 204 {
					t.Errorf("release: %d %s", r.status, r.body)
				}
				if r := <-got; c.name == "stopped" && r.status != 200 {
					t.Errorf("the waiter got %d %s", r.status, r.body)
				}
				if r := <-behind; r.status != 503 {
					t.Errorf("the one behind got %d %s", r.status, r.body)
				}
				if err := p.stop(); err != nil {
					t.Errorf("Serve: %v", err)
				}

				p = start(t, durable(t, dir, 1))
				if n := p.inUse(); n != c.held {
					t.Errorf("%d leases are held after a restart, want %d", n, c.held)
				}
			})
		})
	}
}

// If a lease has ended, and its name was granted to another client, before its first holder is
// found gone, then the new lease is not given back.
func TestStopGivesBackNobodyElsesLease(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		dir := t.TempDir()
		p := start(t, durable(t, dir, 1))
		p.acquire("type=q")
		p.server.term.mu.Lock()
		first, _ := p.server.term.set.Held(0, "q-0")
		p.server.term.mu.Unlock()
		p.release(`{"names":["q-0"]}`)
		p.granted("type=q&owner=second")
		p.server.term.halt()
		if err := p.server.term.giveBackLast([]pool.Lease{first}); err != nil {
			t.Error(err)
		}
		if err := p.stop(); err != nil {
			t.Error(err)
		}
		p = start(t, durable(t, dir, 1))
		if pools := p.pools(); pools[0].InUse != 1 || pools[0].Leases[0].Owner != "second" {
			t.Errorf("after a restart %+v", pools)
		}
	})
}
