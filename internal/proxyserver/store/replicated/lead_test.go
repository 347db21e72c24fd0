package replicated_test

import (
	"bytes"
	"context"
	"errors"
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
	"github.com/leasectl/leasectl/internal/proxyserver/store/replicated"
	"github.com/leasectl/leasectl/internal/proxyserver/store/replicated/leadtest"
	"github.com/leasectl/leasectl/internal/proxyserver/store/replicated/unsteady"
)

const ttl = 4 * time.Second

// server is an elector on a database in memory.
type server struct {
	*unsteady.Server
	*replicated.Elector
	log bytes.Buffer
}

func newServer(t *testing.T, db *unsteady.Database, url string) *server {
	s := &server{Server: db.Server(nil)}
	s.Elector = replicated.New(replicated.Options{
		Database: s.Server, Words: replicated.Words{Database: "memory", Store: "here", Erase: "forget it"},
		Advertise: url, TTL: ttl, Poll: ttl / 4, SinceBoot: s.SinceBoot,
		Bounds: replicated.Bounds{Writes: 10, Bytes: 1 << 10, Record: 1 << 9},
		Log:    slog.New(slog.NewTextHandler(&s.log, nil)),
	})
	t.Cleanup(func() { s.Elector.Close() })
	return s
}

// only returns a fate for the calls of one method.
func only(method string, f unsteady.Fate) func(string) unsteady.Fate {
	return func(called string) unsteady.Fate {
		if called == method {
			return f
		}
		return unsteady.Fate{}
	}
}

func everything(f unsteady.Fate) func(string) unsteady.Fate {
	return func(string) unsteady.Fate { return f }
}

// inBubble runs f with two servers on a new database.
func inBubble(t *testing.T, f func(t *testing.T, db *unsteady.Database, a, b *server)) {
	synctest.Test(t, func(t *testing.T) {
		db := unsteady.New()
		f(t, db, newServer(t, db, "http://a"), newServer(t, db, "http://b"))
	})
}

// A copy of a commit that arrives late changes nothing: a lease that was released meanwhile does
// not come back.
func TestLateCopy(t *testing.T) {
	inBubble(t, func(t *testing.T, _ *unsteady.Database, a, b *server) {
		l := leadtest.Gain(t, a, time.Second)
		leadtest.Load(t, l)
		a.Disturb(only("Commit", unsteady.Fate{Again: 2 * time.Second}))
		leadtest.Commit(t, l, leadtest.Granted("q-0", 1))
		a.Disturb(nil)
		leadtest.Commit(t, l, leadtest.Done("q-0"))
		time.Sleep(3 * time.Second)
		leadtest.Commit(t, l, leadtest.Granted("q-1", 2)) // the leader itself is not disturbed
		l.Close()
		if got := leadtest.Held(t, leadtest.Gain(t, b, time.Second)); got != "q-1" {
			t.Errorf("held are %s, want q-1", got)
		}
	})
}

// A commit whose answer is lost counts once, whether it was carried out or not. It counts only
// after a further write: what is seen may not be durable yet.
func TestLostAnswer(t *testing.T) {
	for what, fate := range map[string]unsteady.Fate{
		"silent": {Silent: true}, "broken": {Broken: true}, "lost": {Lost: true}, "late": {Before: ttl / 2},
	} {
		t.Run(what, func(t *testing.T) {
			inBubble(t, func(t *testing.T, _ *unsteady.Database, a, b *server) {
				l := leadtest.Gain(t, a, time.Second)
				leadtest.Load(t, l)
				first, looked, kept := true, false, 0 // looked: for what came of a commit
				a.Disturb(func(method string) unsteady.Fate {
					switch {
					case method == "Look":
						looked = true
					case method == "Keep" && looked:
						kept++
					}
					if first && method == "Commit" {
						first = false
						return fate
					}
					return unsteady.Fate{}
				})
				leadtest.Commit(t, l, leadtest.Granted("q-0", 1))
				if looked && kept == 0 {
					t.Error("no write followed")
				}
				if (fate.Silent || fate.Broken) && !looked {
					t.Error("no answer was lost")
				}
				leadtest.Commit(t, l, leadtest.Done("q-0"))
				leadtest.Commit(t, l, leadtest.Granted("q-1", 2))
				l.Close()
				if got := leadtest.Held(t, leadtest.Gain(t, b, time.Second)); got != "q-1" {
					t.Errorf("held are %s, want q-1", got)
				}
			})
		})
	}
}

// The lead of a server that is cut off is over, for good, before another server leads, and the
// other leads soon after.
func TestCutOff(t *testing.T) {
	inBubble(t, func(t *testing.T, _ *unsteady.Database, a, b *server) {
		old := leadtest.Gain(t, a, time.Second)
		leadtest.Load(t, old)
		leadtest.Commit(t, old, leadtest.Granted("q-0", 1))
		time.Sleep(10 * ttl)
		a.Disturb(everything(unsteady.Fate{Lost: true}))
		failed := make(chan error, 1)
		go func() {
			failed <- old.Commit(store.Batch{Changes: []pool.Change{leadtest.Granted("q-1", 2)}, Generation: 2})
		}()
		next := leadtest.Gain(t, b, 2*ttl)
		if err := old.Holds(); !errors.Is(err, store.ErrNotLeader) || !strings.Contains(err.Error(), "memory has not confirmed it") {
			t.Errorf("the old leader: %v", err)
		}
		if err := <-failed; !errors.Is(err, store.ErrNotLeader) {
			t.Errorf("a commit of the old leader: %v", err)
		}
		<-old.Over()
		a.Disturb(nil)
		if err := old.Commit(store.Batch{Changes: []pool.Change{leadtest.Granted("q-2", 3)}, Generation: 3}); !errors.Is(err, store.ErrNotLeader) {
			t.Errorf("a commit of the old leader after its return: %v", err)
		}
		if got := leadtest.Held(t, next); got != "q-0" {
			t.Errorf("held are %s, want q-0", got)
		}
	})
}

// A lead is valid from before its last write was sent, however late the answer comes: meanwhile
// another server may have begun to wait for its end.
func TestValidFromTheStart(t *testing.T) {
	inBubble(t, func(t *testing.T, _ *unsteady.Database, a, _ *server) {
		const late = ttl / 5
		a.Disturb(everything(unsteady.Fate{After: late}))
		l := leadtest.Gain(t, a, ttl)
		a.Disturb(everything(unsteady.Fate{Lost: true}))
		time.Sleep(ttl - late - time.Millisecond)
		if err := l.Holds(); err != nil {
			t.Errorf("before the TTL is over: %v", err)
		}
		time.Sleep(2 * time.Millisecond)
		if l.Holds() == nil {
			t.Error("it is valid for longer than the TTL")
		}
	})
}

// A server that was stopped for longer than the TTL says no more that it leads.
func TestStopped(t *testing.T) {
	inBubble(t, func(t *testing.T, _ *unsteady.Database, a, b *server) {
		old := leadtest.Gain(t, a, time.Second)
		leadtest.Load(t, old)
		a.Stop()
		holds := make(chan error, 1)
		go func() { holds <- old.Holds() }()
		leadtest.Load(t, leadtest.Gain(t, b, 2*ttl))
		a.Continue()
		if err := <-holds; !errors.Is(err, store.ErrNotLeader) {
			t.Errorf("after the stop: %v", err)
		}
	})
}

// gainLater begins to gain the lead for s. What it gains comes on the channel.
func gainLater(t *testing.T, s *server) <-chan store.Lead {
	gained := make(chan store.Lead, 1)
	go func() {
		l, err := s.Gain(t.Context())
		if err != nil {
			t.Errorf("gain: %v", err)
		}
		gained <- l
	}()
	return gained
}

// A leader that gives the lead up is followed at once.
func TestResigns(t *testing.T) {
	inBubble(t, func(t *testing.T, _ *unsteady.Database, a, b *server) {
		old := leadtest.Gain(t, a, time.Second)
		leadtest.Load(t, old)
		gained := gainLater(t, b)
		time.Sleep(10 * ttl)
		if l := b.Leader(); l.URL != "http://a" || l.Standby != 1 {
			t.Errorf("the standby says %+v", l)
		}
		began := time.Now()
		old.Close()
		next := <-gained
		if next == nil {
			return
		}
		defer next.Close()
		if took := time.Since(began); took > time.Millisecond {
			t.Errorf("the next leader took %v", took)
		}
	})
}

// A server does not wait for the end of its own lead whose first answer was lost.
func TestLostTake(t *testing.T) {
	inBubble(t, func(t *testing.T, _ *unsteady.Database, a, _ *server) {
		first := true
		a.Disturb(func(method string) unsteady.Fate {
			broken := first && method == "Take"
			first = first && !broken
			return unsteady.Fate{Broken: broken}
		})
		leadtest.Load(t, leadtest.Gain(t, a, ttl/2))
	})
}

// A server whose commit the database refuses gives up the lead at once, and leaves it to others for a
// TTL: they may commit less at once. Nobody else may be there.
func TestRefusedCommit(t *testing.T) {
	inBubble(t, func(t *testing.T, _ *unsteady.Database, a, b *server) {
		refuse := func() {
			t.Helper()
			a.Disturb(only("Commit", unsteady.Fate{Refused: true}))
			l := leadtest.Gain(t, a, 2*ttl)
			leadtest.Load(t, l)
			defer a.Disturb(nil)
			defer l.Close()
			if err := l.Commit(store.Batch{Changes: []pool.Change{leadtest.Granted("q-0", 1)}, Generation: 1}); !errors.Is(err, store.ErrNotLeader) || !errors.Is(err, replicated.ErrRefused) {
				t.Errorf("the commit: %v", err)
			}
		}
		first := leadtest.Gain(t, a, time.Second)
		leadtest.Load(t, first)
		first.Close()
		for range 2 {
			refuse()
			began := time.Now()
			l := leadtest.Gain(t, a, 2*ttl)
			if took := time.Since(began); took != ttl {
				t.Errorf("without another server it leads after %v, want %v", took, ttl)
			}
			l.Close()
		}
		refuse()
		go a.Gain(t.Context())
		time.Sleep(ttl / 8)
		leadtest.Load(t, leadtest.Gain(t, b, ttl/8))
	})
}

// A killed standby counts for keptTTLs, and not after that, also if its entry cannot be deleted at
// first.
func TestKilledStandby(t *testing.T) {
	inBubble(t, func(t *testing.T, _ *unsteady.Database, a, b *server) {
		leadtest.Load(t, leadtest.Gain(t, a, time.Second))
		short, cancel := context.WithTimeout(t.Context(), ttl/2)
		defer cancel()
		if _, err := b.Gain(short); err == nil {
			t.Fatal("two lead")
		}
		time.Sleep(ttl)
		if n := a.Leader().Standby; n != 1 {
			t.Errorf("%d stand by, want 1", n)
		}
		a.Disturb(only("Leave", unsteady.Fate{Lost: true}))
		time.Sleep(4 * ttl)
		for range 8 {
			if n := a.Leader().Standby; n != 0 {
				t.Errorf("%d stand by, want 0", n)
			}
			time.Sleep(ttl / 3)
		}
		a.Disturb(nil)
		time.Sleep(ttl)
		if all, err := a.Standbys(t.Context(), nil); err != nil || len(all) != 0 {
			t.Errorf("left are %v, %v", all, err)
		}
	})
}

// A database that has lost commits is noticed by the leader, at its next commit and also without
// one, and by a standby that has seen them. No such server leads again. Only a server that is
// started anew does, and begins with what is there.
func TestLostCommits(t *testing.T) {
	for _, commits := range []bool{true, false} {
		inBubble(t, func(t *testing.T, db *unsteady.Database, a, b *server) {
			l := leadtest.Gain(t, a, time.Second)
			leadtest.Load(t, l)
			for i := range 5 {
				leadtest.Commit(t, l, leadtest.Granted(fmt.Sprint("q-", i), uint64(i+1)))
			}
			ended := make(chan error, 1)
			go func() {
				_, err := b.Gain(t.Context())
				ended <- err
			}()
			time.Sleep(2 * ttl)
			db.Forget(2)
			if commits {
				if err := l.Commit(store.Batch{Changes: []pool.Change{leadtest.Granted("q-5", 6)}, Generation: 6}); !errors.Is(err, store.ErrNotLeader) || !errors.Is(err, store.ErrLost) {
					t.Errorf("the next commit: %v", err)
				}
			}
			<-l.Over()
			if err := l.Holds(); !errors.Is(err, store.ErrNotLeader) || !errors.Is(err, store.ErrLost) {
				t.Errorf("the lead ended with %v", err)
			}
			l.Close()
			if _, err := a.Gain(t.Context()); !errors.Is(err, store.ErrLost) {
				t.Errorf("the leader goes on: %v", err)
			}
			if err := <-ended; !errors.Is(err, store.ErrLost) || !strings.Contains(err.Error(), "lost commits") {
				t.Errorf("the standby goes on: %v", err)
			}
			if got := leadtest.Held(t, leadtest.Gain(t, newServer(t, db, "http://c"), 2*ttl)); got != "q-0 q-1 q-2" {
				t.Errorf("held are %s", got)
			}
		})
	}
}

// A commit that a standby has read, and that was not durable yet, is not lost when the database goes on
// without it: nobody was answered. Here nothing that is written is acknowledged any more, and then
// the database goes on from a copy, and the leader is gone.
func TestReadIsNotLost(t *testing.T) {
	inBubble(t, func(t *testing.T, db *unsteady.Database, a, b *server) {
		l := leadtest.Gain(t, a, time.Second)
		leadtest.Load(t, l)
		leadtest.Commit(t, l, leadtest.Granted("q-0", 1))
		gained := gainLater(t, b)
		time.Sleep(2 * ttl)
		var read atomic.Int64 // how often the standby has read since
		unacknowledged := func(method string) unsteady.Fate { return unsteady.Fate{Silent: method != "Look"} }
		a.Disturb(unacknowledged)
		b.Disturb(func(method string) unsteady.Fate {
			if method == "Look" {
				read.Add(1)
			}
			return unacknowledged(method)
		})
		go l.Commit(store.Batch{Changes: []pool.Change{leadtest.Granted("q-1", 2)}, Generation: 2})
		time.Sleep(ttl / 2)
		if read.Load() == 0 {
			t.Error("the standby has read nothing")
		}
		a.Disturb(everything(unsteady.Fate{Lost: true}))
		db.Forget(1)
		b.Disturb(nil)
		next := <-gained
		if next == nil {
			return
		}
		defer next.Close()
		if got := leadtest.Held(t, next); got != "q-0" {
			t.Errorf("held are %s, want q-0", got)
		}
	})
}

// A store that is gone is refused, also if another is in its place.
func TestRefused(t *testing.T) {
	inBubble(t, func(t *testing.T, db *unsteady.Database, a, b *server) {
		l := leadtest.Gain(t, a, time.Second)
		leadtest.Load(t, l)
		l.Close()
		db.Erase()
		if _, err := a.Gain(t.Context()); !errors.Is(err, store.ErrGone) {
			t.Errorf("everything is gone: %v", err)
		}
		l = leadtest.Gain(t, b, ttl)
		leadtest.Load(t, l)
		l.Close()
		if _, err := a.Gain(t.Context()); !errors.Is(err, store.ErrGone) || !strings.Contains(err.Error(), "another store") {
			t.Errorf("another store is there: %v", err)
		}
	})
}

// A batch is divided between its steps if it exceeds the bounds of a transaction, and a step of
// many changes is divided, too. All of it is loaded again.
func TestDivided(t *testing.T) {
	inBubble(t, func(t *testing.T, _ *unsteady.Database, a, b *server) {
		l := leadtest.Gain(t, a, time.Second)
		leadtest.Load(t, l)
		var batch store.Batch
		for i := range 100 {
			batch.Changes = append(batch.Changes, leadtest.Granted(fmt.Sprintf("q-%d", i), uint64(i+1)))
			if i%3 == 2 && i < 60 {
				batch.Steps = append(batch.Steps, len(batch.Changes))
			}
		}
		many := leadtest.Granted("n-0", 101)
		for i := range 1000 {
			lease := many.Leases[0]
			lease.Name, lease.Generation = fmt.Sprintf("n-%d", i+1), uint64(i+102)
			many.Leases = append(many.Leases, lease)
		}
		batch.Changes = append(batch.Changes, many)
		batch.Generation = 1101
		if err := l.Commit(batch); err != nil {
			t.Fatal(err)
		}
		l.Close()
		if n := len(leadtest.Load(t, leadtest.Gain(t, b, time.Second)).Leases); n != 1101 {
			t.Errorf("%d leases, want 1101", n)
		}
	})
}

// A KILL between two transactions of a divided step separates no changes that belong together: each
// request is held, or waits, or has ended and is remembered; a name whose lease expired has its lock
// delay; and the names of a counted pool go on after the last grant.
func TestDividedStepKeepsTogether(t *testing.T) {
	const n = 40
	listed := pool.Config{Type: "q", Names: pool.Numbered("q", n), LockDelay: time.Hour}
	counted := pool.Config{Type: "c", Units: n}
	id := func(typ string, i int) string { return fmt.Sprintf("%s%d", typ, i) }
	ask := func(set *pool.Set, typ string) {
		for i := range n {
			if _, err := set.Acquire(0, pool.Request{ID: id(typ, i), Type: typ, Owner: "me"}); err != nil {
				t.Fatal(err)
			}
		}
	}
	steps := map[string]struct {
		before, step func(set *pool.Set)
	}{
		"leases expire": {
			func(set *pool.Set) { ask(set, "q") },
			func(set *pool.Set) { set.Advance(pool.ProvisionalTTL) },
		},
		"waiters are withdrawn": {
			func(set *pool.Set) { set.Pause(0, "c", pool.Act{}); ask(set, "c") },
			func(set *pool.Set) { set.ReleaseAll(0, func(string) bool { return true }) },
		},
		"a pool is resumed": {
			func(set *pool.Set) { set.Pause(0, "c", pool.Act{}); ask(set, "c") },
			func(set *pool.Set) { set.Resume(0, "c", pool.Act{}) },
		},
	}
	for what, c := range steps {
		set, err := pool.New([]pool.Config{listed, counted}, pool.Snapshot{}, 0)
		if err != nil {
			t.Fatal(err)
		}
		c.before(set)
		before := slices.Clone(set.Drain())
		c.step(set)
		changes := set.Drain()
		for killed, more := 1, true; more; killed++ {
			inBubble(t, func(t *testing.T, _ *unsteady.Database, a, b *server) {
				l := leadtest.Gain(t, a, time.Second)
				leadtest.Load(t, l)
				leadtest.Commit(t, l, before...)
				left := killed
				a.Disturb(func(method string) unsteady.Fate {
					if method == "Commit" {
						left--
					}
					return unsteady.Fate{Lost: left < 0}
				})
				more = l.Commit(store.Batch{Changes: changes, Clock: 1, Generation: n}) != nil
				l.Close()
				snap := leadtest.Load(t, leadtest.Gain(t, b, 2*ttl))
				if _, err := pool.New([]pool.Config{listed, counted}, snap, 0); err != nil {
					t.Errorf("%s, and after %d transactions the store has %v", what, killed, err)
				}
				there, last := make(map[string]int), 0
				for _, lease := range snap.Leases {
					there[lease.RequestID]++
					last = max(last, int(lease.Generation))
				}
				for _, w := range snap.Waiters {
					there[w.ID]++
				}
				for _, e := range snap.Ended {
					there[e.ID]++
				}
				if len(there) != n {
					t.Errorf("%s, and after %d transactions the store has %d of %d requests", what, killed, len(there), n)
				}
				if what == "leases expire" && len(snap.Locked) != len(snap.Ended) {
					t.Errorf("%s, and after %d transactions %d names are locked of %d", what, killed, len(snap.Locked), len(snap.Ended))
				}
				if what == "a pool is resumed" && last > 0 && (len(snap.Named) != 1 || snap.Named[0].Last != last) {
					t.Errorf("%s, and after %d transactions with %d grants the names go on from %+v", what, killed, last, snap.Named)
				}
			})
		}
	}
}
