package proxyserver

import (
	"crypto/x509"
	"errors"
	"flag"
	"fmt"
	"maps"
	"net/http"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/leasectl/leasectl/internal/pool"
	"github.com/leasectl/leasectl/leaseapi"
)

var writeExposition = flag.Bool("write-exposition", false, "write what TestExposition compares with, after a metric was added")

// What the server tells a scraper after a certain load stays as it is in testdata: names, types,
// help, labels and values. Dashboards and alerts of users depend on it. Values that the machine
// decides are not compared.
func TestExposition(t *testing.T) {
	for name, load := range map[string]func(t *testing.T) string{"alone": expositionAlone, "leader": expositionOfALeader} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				text := load(t)
				file := filepath.Join("testdata", "exposition-"+name+".txt")
				if *writeExposition {
					if err := os.WriteFile(file, []byte(text), 0o666); err != nil {
						t.Fatal(err)
					}
				}
				before, err := os.ReadFile(file)
				if err != nil {
					t.Fatal(err)
				}
				compareExpositions(t, string(before), text)
			})
		})
	}
}

// compareExpositions compares two texts, whatever the order of their families and the form of
// their numbers.
func compareExpositions(t *testing.T, before, after string) {
	t.Helper()
	was, err := parseMetrics(before)
	if err != nil {
		t.Fatal(err)
	}
	is, err := parseMetrics(after)
	if err != nil {
		t.Fatalf("%v in\n%s", err, after)
	}
	for _, name := range slices.Sorted(maps.Keys(is)) {
		if _, ok := was[name]; !ok {
			t.Errorf("%s is new: see -write-exposition", name)
		}
	}
	for _, name := range slices.Sorted(maps.Keys(was)) {
		old, now := was[name], is[name]
		machine := strings.HasPrefix(name, "process_") || strings.HasPrefix(name, "go_") || strings.HasPrefix(name, "leasectl_commit_")
		if now.kind == "" && machine {
			continue // this system does not provide it
		}
		if old.kind != now.kind || old.help != now.help {
			t.Errorf("%s is a %s %q, and was a %s %q", name, now.kind, now.help, old.kind, old.help)
		}
		for _, key := range slices.Sorted(maps.Keys(now.samples)) {
			if _, ok := old.samples[key]; !ok {
				t.Errorf("%s is new", key)
			}
		}
		for _, key := range slices.Sorted(maps.Keys(old.samples)) {
			if v, ok := now.samples[key]; !ok || v != old.samples[key] && !machine {
				t.Errorf("%s is %v, %v, and was %v", key, v, ok, old.samples[key])
			}
		}
	}
}

// exposition is the text of a scrape, without the version of Go.
func (p *peer) exposition() string {
	p.t.Helper()
	synctest.Wait()
	r := p.do("GET", leaseapi.PathMetrics, "")
	if r.status != http.StatusOK {
		p.t.Fatalf("%d %s", r.status, r.body)
	}
	lines := strings.SplitAfter(r.body, "\n")
	for i, line := range lines {
		for _, label := range []string{`goversion="`, `go_info{version="`} {
			if before, rest, ok := strings.Cut(line, label); ok {
				lines[i] = before + label + "go" + rest[strings.Index(rest, `"`):]
			}
		}
	}
	return strings.Join(lines, "")
}

// expositionAlone uses a server that leads by itself in all ways that it counts.
func expositionAlone(t *testing.T) string {
	adapts := pool.Config{Type: "adapts", Names: []string{"a0", "a1"}, Adapt: &pool.Adapt{}}
	old := pool.Config{Type: "old", Names: []string{"o0", "o1"}, DefaultTTL: time.Minute, V1TTL: 10 * time.Minute}
	odd := pool.Config{Type: "odd \"type\" \\ ü{},=", Names: []string{"x"}, Pace: time.Hour}
	opts := durable(t, t.TempDir(), 3)
	opts.Pools = append(opts.Pools, memoryPool(t), adapts, old, odd)
	opts.Version, opts.MaxWait = "v1 \"odd\"", time.Minute
	opts.DroppedLines = func() int { return 7 }
	opts.Leaf = func() *x509.Certificate {
		return &x509.Certificate{NotBefore: time.Now().Add(-time.Hour), NotAfter: time.Now().Add(time.Hour)}
	}
	p := start(t, opts)
	confirm := func(l leaseapi.Lease) leaseapi.Lease { p.do("POST", leaseapi.PathRenew, withLeases(l)); return l }
	post := func(path, body string) {
		t.Helper()
		if r := p.do("POST", path, body); r.status >= 300 {
			t.Fatalf("%s %s: %d %s", path, body, r.status, r.body)
		}
	}

	// Waits and ends of leases.
	first := confirm(p.granted("type=q&request_id=a&count=2").Leases[0])
	p.granted("type=q&request_id=b")
	waits := p.later(t.Context(), "type=q&request_id=w&wait=1h")
	time.Sleep(20 * time.Second)
	p.release(withLeases(first))
	<-waits
	post(leaseapi.PathBreak, `{"name":"q-0","reason":"x","now":true}`)
	time.Sleep(2 * time.Minute) // the others were never confirmed
	confirm(p.granted("type=q&request_id=c&count=3&ttl=1h").Leases[0])
	p.acquire("type=q&request_id=timeout&wait=5s")
	removed := p.later(t.Context(), "type=q&request_id=removed&wait=1h")
	synctest.Wait()
	post(leaseapi.PathRemove, `{"request_id":"removed","reason":"x"}`)
	<-removed
	cancelled := p.later(t.Context(), "type=q&request_id=cancelled&wait=1h")
	synctest.Wait()
	p.release(`{"request_ids":["cancelled"]}`)
	<-cancelled

	// Units, what was used of them, and reports.
	for i, bytes := range []int64{123456789, 300, 200} {
		l := p.granted(fmt.Sprintf("type=mem&count=%d&request_id=mem%d", 10*(i+1), i)).Leases[0]
		post(leaseapi.PathResize, fmt.Sprintf(`{"name":%q,"generation":%d,"from":%d,"count":100}`, l.Name, l.Generation, 10*(i+1)))
		post(leaseapi.PathResize, fmt.Sprintf(`{"name":%q,"generation":%d,"from":100,"count":50}`, l.Name, l.Generation))
		p.release(fmt.Sprintf(`{"leases":[{"name":%q,"generation":%d}],"peak":{"bytes":%d,"source":"cgroup"}}`, l.Name, l.Generation, bytes))
	}
	confirm(p.granted("type=mem&count=1000&request_id=most&ttl=1h").Leases[0])
	confirm(p.granted("type=mem&count=100&request_id=over&overcommit=true&ttl=1h").Leases[0])
	for i, outcome := range []string{"throttled", "ok", "ok", "ok", "ok"} {
		l := p.granted(fmt.Sprintf("type=adapts&request_id=ad%d", i)).Leases[0]
		p.release(fmt.Sprintf(`{"leases":[{"name":%q,"generation":%d}],"report":{"request_id":"ad%d","outcome":%q}}`, l.Name, l.Generation, i, outcome))
	}

	// Refusals, and reloads.
	for _, query := range []string{"type=none", "type=also-none", "type=q&count=9", "type=q&request_id=%zz", "type=mem&count=9999"} {
		p.acquire(query)
	}
	p.server.Reloaded("config", nil)
	p.server.Reloaded("config", errors.New("broken"))
	p.server.Reloaded("tokens", nil)

	// Leases of version 1, and a pool that is paused.
	p.acquire("type=old")
	time.Sleep(9*time.Minute + version1Every)
	synctest.Wait()
	p.acquire("type=old")
	time.Sleep(2 * time.Minute)
	post(leaseapi.PathPause, `{"type":"q","reason":"x"}`)
	p.granted("type=" + strings.NewReplacer(" ", "%20", `"`, "%22", `\`, "%5C", "{", "%7B", "}", "%7D").Replace(odd.Type) + "&request_id=odd")
	return p.exposition()
}

// sizedVotes is an election that knows the size of its database.
type sizedVotes struct{ *votes }

func (sizedVotes) Size() (total, used int64) { return 3 << 30, 12345 }

// expositionOfALeader is that of a server that leads others.
func expositionOfALeader(t *testing.T) string {
	v := newVotes(t)
	p := start(t, Options{Pools: []pool.Config{quota(1)}, Election: sizedVotes{v}, Version: "v1"})
	synctest.Wait()
	l := v.win()
	p.granted("type=q&request_id=a&owner=me")
	text := p.exposition()
	l.end()
	if err := p.stop(); err != nil {
		t.Errorf("Serve: %v", err)
	}
	return text
}
