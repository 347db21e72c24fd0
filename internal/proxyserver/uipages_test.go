package proxyserver

import (
	"fmt"
	"html"
	"regexp"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/leasectl/leasectl/internal/pool"
	"github.com/leasectl/leasectl/internal/proxyserver/past"
	"github.com/leasectl/leasectl/leaseapi"
)

// mostPageBytes bounds the length of a page, whatever a server holds, with owners of a usual
// length.
const mostPageBytes = 200 << 10

// The pages of a server with 400 pools and 10,000 waiters are bounded. Links lead from each page
// to the next, to all pools, leases and waiters.
func TestPagesAreBounded(t *testing.T) {
	pools := []pool.Config{{Type: "q", Names: pool.Numbered("q", 1000), MaxWaiters: 20000}}
	for i := range 399 {
		pools = append(pools, pool.Config{Type: fmt.Sprintf("pool-%03d", i), Names: []string{fmt.Sprintf("p%d", i)}})
	}
	p := start(t, Options{Pools: pools})
	err := p.server.term.do(func(set *pool.Set, now time.Duration) {
		for i := range 11000 {
			owner := fmt.Sprintf("https://ci.example/job/nightly-install/%d/", i)
			leases, err := set.Acquire(now, pool.Request{ID: fmt.Sprint("r", i), Type: "q", Owner: owner})
			if err != nil {
				t.Error(err)
			}
			for _, l := range leases { // made firm: a slow machine reads for longer than a provisional grant lasts
				set.Renew(now, pool.Ref{Name: l.Name, Generation: l.Generation}, time.Hour)
			}
		}
	})
	if err != nil {
		t.Fatal(err)
	}
	b := &browser{peer: p}
	walk := func(target, count, next string) {
		t.Helper()
		seen, pages := make(map[string]bool), 0
		for target != "" {
			text := b.page(target)
			if len(text) > mostPageBytes {
				t.Errorf("%s has %d bytes", target, len(text))
			}
			for _, m := range regexp.MustCompile(count).FindAllStringSubmatch(text, -1) {
				seen[m[1]] = true
			}
			target = ""
			if m := regexp.MustCompile(`<p class="more"><a href="(` + next + `[^"#]*)`).FindStringSubmatch(text); m != nil {
				target = html.UnescapeString(m[1])
			}
			if pages++; pages > 200 {
				t.Fatal("the pages do not end")
			}
		}
		want := map[string]int{`/ui/pools/([^"?]+)"`: 400, `/ui/requests/(r[0-9]+)"`: 10000, `<bdi>(q-[0-9]+)</bdi></th>`: 1000}[count]
		if len(seen) != want {
			t.Errorf("%d of %s on %d pages, want %d", len(seen), count, pages, want)
		}
	}
	walk("/", `/ui/pools/([^"?]+)"`, `/\?after=`)
	walk("/ui/pools/q", `/ui/requests/(r[0-9]+)"`, `/ui/pools/q\?place=`)
	walk("/ui/pools/q", `<bdi>(q-[0-9]+)</bdi></th>`, `/ui/pools/q\?generation=`)
	for _, target := range []string{"/ui/events", "/ui/find?q=nightly", "/ui/requests/r10999", "/ui/pools/q?place=999999", "/ui/pools/q?place=-1&generation=x", "/?after=9999", "/?after=-3"} {
		if text := b.page(target); len(text) > mostPageBytes {
			t.Errorf("%s has %d bytes", target, len(text))
		}
	}
	if text := b.page("/ui/requests/r10999"); !strings.Contains(text, "at place <strong>10000</strong> of 10000") || !strings.Contains(text, "<dd>full</dd>") {
		t.Errorf("the page of the last waiter:\n%s", text)
	}
}

// A job is found by a part of its owner, by its URL or a URL below it, by its request id and
// by the name of its lease.
func TestFind(t *testing.T) {
	p := start(t, Options{Pools: []pool.Config{quota(1), {Type: "other", Names: []string{"o"}}}})
	p.granted("type=q&request_id=first&owner=https://ci.example/job/install/12%23step")
	p.later(t.Context(), "type=q&request_id=second&owner=user@host")
	p.waitingFor(1)
	b := &browser{peer: p}
	for text, want := range map[string]string{
		"install/12": "first", "HTTPS://CI.example/job/install/12": "first", "https://ci.example/job/install/12/console?x=y#z": "first",
		"first": "first", "q-0": "first", "USER@": "second", " second ": "second", "nobody": "", "https://ci.example/job/install/123": "",
	} {
		page := b.page("/ui/find?q=" + strings.ReplaceAll(regexp.MustCompile(`[#?&+]`).ReplaceAllStringFunc(text, func(s string) string { return fmt.Sprintf("%%%02X", s[0]) }), " ", "%20"))
		var found []string
		for _, m := range regexp.MustCompile(`/ui/requests/([a-z]+)`).FindAllStringSubmatch(page, -1) {
			found = append(found, m[1])
		}
		if got := strings.Join(found, " "); got != want {
			t.Errorf("%q finds %q, want %q", text, got, want)
		}
	}
}

// The page of a request shows its state, from the queue to its end.
func TestPageOfARequest(t *testing.T) {
	p := start(t, Options{Pools: []pool.Config{quota(1)}})
	b := &browser{peer: p}
	p.granted("type=q&request_id=first&owner=me")
	p.later(t.Context(), "type=q&request_id=second&owner=you")
	p.waitingFor(1)
	if text := b.page("/ui/requests/second"); !strings.Contains(text, "at place <strong>1</strong> of 1") || !strings.Contains(text, "<dd>"+leaseapi.WaitFull+"</dd>") || !strings.Contains(text, "me</bdi>, for ") {
		t.Errorf("queued:\n%s", text)
	}
	p.release(`{"names":["q-0"],"owner":"me"}`)
	p.waitingFor(0)
	if text := b.page("/ui/requests/second"); !strings.Contains(text, "It has its lease") || !strings.Contains(text, "<bdi>q-0</bdi></th>") {
		t.Errorf("granted:\n%s", text)
	}
	p.release(`{"names":["q-0"]}`)
	if text := b.page("/ui/requests/second"); !strings.Contains(text, "It has ended") || !strings.Contains(text, "released") {
		t.Errorf("ended:\n%s", text)
	}
	if r := b.ask("GET", "/ui/requests/third", ""); r.status != 404 || !strings.Contains(r.body, "more than 2h ago") {
		t.Errorf("of no request: %d", r.status)
	}
}

// A type may be any text without control characters, and its page is found.
func TestPageOfAnyType(t *testing.T) {
	types := []string{"a/b", "..", ".", "a?b#c", "%2e%2e", `a\b`, "a b+c", "ü"}
	var pools []pool.Config
	for i, typ := range types {
		pools = append(pools, pool.Config{Type: typ, Names: []string{fmt.Sprint("n", i)}})
	}
	p := start(t, Options{Pools: pools})
	b := &browser{peer: p}
	links := regexp.MustCompile(`<a href="(/ui/pools/[^"]*)"><bdi>([^<]*)`).FindAllStringSubmatch(b.page("/"), -1)
	if len(links) != len(types) {
		t.Fatalf("%q", links)
	}
	for i, m := range links {
		if text := b.page(html.UnescapeString(m[1])); !strings.Contains(html.UnescapeString(text), "<h1><bdi>"+types[i]+"</bdi></h1>") {
			t.Errorf("%s is not the page of %q", m[1], types[i])
		}
	}
}

// The page of a standby has a link to the leader.
func TestPageOfAStandby(t *testing.T) {
	withVotes(t, func(t *testing.T, p *peer, v *votes) {
		b := &browser{peer: p}
		r := b.ask("GET", "/ui/pools/q", "")
		if r.status != 503 || !strings.Contains(r.body, `<a href="http://other/ui/pools/q">http://other</a>`) || strings.Contains(r.body, "in memory only") {
			t.Errorf("%d %s", r.status, r.body)
		}
		if r.header.Get("Connection") != "close" {
			t.Error("a balancer that passes bytes leads the browser here again")
		}
		// Its sessions would be worth nothing with the leader, to which a load balancer sends the next request.
		for _, path := range []string{"/ui/login", "/ui/logout"} {
			if r := b.ask("POST", path, "token=e-token-0123456789"); r.status != 503 || r.header.Get("Set-Cookie") != "" {
				t.Errorf("%s of a standby: %d, cookie %q", path, r.status, r.header.Get("Set-Cookie"))
			}
		}
		l := v.win()
		p.granted("type=q&request_id=a&owner=me")
		if text := b.page("/ui/pools/q"); !strings.Contains(text, ">me</bdi>") {
			t.Errorf("%s", text)
		}
		l.end()
		synctest.Wait()
		if r := b.ask("GET", "/", ""); r.status != 503 {
			t.Errorf("%d %s", r.status, r.body)
		}
	})
}

// Cuts and rises of a limit are events, with the reason and the owner of the report. The page
// of the pool shows the last of them.
func TestLimitOnThePage(t *testing.T) {
	adapts := quota(2)
	adapts.Adapt = &pool.Adapt{}
	fixed := pool.Config{Type: "fixed", Names: []string{"f"}}
	p := start(t, Options{Pools: []pool.Config{adapts, fixed}})
	b := &browser{peer: p}
	serial := 0
	end := func(typ, outcome, detail string) {
		t.Helper()
		serial++
		got := p.granted(fmt.Sprintf("type=%s&request_id=r%d&owner=job-%d", typ, serial, serial))
		p.release(fmt.Sprintf(`{"leases":[{"name":%q,"generation":%d}],"report":{"request_id":"r%d","outcome":%q,"detail":%q}}`,
			got.Names[0], got.Leases[0].Generation, serial, outcome, detail))
	}
	if text := b.page("/ui/pools/q"); !strings.Contains(text, "2 of 2") || !strings.Contains(text, ">never<") {
		t.Errorf("before any report:\n%s", text)
	}
	end("q", "throttled", "slow down")
	if text := b.page("/ui/pools/q"); !strings.Contains(text, "from 2 to 1, <time") || !strings.Contains(text, ">job-1<") || !strings.Contains(text, "<bdi>slow down</bdi>") {
		t.Errorf("after a cut:\n%s", text)
	}
	for range 4 { // as many as the rise after a cut needs
		end("q", "ok", "")
	}
	if text := b.page("/ui/pools/q"); !strings.Contains(text, "from 1 to 2, <time") || !strings.Contains(text, ">job-5<") {
		t.Errorf("after a rise:\n%s", text)
	}
	for what, want := range map[string][]string{
		"limit cut":    {"from 2 to 1: leases were throttled: slow down", ">job-1<"},
		"limit raised": {"from 1 to 2: as many leases as the limit ended ok", ">job-5<"},
	} {
		text := b.page("/ui/events?what=" + strings.ReplaceAll(what, " ", "+"))
		if strings.Count(text, `<span class="what">`+what+`</span>`) != 1 {
			t.Errorf("%s is not one event:\n%s", what, text)
		}
		for _, w := range append(want, "<option selected>"+what+"</option>") {
			if !strings.Contains(text, w) {
				t.Errorf("%s lacks %s:\n%s", what, w, text)
			}
		}
	}
	end("fixed", "throttled", "")
	if text := b.page("/ui/pools/fixed"); !strings.Contains(text, "by the limit of that time") || !strings.Contains(text, `data-label="Throttled"><div>1<`) {
		t.Errorf("the pool with a fixed limit:\n%s", text)
	}
	if text := b.page("/ui/events?type=fixed"); strings.Contains(text, `<span class="what">`) {
		t.Errorf("a fixed limit moved:\n%s", text)
	}
}

// A cut is a step in the chart of the pool.
func TestCutInTheChart(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		adapts := quota(2)
		adapts.Adapt = &pool.Adapt{}
		p := start(t, Options{Pools: []pool.Config{adapts}})
		time.Sleep(100 * time.Second)
		p.granted("type=q&request_id=r&ttl=1h")
		if got := p.do("POST", "/lease/report", `{"request_id":"r","outcome":"throttled"}`); got.status != 200 {
			t.Fatalf("%d %s", got.status, got.body)
		}
		time.Sleep(2 * time.Minute)
		synctest.Wait()
		if text := (&browser{peer: p}).page("/ui/pools/q"); !strings.Contains(text, `class="line" d="M56 8H57V54H60"`) {
			t.Errorf("%s", text)
		}
	})
}

// The charts begin with the server, go on by the minute, and go back for a day.
func TestPastByTheMinute(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		p := start(t, Options{Pools: []pool.Config{quota(3)}})
		day := func() past.Day {
			p.server.term.do(func(*pool.Set, time.Duration) {})
			return p.server.term.past.Day(p.server.term.totals()[0])
		}
		time.Sleep(100 * time.Second)
		p.granted("type=q&request_id=a&count=2&ttl=4h")
		p.do("POST", "/lease/renew", withLeases(p.pools()[0].Leases[0].Lease))
		time.Sleep(2 * time.Minute)
		synctest.Wait()
		d := day()
		want := []past.Minute{{Limit: 3}, {Starts: 2, InUse: 2, Limit: 3}, {InUse: 1, Limit: 3}, {InUse: 1, Limit: 3}}
		if fmt.Sprint(d.Minutes) != fmt.Sprint(want) || !d.Started.Equal(d.Begin) {
			t.Errorf("from %v: %+v", d.Begin, d.Minutes)
		}
		b := &browser{peer: p}
		if text := b.page("/ui/pools/q"); !strings.Contains(text, "The charts begin at") || !strings.Contains(text, "Starts per minute: now 0, at most 2") {
			t.Errorf("%s", text)
		}
		time.Sleep(30 * time.Hour)
		synctest.Wait()
		d = day()
		if n := len(d.Minutes); n != 24*60 || d.Minutes[0].Starts != 0 || d.Minutes[0].Limit != 3 {
			t.Errorf("%d minutes, first %+v", n, d.Minutes[0])
		}
		if text := b.page("/ui/pools/q"); strings.Contains(text, "The charts begin at") {
			t.Error("after a day they still say when they began")
		}
	})
}

// Each end of a lease and of a wait is an event.
func TestEventsOfEnds(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		p := start(t, Options{Pools: []pool.Config{quota(1)}})
		p.granted("type=q&request_id=a&owner=me")
		p.acquire("type=q&request_id=b&wait=1s&owner=you")
		p.do("POST", "/lease/break", `{"name":"q-0","reason":"stuck","now":true}`)
		p.granted("type=q&request_id=c")
		p.release(`{"names":["q-0"]}`)
		p.granted("type=q&request_id=d")
		time.Sleep(time.Minute)
		p.do("POST", "/pools/pause", `{"type":"q","reason":"maintenance"}`)
		p.do("POST", "/pools/resume", `{"type":"q"}`)
		synctest.Wait()
		b := &browser{peer: p}
		rows := func(target string) (whats []string) {
			for _, row := range strings.Split(b.page(target), "<tr ")[2:] {
				what := row[strings.Index(row, `="what"`):]
				what = what[strings.Index(what, ">")+1:]
				whats = append(whats, what[:strings.Index(what, "<")])
			}
			return whats
		}
		if got := strings.Join(rows("/ui/events"), ", "); got != "resumed, paused, expired, granted, released, granted, broken, timed out, granted" {
			t.Errorf("%s", got)
		}
		if got := strings.Join(rows("/ui/events?q=you"), ", "); got != "timed out" {
			t.Errorf("of you: %s", got)
		}
		if got := strings.Join(rows("/ui/events?what=granted&type=q"), ", "); got != "granted, granted, granted" {
			t.Errorf("granted: %s", got)
		}
		if text := b.page("/ui/events?what=broken"); !strings.Contains(text, "stuck") {
			t.Errorf("it does not say why it was broken:\n%s", text)
		}
		if got := strings.Join(rows("/ui/requests/a"), ", "); got != "broken, granted" {
			t.Errorf("of request a: %s", got)
		}
	})
}
