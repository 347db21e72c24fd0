package proxyserver

import (
	"context"
	"errors"
	"log/slog"
	"net/http"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/leasectl/leasectl/internal/pool"
	"github.com/leasectl/leasectl/internal/proxyserver/metrics"
	"github.com/leasectl/leasectl/internal/proxyserver/store"
	"github.com/leasectl/leasectl/internal/proxyserver/store/bolt"
	"github.com/leasectl/leasectl/leaseapi"
)

// probe is a store in a directory whose commits a test can hold up, and count.
type probe struct {
	store.Store
	hold    chan struct{} // holds a value while somebody commits or loads
	commits atomic.Int64
}

func (p *probe) Commit(b store.Batch) error {
	p.hold <- struct{}{}
	defer func() { <-p.hold }()
	p.commits.Add(1)
	return p.Store.Commit(b)
}

// Load waits for a commit under way, since a test may look into the store of a server that
// serves.
func (p *probe) Load() (pool.Snapshot, error) {
	p.hold <- struct{}{}
	defer func() { <-p.hold }()
	return p.Store.Load()
}

func openStore(t testing.TB, dir string) *probe {
	t.Helper()
	st, err := bolt.Open(dir)
	if err != nil {
		t.Fatal(err)
	}
	return &probe{Store: st, hold: make(chan struct{}, 1)}
}

func durable(t testing.TB, dir string, n int) Options {
	t.Helper()
	return Options{Pools: []pool.Config{quota(n)}, Store: openStore(t, dir)}
}

// probe returns the store of a server that [durable] made.
func (p *peer) probe() *probe { return p.server.store.(*probe) }

// After a stop and a start the same leases are held by the same owners under
// the same request ids, ended ids have ended, and generations go on.
func TestRestart(t *testing.T) {
	dir := filepath.Join(t.TempDir(), "not", "there", "yet")
	p := start(t, durable(t, dir, 4))
	a := p.granted("type=q&request_id=a&owner=me&count=2&ttl=5m")
	p.acquire("type=q")
	p.acquire("type=q&request_id=b")
	p.release(`{"request_ids":["b","unseen"]}`)
	before := p.pools()[0].Leases
	if err := p.stop(); err != nil {
		t.Fatal(err)
	}
	mode := func(path string) os.FileMode {
		info, err := os.Stat(path)
		if err != nil {
			t.Fatal(err)
		}
		return info.Mode().Perm()
	}
	if d, f := mode(dir), mode(filepath.Join(dir, "leases.db")); d != 0o700 || f != 0o600 {
		t.Errorf("the directory has mode %o, the file %o", d, f)
	}
	if files, _ := os.ReadDir(dir); len(files) != 1 {
		t.Errorf("the directory holds %v", files)
	}

	p = start(t, durable(t, dir, 4))
	after := p.pools()[0].Leases
	if len(after) != 3 || len(before) != 3 {
		t.Fatalf("held are\n%+v\nand were\n%+v", after, before)
	}
	for i := range after {
		if after[i].Lease != before[i].Lease || after[i].Owner != before[i].Owner || after[i].Provisional != before[i].Provisional {
			t.Errorf("lease %+v was %+v", after[i], before[i])
		}
	}
	if again := p.granted("type=q&request_id=a&owner=me&count=2"); !slices.Equal(again.Leases, a.Leases) || again.TTL != a.TTL {
		t.Errorf("request a has %+v, and had %+v", again, a)
	}
	for _, id := range []string{"b", "unseen"} {
		if r := p.acquire("type=q&request_id=" + id); r.status != 410 {
			t.Errorf("%s: %d %s", id, r.status, r.body)
		}
	}
	if c := p.granted("type=q&request_id=c"); c.Leases[0].Generation <= before[2].Generation {
		t.Errorf("generation %d after %d", c.Leases[0].Generation, before[2].Generation)
	}
	if h := decode[leaseapi.Health](t, p.do("GET", "/healthz", ""), 200); !h.Durable {
		t.Errorf("health %+v", h)
	}
}

// The lease clock stands still while the server is down. Renewable leases have their full TTL
// again. Delayed releases have their remaining time, to within the interval at which the clock
// is saved.
func TestClockStandsStill(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		dir, crashed := t.TempDir(), t.TempDir()
		p := start(t, durable(t, dir, 2))
		a := p.granted("type=q&request_id=a&ttl=5m").Leases[0]
		p.do("POST", "/lease/renew", withLeases(a))
		p.granted("type=q&request_id=b")
		p.release(`{"names":["q-1"],"delay":"20m"}`)
		time.Sleep(4*time.Minute + 58*time.Second)
		synctest.Wait()
		// The file that a KILL now would leave.
		data, err := os.ReadFile(filepath.Join(dir, bolt.File))
		if err == nil {
			err = os.WriteFile(filepath.Join(crashed, bolt.File), data, 0o600)
		}
		if err != nil {
			t.Fatal(err)
		}
		if err := p.stop(); err != nil {
			t.Fatal(err)
		}
		time.Sleep(24 * time.Hour)

		remaining := func(dir string) (renewable, delayed time.Duration) {
			p := start(t, durable(t, dir, 2))
			leases := p.pools()[0].Leases
			if len(leases) != 2 {
				t.Fatalf("leases %+v", leases)
			}
			return time.Duration(leases[0].ExpiresIn), time.Duration(leases[1].ExpiresIn)
		}
		if a, b := remaining(dir); a != 5*time.Minute || b != 15*time.Minute+2*time.Second {
			t.Errorf("after a stop %v and %v remain", a, b)
		}
		if a, b := remaining(crashed); a != 5*time.Minute || b < 15*time.Minute+2*time.Second || b > 15*time.Minute+2*time.Second+busyEvery {
			t.Errorf("after a crash %v and %v remain", a, b)
		}
	})
}

// While nothing is held the server writes only its clock, every five seconds.
func TestIdleServerWritesItsClock(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		p := start(t, durable(t, t.TempDir(), 1))
		p.do("GET", "/pools", "")
		time.Sleep(time.Minute) // at first the clock is saved more often
		synctest.Wait()
		before := p.probe().commits.Load()
		time.Sleep(time.Hour)
		synctest.Wait()
		if n := p.probe().commits.Load() - before; n < 719 || n > 721 {
			t.Errorf("%d commits in an hour without leases", n)
		}
	})
}

// An id that is forgotten leaves the store.
func TestForgottenLeavesTheStore(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		p := start(t, durable(t, t.TempDir(), 1))
		p.release(`{"request_ids":["a","b"]}`)
		ended := func() int {
			snap, err := p.server.store.Load()
			if err != nil {
				t.Error(err)
			}
			return len(snap.Ended)
		}
		if n := ended(); n != 2 {
			t.Errorf("%d ids in the store, want 2", n)
		}
		time.Sleep(leaseapi.EndedKept)
		synctest.Wait()
		if n := ended(); n != 0 {
			t.Errorf("%d ids after two hours, want none", n)
		}
	})
}

func TestMemoryGenerationsDoNotRepeat(t *testing.T) {
	var last uint64
	for range 3 {
		p := start(t, Options{Pools: []pool.Config{quota(2)}})
		g := p.granted("type=q&request_id=a&count=2").Leases
		if g[0].Generation <= last {
			t.Errorf("generation %d after %d", g[0].Generation, last)
		}
		last = g[1].Generation
		p.stop()
	}
}

// A commit that fails ends the server, and no client hears of changes that are not durable.
func TestCommitFails(t *testing.T) {
	synctest.Test(t, func(t *testing.T) { // no other commit comes before
		dir := t.TempDir()
		p := start(t, durable(t, dir, 2))
		p.acquire("type=q&owner=kept&count=2")
		waits := p.later(t.Context(), "type=q&request_id=w")
		p.waitingFor(1)
		waitsOn := p.later(t.Context(), "type=q")
		p.waitingFor(2)
		p.server.store.Close() // every later transaction fails

		unavailable := func(what string, r reply) {
			t.Helper()
			if pr := decode[leaseapi.Problem](t, r, 503); pr.Type != leaseapi.ProblemUnavailable {
				t.Errorf("%s: %+v", what, pr)
			}
		}
		unavailable("the release that failed", p.release(`{"names":["q-0"]}`))
		unavailable("the waiter that it served", <-waits)
		unavailable("the waiter behind that", <-waitsOn)
		unavailable("acquire", p.local("POST", "/lease/acquire?type=q&request_id=x", ""))
		unavailable("release", p.local("POST", "/lease/release", `{"names":["q-1"]}`))
		for _, path := range []string{"/pools", "/lease/requests/w", "/healthz", "/readyz"} {
			unavailable(path, p.local("GET", path, ""))
		}
		if err := p.ended(); !errors.Is(err, ErrStore) { // by itself
			t.Errorf("Serve: %v", err)
		}

		p = start(t, durable(t, dir, 2))
		if pools := p.pools(); pools[0].InUse != 2 || pools[0].Leases[0].Owner != "kept" {
			t.Errorf("after a restart: %+v", pools)
		}
	})
}

// A server that cannot begin closes its store: if its pools are not valid, or the stored state
// contradicts itself.
func TestNewFails(t *testing.T) {
	dir := t.TempDir()
	opts := durable(t, dir, 1)
	opts.Pools = append(opts.Pools, opts.Pools[0])
	if _, err := New(opts); err == nil {
		t.Fatal("two pools of one type were taken")
	}
	st := openStore(t, dir) // fails if the store is still locked
	incomplete := pool.Change{Kind: pool.Granted, Leases: []pool.Lease{{Name: "q-0"}}}
	if err := st.Commit(store.Batch{Changes: []pool.Change{incomplete}}); err != nil {
		t.Fatal(err)
	}
	if _, err := New(Options{Pools: []pool.Config{quota(1)}, Store: st}); err == nil || !strings.Contains(err.Error(), "incomplete") {
		t.Errorf("error %v of a lease that has only a name", err)
	}
	if err := openStore(t, dir).Close(); err != nil {
		t.Error(err)
	}
}

// When a term has ended, another term begins from the same store under the same front. The
// leases are held by the same owners, and the queue forms again.
func TestTermEndsAndAnotherBegins(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		p := start(t, durable(t, t.TempDir(), 1))
		held := p.granted("type=q&request_id=a&owner=me").Leases[0]
		waits := p.later(t.Context(), "type=q&request_id=w&wait=1h")
		synctest.Wait()
		first := p.server.term
		first.halt()
		first.dismiss()
		if r := <-waits; r.status != 202 {
			t.Errorf("the waiter got %d %s", r.status, r.body)
		}
		if r := p.do("GET", "/pools", ""); r.status != 503 {
			t.Errorf("between two terms: %d %s", r.status, r.body)
		}
		if err := first.end(); err != nil {
			t.Error(err)
		}

		next, err := beginTerm([]pool.Config{quota(1)}, p.server.store, termOptions{metrics: metrics.New(), log: slog.New(slog.DiscardHandler), maxWait: time.Hour})
		if err != nil {
			t.Fatal(err)
		}
		p.server.setTerm(next)
		stop := make(chan struct{})
		go next.keepTime(stop)
		defer close(stop)
		waits = p.later(t.Context(), "type=q&request_id=w&wait=1h")
		synctest.Wait()
		if l := p.pools()[0].Leases; len(l) != 1 || l[0].Lease != held || l[0].Owner != "me" {
			t.Errorf("held are %+v, want %+v", l, held)
		}
		p.release(`{"request_ids":["a"]}`)
		if got := decode[leaseapi.AcquireReply](t, <-waits, 200).Leases[0]; got.Generation <= held.Generation {
			t.Errorf("generation %d after %d", got.Generation, held.Generation)
		}
	})
}

// Every answer names the store, under an id that outlives the server; servers in
// memory have an id each.
func TestStoreID(t *testing.T) {
	dir := t.TempDir()
	ids := map[string]bool{}
	for _, opts := range []func() Options{
		func() Options { return durable(t, dir, 1) },
		func() Options { return durable(t, dir, 1) },
		func() Options { return Options{Pools: []pool.Config{quota(1)}} },
		func() Options { return Options{Pools: []pool.Config{quota(1)}} },
	} {
		p := start(t, opts())
		id := decode[leaseapi.Health](t, p.do("GET", "/healthz", ""), 200).Store
		for _, r := range []reply{p.acquire("type=q"), p.release(`{"names":["q-0"]}`), p.do("GET", "/nothing", ""), p.acquire("")} {
			if got := r.header.Get(leaseapi.HeaderStore); got != id || id == "" {
				t.Errorf("%d %s: id %q, want %q", r.status, r.body, got, id)
			}
		}
		ids[id] = true
		p.stop()
	}
	if len(ids) != 3 {
		t.Errorf("ids %v, want one of the directory and two of memory", ids)
	}
}

// A handler that panics ends the server, and the client is told.
func TestPanicOutsideOfThePools(t *testing.T) {
	p := start(t, Options{Pools: []pool.Config{quota(1)}})
	p.acquire("type=q")
	waits := p.later(t.Context(), "type=q")
	p.waitingFor(1)
	routes["/panics"] = &route{method: "GET", serve: func(*handler, caller, http.ResponseWriter, *http.Request) { panic("here") }}
	defer delete(routes, "/panics")
	for _, r := range []reply{p.do("GET", "/panics", ""), <-waits} {
		if r.status != 503 || !strings.Contains(r.body, "a call failed half-way, and the server ends: here") {
			t.Errorf("%d %s", r.status, r.body)
		}
	}
	if err := p.ended(); !errors.Is(err, errPanicked) {
		t.Errorf("Serve: %v", err)
	}
}

// A panic on the other stack on which a waiter is decided ends the server, too.
func TestPanicAside(t *testing.T) {
	p := start(t, Options{Pools: []pool.Config{quota(1)}, Log: slog.New(panicsAt{slog.DiscardHandler, "queued"})})
	p.acquire("type=q")
	p.server.term.lastWaits.Store(true)
	if r := p.acquire("type=q"); r.status != 503 || !strings.Contains(r.body, errPanicked.Error()) {
		t.Errorf("%d %s", r.status, r.body)
	}
	if err := p.ended(); !errors.Is(err, errPanicked) {
		t.Errorf("Serve: %v", err)
	}
}

// bad is a store whose commit panics if it holds a change.
type bad struct{ store.Store }

func (b bad) Commit(batch store.Batch) error {
	if len(batch.Changes) > 0 {
		panic("no commit")
	}
	return b.Store.Commit(batch)
}

// A commit that panics ends the server, too.
func TestPanicOfACommit(t *testing.T) {
	p := start(t, Options{Pools: []pool.Config{quota(1)}, Store: bad{openStore(t, t.TempDir())}})
	if r := p.acquire("type=q"); r.status != 503 || !strings.Contains(r.body, "no commit") {
		t.Errorf("%d %s", r.status, r.body)
	}
	if err := p.ended(); !errors.Is(err, errPanicked) {
		t.Errorf("Serve: %v", err)
	}
}

// A reload while the server ends is not logged as refused: other lines say that the server
// ends.
func TestReloadOfAServerThatEnds(t *testing.T) {
	for name, end := range map[string]func(p *peer){
		"stopped": func(p *peer) { p.stop() },
		"failed":  func(p *peer) { p.server.store.Close(); p.acquire("type=q"); p.ended() },
		"panicked": func(p *peer) {
			p.server.term.failCall("here")
			p.ended()
		},
	} {
		t.Run(name, func(t *testing.T) {
			var log logText
			opts := durable(t, t.TempDir(), 1)
			opts.Log = slog.New(slog.NewTextHandler(&log, nil))
			p := start(t, opts)
			end(p)
			err := p.server.SetPools([]pool.Config{quota(2)})
			p.server.Reloaded("config", err)
			if err == nil || strings.Contains(log.String(), "reload") {
				t.Errorf("%v\n%s", err, log.String())
			}
		})
	}
}

// The store is checked while nothing happens.
func TestStoreGoneWhileIdle(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		dir := filepath.Join(t.TempDir(), "data")
		p := start(t, durable(t, dir, 1))
		time.Sleep(time.Minute)
		if err := os.Rename(dir, dir+".old"); err != nil {
			t.Fatal(err)
		}
		begin := time.Now()
		if err := p.ended(); !errors.Is(err, ErrStore) || !errors.Is(err, store.ErrGone) || time.Since(begin) > 2*storeEvery {
			t.Errorf("Serve: %v after %v", err, time.Since(begin))
		}
	})
}

// A panic of the metrics or of the log after a commit ends the server, too.
func TestPanicAfterACommit(t *testing.T) {
	for _, part := range []string{"metrics", "log"} {
		t.Run(part, func(t *testing.T) {
			opts := Options{Pools: []pool.Config{quota(1)}}
			if part == "log" {
				opts.Log = slog.New(panicsAt{slog.DiscardHandler, "released"})
			}
			p := start(t, opts)
			p.acquire("type=q")
			waits := p.later(t.Context(), "type=q")
			p.waitingFor(1)
			if part == "metrics" {
				term := p.server.term
				term.commitSem <- struct{}{} // or a commit might use them
				*term.metrics = metrics.Counts{}
				<-term.commitSem
			}
			p.do("POST", "/lease/release", `{"names":["q-0"]}`)
			<-waits
			if err := p.ended(); !errors.Is(err, errPanicked) {
				t.Errorf("Serve: %v", err)
			}
		})
	}
}

// panicsAt is a log handler that panics at a message.
type panicsAt struct {
	slog.Handler
	message string
}

func (h panicsAt) Enabled(context.Context, slog.Level) bool { return true }

func (h panicsAt) WithAttrs([]slog.Attr) slog.Handler { return h }

func (h panicsAt) Handle(_ context.Context, r slog.Record) error {
	if strings.Contains(r.Message, h.message) {
		panic(h.message)
	}
	return nil
}
