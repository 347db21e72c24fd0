package proxyserver

import (
	"net/url"
	"strings"
	"testing"

	"github.com/leasectl/leasectl/internal/pool"
	"github.com/leasectl/leasectl/leaseapi"
)

// Only a session of a token that is marked admin may operate, only from a page of the server
// itself, and only with a reason.
func TestPageOperationsAreForOperators(t *testing.T) {
	p, red, _, ops := startWithTokens(t, Options{Pools: []pool.Config{quota(1)}})
	held := red.granted("type=q&request_id=held").Leases[0]
	red.later(t.Context(), "type=q&request_id=waits")
	red.waitingFor(1)
	admin := signIn(p, "o-token-0123456789")
	forms := map[string]url.Values{
		"/ui/pause":  {"type": {"q"}},
		"/ui/resume": {"type": {"q"}},
		"/ui/remove": {"request": {"waits"}},
		"/ui/move":   {"request": {"waits"}, "priority": {"5"}},
		"/ui/break":  {"name": {"q-0"}, "generation": {num(held.Generation)}, "now": {"true"}},

		"/ui/reserve":   {"type": {"q"}, "name": {"q-0"}, "for": {"1h"}},
		"/ui/give-back": {"name": {"q-0"}},
	}
	for path, form := range forms {
		form.Set("reason", "maintenance")
		body := form.Encode()
		for _, token := range []string{"e-token-0123456789", "r-token-0123456789"} {
			b := signIn(p, token)
			for _, method := range []string{"GET", "POST"} {
				if r := b.ask(method, path, body); r.status != 403 {
					t.Errorf("%s %s with a token that is not marked admin: %d", method, path, r.status)
				}
			}
			if text := b.page("/ui/pools/q"); strings.Contains(text, path) {
				t.Errorf("%s is offered to somebody who may not", path)
			}
		}
		for _, header := range [][]string{{"Sec-Fetch-Site", "cross-site"}, {"Sec-Fetch-Site", "same-site"}, {"Sec-Fetch-Site", "", "Origin", "http://evil.example"}, {"Sec-Fetch-Site", "", "Origin", "null"}} {
			if r := admin.ask("POST", path, body, header...); r.status != 403 {
				t.Errorf("%s from another origin (%v): %d", path, header, r.status)
			}
		}
		form.Set("reason", "")
		if r := admin.ask("POST", path, form.Encode()); r.status != 409 || !strings.Contains(r.body, "reason is empty") || !strings.Contains(r.body, `name="reason"`) {
			t.Errorf("%s without a reason: %d", path, r.status)
		}
		// A GET shows the form, and does nothing.
		if text := admin.page(path + "?" + form.Encode()); !strings.Contains(text, `<form method="post" action="`+path+`"`) || !strings.Contains(text, "required") {
			t.Errorf("%s does not ask for a reason:\n%s", path, text)
		}
	}
	if q := ops.pools()[0]; q.InUse != 1 || q.Waiting != 1 || q.Reserved != 0 || q.Paused != "" || q.Leases[0].Broken != "" || q.Waiters[0].Priority != 0 {
		t.Errorf("something was done: %+v", q)
	}
}

// An operator pauses, resumes, removes and breaks from the page, with a reason that the holders
// and waiters concerned read.
func TestPageOperations(t *testing.T) {
	p, red, _, ops := startWithTokens(t, Options{Pools: []pool.Config{quota(1)}})
	held := red.granted("type=q&request_id=held").Leases[0]
	waits := red.later(t.Context(), "type=q&request_id=waits")
	red.waitingFor(1)
	admin := signIn(p, "o-token-0123456789")
	post := func(path string, form ...string) {
		t.Helper()
		v := make(url.Values)
		for i := 0; i < len(form); i += 2 {
			v.Set(form[i], form[i+1])
		}
		if r := admin.ask("POST", path, v.Encode()); r.status != 303 || !strings.HasPrefix(r.header.Get("Location"), "/ui/") {
			t.Errorf("%s %v: %d to %q\n%s", path, form, r.status, r.header.Get("Location"), r.body)
		}
	}
	offered := admin.page("/ui/pools/q")
	for _, link := range []string{`href="/ui/pause?type=q"`, `href="/ui/remove?caller=red&amp;request=waits"`, `href="/ui/move?caller=red&amp;priority=0&amp;request=waits"`, `href="/ui/break?generation=` + num(held.Generation) + `&amp;name=q-0"`} {
		if !strings.Contains(offered, link) {
			t.Errorf("the page does not offer %s", link)
		}
	}
	post("/ui/pause", "type", "q", "reason", "maintenance")
	if q := ops.pools()[0]; q.Paused != "maintenance" {
		t.Errorf("paused: %q", q.Paused)
	}
	if text := admin.page("/ui/pools/q"); !strings.Contains(text, "Paused for") || !strings.Contains(text, "maintenance") || !strings.Contains(text, `href="/ui/resume?type=q"`) {
		t.Errorf("the page does not say that it is paused:\n%s", text)
	}
	post("/ui/resume", "type", "q", "reason", "done")
	if q := ops.pools()[0]; q.Paused != "" {
		t.Errorf("paused: %q", q.Paused)
	}
	post("/ui/move", "request", "waits", "priority", "7", "reason", "the release waits for it")
	if w := ops.pools()[0].Waiters[0]; w.Priority != 7 {
		t.Errorf("moved: %+v", w)
	}
	for path, want := range map[string]string{"/ui/pools/q": "full; priority 7", "/ui/requests/waits": "full; priority 7", "/ui/move?request=waits&priority=7": `max="100" step="1" required value="7"`} {
		if text := admin.page(path); !strings.Contains(text, want) {
			t.Errorf("%s does not say %s:\n%s", path, want, text)
		}
	}
	for _, wrong := range []string{"", "101", "x"} {
		if r := admin.ask("POST", "/ui/move", "request=waits&reason=x&priority="+wrong); r.status != 409 {
			t.Errorf("moved to %q: %d", wrong, r.status)
		}
	}
	post("/ui/remove", "request", "waits", "reason", "not needed")
	if r := <-waits; r.status != 410 || !strings.Contains(r.body, "not needed") {
		t.Errorf("the waiter was told %d %s", r.status, r.body)
	}
	if text := admin.page("/ui/requests/waits"); !strings.Contains(text, "An operator removed it from the queue: <bdi>not needed</bdi>") {
		t.Errorf("its page:\n%s", text)
	}
	post("/ui/break", "name", "q-0", "generation", num(held.Generation), "reason", "stuck")
	if q := ops.pools()[0]; len(q.Leases) != 1 || q.Leases[0].Broken != "stuck" {
		t.Errorf("leases: %+v", q.Leases)
	}
	post("/ui/break", "name", "q-0", "generation", num(held.Generation), "reason", "stuck", "now", "true")
	if q := ops.pools()[0]; q.InUse != 0 {
		t.Errorf("leases: %+v", q.Leases)
	}
	events := admin.page("/ui/events")
	for _, act := range []string{"broken</a> by <bdi>ops</bdi>", "breaking</a> by <bdi>ops</bdi>", "removed</a> by <bdi>ops</bdi>", "moved</a> by <bdi>ops</bdi>", "resumed</span> by <bdi>ops</bdi>", "paused</span> by <bdi>ops</bdi>"} {
		i := strings.Index(events, act)
		if i < 0 {
			t.Fatalf("no %s, or not in order:\n%s", act, events)
		}
		events = events[i:]
	}
	if r := admin.ask("POST", "/ui/break", "name=q-0&reason=again&generation="+num(held.Generation)); r.status != 409 || !strings.Contains(r.body, "has ended") {
		t.Errorf("a lease that has ended is broken: %d\n%s", r.status, r.body)
	}
}

// Without tokens nobody is known to be an operator, so the page is read-only.
func TestPageWithoutTokensOnlyShows(t *testing.T) {
	p := start(t, Options{Pools: []pool.Config{quota(1)}})
	p.granted("type=q&request_id=held")
	b := &browser{peer: p}
	for _, path := range []string{"/ui/pause", "/ui/resume", "/ui/remove", "/ui/break"} {
		for _, method := range []string{"GET", "POST"} {
			if r := b.ask(method, path, "type=q&reason=x&name=q-0&generation=1&request=held"); r.status != 403 || !strings.Contains(r.body, "only shows") {
				t.Errorf("%s %s: %d", method, path, r.status)
			}
		}
	}
	if text := b.page("/ui/pools/q"); strings.Contains(text, "Pause…") || strings.Contains(text, "Break…") {
		t.Error("the page offers what it does not do")
	}
	if text := b.page("/ui/login"); strings.Contains(text, "<form method") {
		t.Error("it asks for a token")
	}
}

// A server that ends answers operations with 503, not with an error of the caller, both on the
// wire and from the page.
func TestOperationsOfAServerThatEnds(t *testing.T) {
	p, _, _, ops := startWithTokens(t, Options{Pools: []pool.Config{quota(1)}})
	admin := signIn(p, "o-token-0123456789")
	p.server.handler.term().halt()
	form := url.Values{"type": {"q"}, "request": {"r"}, "name": {"q-0"}, "generation": {"1"}, "reason": {"why"}}
	for _, path := range []string{"/ui/pause", "/ui/resume", "/ui/remove", "/ui/break"} {
		if r := admin.ask("POST", path, form.Encode()); r.status != 503 || !strings.Contains(r.body, "the server is stopping") {
			t.Errorf("%s: %d\n%s", path, r.status, r.body)
		}
	}
	for path, body := range map[string]string{
		"/pools/pause":  `{"type":"q","reason":"why"}`,
		"/pools/resume": `{"type":"q"}`,
		"/lease/remove": `{"request_id":"r","reason":"why"}`,
		"/lease/break":  `{"name":"q-0","reason":"why"}`,
		"/lease/resize": `{"name":"q-0","generation":1,"from":1,"count":2}`,
		"/backup":       "",
	} {
		if r := ops.do("POST", path, body); r.status != 503 || !strings.Contains(r.body, leaseapi.ProblemUnavailable) {
			t.Errorf("%s: %d %s", path, r.status, r.body)
		}
	}
}
