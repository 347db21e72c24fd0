package proxyserver

import (
	"fmt"
	"log/slog"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/leasectl/leasectl/internal/pool"
	"github.com/leasectl/leasectl/leaseapi"
)

// A request is logged as queued once. After a restart its waiter is logged as returned, once
// too, however often the client asks.
func TestLogOfAReturnedWaiter(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		dir := t.TempDir()
		for life := range 2 {
			var log logText
			opts := durable(t, dir, 1)
			opts.Log = slog.New(slog.NewTextHandler(&log, nil))
			p := start(t, opts)
			if life == 0 {
				p.granted("type=q&owner=holder&ttl=1h")
			}
			p.later(t.Context(), "type=q&request_id=b")
			time.Sleep(30 * time.Second) // more than a slice
			p.later(t.Context(), "type=q&request_id=b")
			time.Sleep(2 * time.Second)
			if err := p.stop(); err != nil {
				t.Fatal(err)
			}
			queued, returned := strings.Count(log.String(), "msg=queued"), strings.Count(log.String(), "msg=returned")
			if queued != 1-life || returned != life {
				t.Errorf("life %d: %d lines of queued, %d of returned\n%s", life, queued, returned, log.String())
			}
		}
	})
}

// The log has the lines of a request in order, however late its call goes on after the pools
// decided that the request must wait.
func TestLogOfARequestIsInOrder(t *testing.T) {
	for name, c := range map[string]struct{ params, begins, ends string }{
		"queued": {"type=q&request_id=b", "queued", "granted"},
		"joined": {merging("b", "once", "v"), "joined", "coalesced"},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				var log logText
				var late atomic.Bool
				goOn := make(chan struct{})
				v := newVotes(t)
				v.holding = func() {
					if late.CompareAndSwap(true, false) {
						<-goOn
					}
				}
				p := start(t, Options{Pools: []pool.Config{quota(1)}, Election: v, Log: slog.New(slog.NewTextHandler(&log, nil))})
				v.win()
				first := p.granted(merging("a", "once", "v"))
				late.Store(true)
				waits := p.later(t.Context(), c.params)
				synctest.Wait()
				p.finish(first.Leases[0], 0)
				synctest.Wait()
				close(goOn)
				<-waits
				if err := p.stop(); err != nil {
					t.Fatal(err)
				}
				begins, ends := strings.Index(log.String(), "msg="+c.begins), strings.LastIndex(log.String(), "msg="+c.ends)
				if n := strings.Count(log.String(), "msg="+c.begins); n != 1 || ends < begins {
					t.Errorf("not in order:\n%s", log.String())
				}
			})
		})
	}
}

// The log explains why a lease of four hours ended after half a minute.
func TestLogOfAnUnconfirmedLease(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var log logText
		opts := durable(t, t.TempDir(), 2)
		opts.Log = slog.New(slog.NewTextHandler(&log, nil))
		p := start(t, opts)
		p.granted("type=q&request_id=unconfirmed&ttl=4h")
		firm := p.granted("type=q&request_id=firm&ttl=1m")
		p.do("POST", "/lease/renew", withLeases(firm.Leases...))
		time.Sleep(2 * time.Minute)
		if err := p.stop(); err != nil {
			t.Fatal(err)
		}
		for id, want := range map[string]bool{"unconfirmed held=30s": true, "firm held=1m0s": false} {
			_, line, is := strings.Cut(log.String(), "request_id="+id)
			line, _, _ = strings.Cut(line, "\n")
			if !is || strings.Contains(line, `reason="no renewal confirmed it`) != want {
				t.Errorf("%s: %s\n%s", id, line, log.String())
			}
		}
	})
}

// The log of a reload names the pools that it changed, and no others.
func TestLogOfChangedPools(t *testing.T) {
	var log logText
	paced := pool.Config{Type: "paced", Names: []string{"p"}}
	p := start(t, Options{Pools: []pool.Config{quota(2), paced, {Type: "gone", Units: 3}}, Log: slog.New(slog.NewTextHandler(&log, nil))})
	said := func(pools ...pool.Config) (lines []string) {
		t.Helper()
		before := len(log.String())
		if err := p.server.SetPools(pools); err != nil {
			t.Fatal(err)
		}
		for line := range strings.Lines(log.String()[before:]) {
			if _, text, is := strings.Cut(strings.TrimSpace(line), "level=INFO msg="); is {
				lines = append(lines, text)
			}
		}
		return lines
	}
	if lines := said(paced, quota(2), pool.Config{Type: "gone", Units: 3}); lines != nil {
		t.Errorf("of the same pools in another order: %q", lines)
	}
	slow := paced
	slow.Pace = time.Minute
	want := []string{`"pool changed" type=q capacity=1 before=2`, `"pool changed" type=paced capacity=1 before=1`, `"pool added" type=new capacity=5`, `"pool removed" type=gone before=3`}
	if lines := said(quota(1), slow, pool.Config{Type: "new", Units: 5}); !slices.Equal(lines, want) {
		t.Errorf("%q, want %q", lines, want)
	}
}

// The log says which pool ignores its start, since reports have moved its limit: when that start is read,
// and when a server begins.
func TestLogOfAStartIgnored(t *testing.T) {
	adapting := func(start int) pool.Config {
		return pool.Config{Type: "q", Units: 8, Adapt: &pool.Adapt{Start: start}}
	}
	dir := t.TempDir()
	var log logText
	begin := func(limit int) *peer {
		opts := durable(t, dir, 8)
		opts.Pools, opts.Log = []pool.Config{adapting(limit)}, slog.New(slog.NewTextHandler(&log, nil))
		return start(t, opts)
	}
	seen := 0
	ignored := func(start int) bool {
		t.Helper()
		text := log.String()[seen:]
		seen += len(text)
		return strings.Contains(text, fmt.Sprintf(`"start ignored: reports have moved the limit" type=q start=%d limit=3`, start))
	}
	p := begin(4)
	p.granted("type=q&owner=holder&ttl=1h&request_id=a")
	p.do("POST", leaseapi.PathReport, `{"request_id":"a","outcome":"throttled"}`)
	if ignored(4) {
		t.Error("the start counts, and is said to be ignored")
	}
	for _, start := range []int{4, 6} {
		if err := p.server.SetPools([]pool.Config{adapting(start)}); err != nil {
			t.Fatal(err)
		}
		if got, want := ignored(start), start == 6; got != want {
			t.Errorf("start %d: said to be ignored: %t", start, got)
		}
	}
	if err := p.stop(); err != nil {
		t.Fatal(err)
	}
	begin(6)
	if !ignored(6) {
		t.Error("the log of a new server does not say that the start is ignored")
	}
}

// The log warns once of each of two requests that wait for each other: of the second when it comes, and of
// the first when its client asks again.
func TestLogOfACircle(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var log logText
		p := start(t, Options{Pools: []pool.Config{{Type: "x", Units: 1}, {Type: "y", Units: 1}}, Log: slog.New(slog.NewTextHandler(&log, nil))})
		for _, query := range []string{"type=x&owner=A&request_id=a&ttl=1h", "type=y&owner=B&request_id=b&ttl=1h"} {
			l := p.granted(query).Leases[0]
			p.do("POST", leaseapi.PathRenew, fmt.Sprintf(`{"leases":[{"name":%q,"generation":%d}]}`, l.Name, l.Generation))
		}
		var asking sync.WaitGroup
		for _, query := range []string{"type=y&owner=A&request_id=wa", "type=x&owner=B&request_id=wb"} {
			asking.Go(func() {
				for range 3 {
					if r := <-p.later(t.Context(), query); r.status != 202 {
						t.Errorf("%s: %d %s", query, r.status, r.body)
					}
				}
			})
			synctest.Wait()
		}
		asking.Wait()
		for _, line := range []string{
			`level=WARN msg="waits in a circle" owner=B type=x request_id=wb reason="waits for A, which waits for you in y"`,
			`level=WARN msg="waits in a circle" owner=A type=y request_id=wa reason="waits for B, which waits for you in x"`,
		} {
			if n := strings.Count(log.String(), line); n != 1 {
				t.Errorf("%d times: %s\n%s", n, line, log.String())
			}
		}
		p.stop()
	})
}

// The line of a request has only what the request said: no count of 0.
func TestLogOfACount(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var log logText
		opts := durable(t, t.TempDir(), 1)
		opts.Log = slog.New(slog.NewTextHandler(&log, nil))
		p := start(t, opts)
		p.granted("type=q&owner=holder&ttl=1h")
		p.later(t.Context(), "type=q&request_id=b&key=k")
		p.later(t.Context(), "type=q&request_id=c&count=1")
		time.Sleep(time.Second)
		if err := p.stop(); err != nil {
			t.Fatal(err)
		}
		for line, want := range map[string]bool{"msg=queued owner=\"\" type=q request_id=b": true, "type=q count=1 request_id=c": true, "count=0": false} {
			if strings.Contains(log.String(), line) != want {
				t.Errorf("%s: want %t\n%s", line, want, log.String())
			}
		}
	})
}
