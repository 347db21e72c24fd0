package proxyserver

import (
	"fmt"
	"log/slog"
	"slices"
	"strings"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/leasectl/leasectl/internal/pool"
	"github.com/leasectl/leasectl/internal/proxyserver/store"
	"github.com/leasectl/leasectl/leaseapi"
)

// stored returns the ids of the waiters that a restart would find, in their order.
func (p *peer) stored() (ids []string) {
	p.t.Helper()
	snap, err := p.server.store.Load()
	if err != nil {
		p.t.Fatal(err)
	}
	slices.SortFunc(snap.Waiters, func(a, b pool.Waiter) int { return int(a.Arrival) - int(b.Arrival) })
	for _, w := range snap.Waiters {
		ids = append(ids, w.ID)
	}
	return ids
}

// A request that queues costs no commit of its own. Even so it is durable within a second, and
// leaves the store when it leaves the queue.
func TestWaitersBecomeDurable(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		p := start(t, durable(t, t.TempDir(), 1))
		p.granted("type=q&owner=holder")
		time.Sleep(time.Minute + 300*time.Millisecond) // the clock was saved 300 ms ago
		before := p.probe().commits.Load()
		for n := range 5 {
			p.later(t.Context(), fmt.Sprint("type=q&request_id=", n))
			synctest.Wait()
		}
		p.later(t.Context(), "type=q") // a request that cannot come back
		synctest.Wait()
		if n := p.probe().commits.Load() - before; n != 0 {
			t.Errorf("%d commits for 5 requests that queue", n)
		}
		time.Sleep(time.Second)
		synctest.Wait()
		if n := p.probe().commits.Load() - before; n != 1 {
			t.Errorf("%d commits within a second", n)
		}
		if ids := p.stored(); !slices.Equal(ids, []string{"0", "1", "2", "3", "4"}) {
			t.Errorf("durable are %q", ids)
		}
		p.release(`{"names":["q-0"]}`)
		p.release(`{"request_ids":["2"]}`)
		if ids := p.stored(); !slices.Equal(ids, []string{"1", "3", "4"}) {
			t.Errorf("durable are %q", ids)
		}
	})
}

// A waiter is durable within a second even if nothing is held. Without a store no change stays
// in the batch.
func TestWaitersOfAnIdlePool(t *testing.T) {
	for _, inMemory := range []bool{false, true} {
		t.Run(fmt.Sprint("in memory ", inMemory), func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				opts := durable(t, t.TempDir(), 2)
				opts.Pools[0].Pace = time.Hour
				if inMemory {
					opts.Store.Close()
					opts.Store = nil
				}
				p := start(t, opts)
				p.granted("type=q&owner=x")
				p.release(`{"names":["q-0"]}`)
				time.Sleep(time.Minute + 100*time.Millisecond)
				p.later(t.Context(), "type=q&request_id=a")
				time.Sleep(time.Second)
				synctest.Wait()
				p.server.term.mu.Lock()
				open := len(p.server.term.open.changes)
				p.server.term.mu.Unlock()
				if open != 0 {
					t.Errorf("%d changes are not committed after a second", open)
				}
			})
		})
	}
}

// A client that lost its connection at the start of a slice, and notices only when an answer is
// due, still finds its place.
func TestPlaceOutlastsALostConnection(t *testing.T) {
	if tries := leaseapi.ProvisionalTTL + 2*leaseapi.SliceGap; leaseapi.PlaceKept <= tries {
		t.Errorf("a place is kept for %v, and its client is back after %v", leaseapi.PlaceKept, tries)
	}
}

// The clock is saved soon after a start: of a server's life of any length, beyond the first
// 20 ms, at least half counts.
func TestClockOfShortLives(t *testing.T) {
	for _, life := range []time.Duration{45, 100, 333, 500, 999, 1700, 2300, 4000} {
		life *= time.Millisecond
		t.Run(life.String(), func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				p := start(t, durable(t, t.TempDir(), 1))
				time.Sleep(life)
				synctest.Wait()
				snap, err := p.server.store.Load()
				if err != nil {
					t.Fatal(err)
				}
				if snap.Clock < life/2 || snap.Clock > life {
					t.Errorf("of %v the store knows %v", life, snap.Clock)
				}
			})
		})
	}
}

// A call that finds the alarm late by more than a second gives leases their full TTL before it
// does what is due. If the alarm is less late, it does not.
func TestStall(t *testing.T) {
	for _, c := range []struct {
		stall time.Duration
		held  int
	}{{900 * time.Millisecond, 0}, {3 * time.Second, 1}} {
		t.Run(c.stall.String(), func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				var log logText
				p := start(t, Options{Pools: []pool.Config{quota(1)}, Log: slog.New(slog.NewTextHandler(&log, nil))})
				l := p.granted("type=q&request_id=a&ttl=60s").Leases[0]
				p.do("POST", "/lease/renew", withLeases(l))
				time.Sleep(60*time.Second - time.Millisecond)
				p.server.term.mu.Lock()
				p.server.term.alarm.at = p.server.term.clock.now() + time.Millisecond
				p.server.term.alarm.timer.Stop() // the process is stopped
				p.server.term.mu.Unlock()
				time.Sleep(c.stall)
				if n := p.inUse(); n != c.held {
					t.Errorf("%d leases are held, want %d", n, c.held)
				}
				synctest.Wait()
				if said := strings.Contains(log.String(), "the server stood still"); said != (c.held > 0) {
					t.Errorf("the log says that it stood still: %t", said)
				}
				time.Sleep(61 * time.Second)
				if n := p.inUse(); n != 0 {
					t.Errorf("%d leases are held of a holder that is gone", n)
				}
			})
		})
	}
}

// A suspend of the machine is a stall, whatever its monotonic clock says. A lease has its full
// TTL again, once; a release whose time has come is made; and the lease clock counts the time.
func TestSuspendedMachine(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var log logText
		var slept atomic.Int64
		slept.Store(int64(time.Hour)) // before the server began: it does not count
		opts := durable(t, t.TempDir(), 2)
		opts.Log = slog.New(slog.NewTextHandler(&log, nil))
		opts.suspended = func() time.Duration { return time.Duration(slept.Load()) }
		p := start(t, opts)
		l := p.granted("type=q&request_id=a&ttl=5m").Leases[0]
		p.do("POST", "/lease/renew", withLeases(l))
		p.granted("type=q&owner=late")
		p.release(`{"names":["q-1"],"delay":"30m"}`)
		time.Sleep(4 * time.Minute)
		before := p.server.term.clock.now()
		slept.Add(int64(time.Hour))
		time.Sleep(3 * time.Second) // the alarm runs on the clock that stood still
		synctest.Wait()
		if at := p.server.term.clock.now(); at != before+time.Hour+3*time.Second {
			t.Errorf("the lease clock went on by %v", at-before)
		}
		if text := log.String(); strings.Count(text, "the server stood still") != 1 || strings.Contains(text, "expired") {
			t.Errorf("the log says\n%s", text)
		}
		if held := p.pools()[0].Leases; len(held) != 1 || held[0].Name != "q-0" {
			t.Errorf("held are %+v", held)
		}
		time.Sleep(2 * time.Minute) // 5 min after the suspend have not passed
		slept.Add(int64(4 * time.Minute))
		if n := p.inUse(); n != 0 {
			t.Errorf("%d leases of a holder that is gone have their TTL once more", n)
		}
	})
}

// slowStore is a store in which each commit takes long.
type slowStore struct {
	store.Store
	takes time.Duration
}

func (s slowStore) Commit(b store.Batch) error {
	time.Sleep(s.takes)
	return s.Store.Commit(b)
}

// A slow disk is no stall: the server goes on while a commit is under way.
func TestSlowDiskIsNoStall(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var log logText
		opts := durable(t, t.TempDir(), 1)
		opts.Store, opts.Log = slowStore{opts.Store, 3 * time.Second}, slog.New(slog.NewTextHandler(&log, nil))
		p := start(t, opts)
		p.granted("type=q&owner=me&ttl=30s")
		time.Sleep(40 * time.Second)
		synctest.Wait()
		if text := log.String(); !strings.Contains(text, "expired") || strings.Contains(text, "stood still") {
			t.Errorf("the log says\n%s", text)
		}
	})
}

// The TTL that a restart gives to leases is durable before the server answers any call. So it
// is given once, however soon the server is killed.
func TestStartIsDurable(t *testing.T) {
	dir := t.TempDir()
	p := start(t, durable(t, dir, 1))
	p.granted("type=q&owner=me&ttl=5m")
	if err := p.stop(); err != nil {
		t.Fatal(err)
	}
	s, err := New(durable(t, dir, 1))
	if err != nil {
		t.Fatal(err)
	}
	defer s.Close()
	snap, err := s.store.Load()
	if err != nil || len(snap.Leases) != 1 || !snap.Leases[0].Extended {
		t.Errorf("durable is %+v, %v", snap, err)
	}
}
