package proxyserver

import (
	"encoding/json"
	"fmt"
	"net/url"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/leasectl/leasectl/internal/pool"
	"github.com/leasectl/leasectl/internal/proxyserver/store"
	"github.com/leasectl/leasectl/leaseapi"
)

// replacing is the part of a query that names the leases to replace.
func replacing(leases ...leaseapi.Lease) string {
	var all []string
	for _, l := range leases {
		all = append(all, fmt.Sprintf("%s:%d", l.Name, l.Generation))
	}
	return "&replaces=" + url.QueryEscape(strings.Join(all, ","))
}

// holders returns the generation of each name of the first pool that is held.
func (p *peer) holders() map[string]uint64 {
	p.t.Helper()
	held := make(map[string]uint64)
	for _, l := range p.pools()[0].Leases {
		held[l.Name] = l.Generation
	}
	return held
}

// A request in the place of leases ends them and is granted, or queued behind all others. Sent
// again it is the same request, also by a server that was restarted: it ends nothing twice.
func TestReacquire(t *testing.T) {
	dir := t.TempDir()
	opts := Options{Pools: []pool.Config{quota(2)}, Store: openStore(t, dir)}
	p := start(t, opts)
	old := p.granted("type=q&count=2&owner=job-1&request_id=a")
	swap := "type=q&count=2&owner=job-1&request_id=b" + replacing(old.Leases...)
	now := p.granted(swap)
	if len(now.Stale) > 0 || now.Leases[0].Generation <= old.Leases[1].Generation {
		t.Errorf("%+v in the place of %+v", now, old)
	}
	if again := p.granted(swap); fmt.Sprint(again.Leases) != fmt.Sprint(now.Leases) || len(again.Stale) > 0 {
		t.Errorf("the same request was answered %+v, and then %+v", now, again)
	}
	p.stop()
	opts.Store = openStore(t, dir)
	p = start(t, opts)
	if again := p.granted(swap); fmt.Sprint(again.Leases) != fmt.Sprint(now.Leases) || len(again.Stale) > 0 {
		t.Errorf("after a restart the same request was answered %+v, want %+v", again, now)
	}
	// The name belongs to somebody else, and a copy of the request comes late.
	p.release(withLeases(now.Leases...))
	other := p.granted("type=q&count=2&owner=job-2&request_id=c")
	if r := p.acquire(swap); r.status != 410 {
		t.Errorf("a late copy was answered %d: %s", r.status, r.body)
	}
	if held := p.holders(); held["q-0"] != other.Leases[0].Generation || len(held) != 2 {
		t.Errorf("held are %v, want %+v", held, other.Leases)
	}
}

// The leases end in the commit that makes the request durable: no state of the store, after any
// commit, has neither of them.
func TestReacquireIsOneCommit(t *testing.T) {
	st := openStore(t, t.TempDir())
	var torn []string
	watched := &watchedStore{Store: st, after: func() {
		snap, err := st.Store.Load()
		if err != nil {
			torn = append(torn, err.Error())
		} else if len(snap.Leases)+len(snap.Waiters) < 2 {
			torn = append(torn, fmt.Sprintf("%d leases, %d waiters", len(snap.Leases), len(snap.Waiters)))
		}
	}}
	p := start(t, Options{Pools: []pool.Config{quota(2)}, Store: watched})
	old := p.granted("type=q&owner=job-1&request_id=a").Leases
	p.granted("type=q&owner=job-2&request_id=other")
	torn = nil
	for i := range 20 {
		query := fmt.Sprintf("type=q&owner=job-1&request_id=b%d", i) + replacing(old...)
		old = p.granted(query).Leases
	}
	// In a queue behind another, who gets the lease.
	waits := p.later(t.Context(), "type=q&owner=job-3&request_id=first")
	p.waitingFor(1)
	r := p.later(t.Context(), "type=q&owner=job-1&request_id=c"+replacing(old...))
	first := decode[leaseapi.AcquireReply](t, <-waits, 200)
	p.release(withLeases(first.Leases...))
	decode[leaseapi.AcquireReply](t, <-r, 200)
	p.stop()
	if len(torn) > 0 {
		t.Errorf("stored was %q", torn)
	}
}

// watchedStore calls after after each commit.
type watchedStore struct {
	store.Store
	after func()
}

func (s *watchedStore) Commit(b store.Batch) error {
	err := s.Store.Commit(b)
	s.after()
	return err
}

// A request that is refused ends nothing, and says why.
func TestReacquireRefused(t *testing.T) {
	two := pool.Config{Type: "full", Names: pool.Numbered("full", 1), MaxWaiters: 1}
	p := start(t, Options{Pools: []pool.Config{quota(2), two}})
	own := p.granted("type=q&owner=job-1&request_id=a").Leases
	others := p.granted("type=q&owner=job-2&request_id=b").Leases
	p.granted("type=full&request_id=c")
	p.later(t.Context(), "type=full&request_id=d")
	eventually(t, func() bool { return p.pools()[1].Waiting == 1 })
	for _, tt := range []struct {
		query  string
		status int
		says   string
	}{
		{"type=none&owner=job-1&request_id=e" + replacing(own...), 404, "resource type not found"},
		{"type=full&owner=job-1&request_id=e" + replacing(own...), 503, "too many requests wait"},
		{"type=q&count=3&owner=job-1&request_id=e" + replacing(own...), 400, "can never give that many"},
		{"type=q&owner=job-1&request_id=e" + replacing(own[0], others[0]), 403, `q-1 is held by \"job-2\"`},
		{"type=q&request_id=e" + replacing(own...), 403, `q-0 is held by \"job-1\"`},
		{"type=q&owner=job-1" + replacing(own...), 400, "replaces goes with a request_id"},
		{"type=q&owner=job-1&request_id=e&replaces=q-0", 400, "cannot unmarshal string"},
	} {
		r := p.acquire(tt.query)
		if r.status != tt.status || !strings.Contains(r.body, tt.says) {
			t.Errorf("%s: %d %s", tt.query, r.status, r.body)
		}
		if held := p.holders(); held["q-0"] != own[0].Generation || held["q-1"] != others[0].Generation {
			t.Errorf("%s: held are %v", tt.query, held)
		}
	}
	// What ended before keeps nothing from being taken, and is said.
	gone := leaseapi.Lease{Name: "q-1", Generation: others[0].Generation - 1}
	now := p.granted("type=q&owner=job-1&request_id=f" + replacing(own[0], gone))
	if len(now.Stale) != 1 || now.Stale[0].Lease != gone || now.Stale[0].Reason == "" {
		t.Errorf("stale are %+v", now.Stale)
	}
}

// With another token the lease is another's, whatever owner is said.
func TestReacquireWithTokens(t *testing.T) {
	_, red, blue, _ := startWithTokens(t, Options{Pools: []pool.Config{quota(1)}})
	own := red.granted("type=q&owner=job-1&request_id=a").Leases
	if r := blue.acquire("type=q&owner=job-1&request_id=b&wait=0" + replacing(own...)); r.status != 403 {
		t.Errorf("%d %s", r.status, r.body)
	}
	red.granted("type=q&owner=job-1&request_id=c" + replacing(own...))
}

// Leases are replaced in pools of all kinds: with the key that the request wants, of a counted
// pool, and while a pace or a pause keeps the request waiting, which must not keep the leases.
func TestReacquireInAllPools(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		counted := pool.Config{Type: "units", Units: 10}
		paced := pool.Config{Type: "paced", Names: pool.Numbered("paced", 2), Pace: time.Minute}
		p := start(t, Options{Pools: []pool.Config{quota(2), counted, paced}})
		swapped := func(typ, query string, leases ...leaseapi.Lease) leaseapi.AcquireReply {
			t.Helper()
			return p.granted("type=" + typ + "&owner=job-1&wait=1h&request_id=" + query + replacing(leases...))
		}
		key := p.granted("type=q&owner=job-1&key=k&request_id=a")
		key = swapped("q", "b&key=k", key.Leases...)
		merging := swapped("q", "c&key=k&coalesce=once&variant=v", key.Leases...)
		if held := p.holders(); len(held) != 1 || held[merging.Names[0]] != merging.Leases[0].Generation {
			t.Errorf("held are %v, want %+v", held, merging.Leases)
		}
		units := p.granted("type=units&owner=job-1&count=8&request_id=d")
		units = swapped("units", "e&count=9", units.Leases...)
		// From one pool to another.
		moved := swapped("units", "f&count=1", merging.Leases...)
		if use := []int{p.pools()[0].InUse, p.pools()[1].InUse}; use[0] != 0 || use[1] != 10 {
			t.Errorf("in use are %v", use)
		}
		_, _ = units, moved

		slow := p.granted("type=paced&owner=job-1&request_id=g")
		waits := p.later(t.Context(), "type=paced&owner=job-1&wait=1h&request_id=h"+replacing(slow.Leases...))
		synctest.Wait()
		if pl := p.pools()[2]; pl.InUse != 0 || pl.Waiting != 1 {
			t.Errorf("while the pace holds: %+v", pl)
		}
		fast := decode[leaseapi.Queued](t, <-waits, 202)
		for fast.RequestID != "" {
			r := p.acquire("type=paced&owner=job-1&wait=1h&request_id=h" + replacing(slow.Leases...))
			if r.status == 200 {
				break
			}
			fast = decode[leaseapi.Queued](t, r, 202)
			if len(fast.Stale) > 0 {
				t.Fatalf("stale is %+v, which this request has released", fast.Stale)
			}
		}
		p.do("POST", "/lease/pause", `{"type":"paced","reason":"maintenance"}`)
		held := p.pools()[2].Leases[0].Lease
		held.Units = 0
		waits = p.later(t.Context(), "type=paced&owner=job-1&wait=1h&request_id=i"+replacing(held))
		synctest.Wait()
		if pl := p.pools()[2]; pl.InUse != 0 || pl.Waiting != 1 {
			t.Errorf("while the pool is paused: %+v", pl)
		}
		<-waits
	})
}

// A request that does not wait gives the leases back all the same: its wait, of no time, is over.
func TestReacquireAtOnce(t *testing.T) {
	p := start(t, Options{Pools: []pool.Config{quota(1)}})
	own := p.granted("type=q&owner=job-1&request_id=a").Leases
	own = p.granted("type=q&owner=job-1&wait=0&request_id=b" + replacing(own...)).Leases
	waits := p.later(t.Context(), "type=q&owner=job-2&request_id=first")
	p.waitingFor(1)
	if r := p.acquire("type=q&owner=job-1&wait=0&request_id=c" + replacing(own...)); r.status != 503 || !strings.Contains(r.body, leaseapi.ProblemExhausted) {
		t.Errorf("%d %s", r.status, r.body)
	}
	decode[leaseapi.AcquireReply](t, <-waits, 200)
}

// A release by names ends a lease of the owner that was granted before the names were learned,
// with two seconds of tolerance. Any other is stale, which changes nothing.
func TestKnownFor(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		p := start(t, Options{Pools: []pool.Config{quota(1)}})
		for _, tt := range []struct {
			held  time.Duration
			body  string
			stale string // reason; empty: the lease ends
		}{
			{time.Minute, `{"names":["q-0"],"owner":"job-1","known_for":"0s"}`, ""},
			{time.Minute, `{"names":["q-0"],"owner":"job-1","known_for":"59s"}`, ""},
			{time.Minute, `{"names":["q-0"],"owner":"job-1","known_for":"62s"}`, ""},
			{time.Minute, `{"names":["q-0"],"owner":"job-1","known_for":"63s"}`, "granted-later"},
			{time.Minute, `{"names":["q-0"],"owner":"job-1","known_for":"20m"}`, "granted-later"},
			{time.Minute, `{"names":["q-0"],"owner":"job-1"}`, ""},
			{time.Minute, `{"names":["q-0"],"owner":"job-2","known_for":"0s"}`, "held-by-other"},
			{time.Minute, `{"names":["q-0"],"owner":"job-1","known_for":"20m","delay":"1s"}`, "granted-later"},
		} {
			l := p.granted("type=q&owner=job-1").Leases[0]
			time.Sleep(tt.held)
			r := decode[leaseapi.ReleaseReply](t, p.release(tt.body), 200)
			why := ""
			if len(r.Stale) == 1 {
				why = r.Stale[0].Reason
			}
			if _, held := p.holders()["q-0"]; why != tt.stale || held != (tt.stale != "") {
				t.Errorf("%s: %+v, held %v", tt.body, r, held)
			}
			p.release(withLeases(l))
		}
		for _, bad := range []string{
			`{"names":["q-0"],"known_for":"1s"}`, `{"owner":"job-1","known_for":"1s"}`, `{"names":["q-0"],"owner":"job-1","known_for":"-1s"}`,
		} {
			if r := p.release(bad); r.status != 400 || !strings.Contains(r.body, "known_for") {
				t.Errorf("%s: %d %s", bad, r.status, r.body)
			}
		}
	})
}

// The time of a grant is by the wall clock, not by the lease clock, which stands still while no
// server runs; and it outlives a restart.
func TestKnownForAfterARestart(t *testing.T) {
	dir := t.TempDir()
	serve := func() *peer {
		return start(t, Options{Pools: []pool.Config{quota(1)}, Store: openStore(t, dir)})
	}
	before := time.Now().Add(-time.Second)
	p := serve()
	p.granted("type=q&owner=job-1&request_id=a")
	p.stop()
	st := openStore(t, dir)
	snap, err := st.Load()
	if err != nil || len(snap.Leases) != 1 || snap.Leases[0].At.Before(before) || snap.Leases[0].At.After(time.Now().Add(time.Second)) {
		t.Fatalf("stored is %+v, %v", snap.Leases, err)
	}
	st.Close()
	p = serve()
	if r := decode[leaseapi.ReleaseReply](t, p.release(`{"names":["q-0"],"owner":"job-1","known_for":"1h"}`), 200); len(r.Stale) != 1 {
		t.Errorf("%+v", r)
	}
	if r := decode[leaseapi.ReleaseReply](t, p.release(`{"names":["q-0"],"owner":"job-1","known_for":"0s"}`), 200); len(r.Released) != 1 {
		t.Errorf("%+v", r)
	}
}

// A wait keeps nothing of what it replaces: with many leases that had ended before, it is answered at
// once, and waits when it comes back.
func TestManyReplaced(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		p := start(t, Options{Pools: []pool.Config{quota(1)}})
		p.granted("type=q&request_id=held")
		var many []leaseapi.Lease
		for i := range leaseapi.MaxReplaces {
			many = append(many, leaseapi.Lease{Name: num(uint64(i)), Generation: 1})
		}
		begin := time.Now()
		acquire := func(id string, replaces []leaseapi.Lease) reply {
			body, _ := json.Marshal(leaseapi.AcquireRequest{Ask: leaseapi.Ask{Type: "q"}, RequestID: id, Replaces: replaces})
			return p.do("POST", leaseapi.PathAcquire, string(body))
		}
		if got := decode[leaseapi.Queued](t, acquire("r", many), 202); len(got.Stale) != len(many) || time.Since(begin) > 0 {
			t.Errorf("%d are stale after %v", len(got.Stale), time.Since(begin))
		}
		if got := decode[leaseapi.Queued](t, acquire("r", many), 202); len(got.Stale) != 0 || got.Place != 1 || time.Since(begin) != leaseapi.SliceTime {
			t.Errorf("again: %d are stale, place %d, after %v", len(got.Stale), got.Place, time.Since(begin))
		}
		if r := acquire("s", append(many, many[0])); r.status != 400 {
			t.Errorf("more: %d %s", r.status, r.body)
		}
	})
}
