package proxyserver

import (
	"strings"
	"testing"

	"github.com/leasectl/leasectl/leaseapi"
)

// Two callers have a request with the same id. Each has its own; an operator says whose is meant, on the
// wire and on the page.
func TestSameIDOfTwoCallers(t *testing.T) {
	dir := t.TempDir()
	p, red, blue, ops := startWithTokens(t, durable(t, dir, 1))
	red.granted("type=q&request_id=held&owner=me")
	red.later(t.Context(), "type=q&request_id=same&owner=me&wait=1h")
	red.waitingFor(1)
	blue.later(t.Context(), "type=q&request_id=same&owner=me&wait=1h")
	red.waitingFor(2)
	place := func(who *peer, query string) int {
		t.Helper()
		return decode[leaseapi.RequestReply](t, who.do("GET", leaseapi.PathRequests+"same"+query, ""), 200).Place
	}
	if a, b := place(red, ""), place(blue, ""); a != 1 || b != 2 {
		t.Errorf("places %d and %d", a, b)
	}
	eye := withToken(p, "e-token-0123456789")
	for _, who := range []*peer{ops, eye} {
		if pr := decode[leaseapi.Problem](t, who.do("GET", leaseapi.PathRequests+"same", ""), 409); pr.Type != leaseapi.ProblemSeveral || !strings.Contains(pr.Detail, `"blue", "red"`) {
			t.Errorf("%+v", pr)
		}
		if a, b := place(who, "?caller=red"), place(who, "?caller=blue"); a != 1 || b != 2 {
			t.Errorf("places %d and %d", a, b)
		}
		if r := who.do("GET", leaseapi.PathRequests+"same?caller=green", ""); r.status != 404 {
			t.Errorf("of nobody: %d %s", r.status, r.body)
		}
	}
	if r := red.do("GET", leaseapi.PathRequests+"same?caller=blue", ""); r.status != 404 {
		t.Errorf("red asks for blue's: %d %s", r.status, r.body)
	}
	admin := signIn(p, "o-token-0123456789")
	if text := admin.page("/ui/requests/same"); !strings.Contains(text, `/ui/requests/same?caller=red`) || !strings.Contains(text, `/ui/requests/same?caller=blue`) {
		t.Errorf("the page of both:\n%s", text)
	}
	if text := admin.page("/ui/requests/same?caller=blue"); !strings.Contains(text, "at place <strong>2</strong>") || !strings.Contains(text, `href="/ui/remove?caller=blue&amp;request=same"`) {
		t.Errorf("the page of blue's:\n%s", text)
	}
	if r := ops.do("POST", leaseapi.PathMove, `{"request_id":"same","priority":3,"reason":"x"}`); r.status != 409 {
		t.Errorf("move of one of them: %d %s", r.status, r.body)
	}
	if r := ops.do("POST", leaseapi.PathMove, `{"request_id":"same","caller":"blue","priority":3,"reason":"x"}`); r.status != 200 || place(blue, "") != 1 {
		t.Errorf("move: %d %s", r.status, r.body)
	}
	for range 2 { // a second copy succeeds, too
		if r := ops.do("POST", leaseapi.PathRemove, `{"request_id":"same","caller":"blue","reason":"x"}`); r.status != 200 {
			t.Errorf("remove: %d %s", r.status, r.body)
		}
	}
	if place(red, "") != 1 || place(ops, "") != 1 { // only one waits now
		t.Error("the other one was removed")
	}
	if r := blue.acquire("type=q&request_id=same&owner=me"); r.status != 410 {
		t.Errorf("removed: %d %s", r.status, r.body)
	}
	p.stop()
	// The store tells them apart, too.
	_, red, blue, _ = startWithTokens(t, durable(t, dir, 1))
	if place(red, "") != 1 {
		t.Error("it lost its place")
	}
	if r := blue.acquire("type=q&request_id=same&owner=me"); r.status != 410 {
		t.Errorf("removed, after a restart: %d %s", r.status, r.body)
	}
}

// What waits and what is held keeps its id if the server begins to ask for tokens, or ceases to.
func TestIDsOverAChangeOfTokens(t *testing.T) {
	dir := t.TempDir()
	p := start(t, durable(t, dir, 3))
	p.granted("type=q&request_id=a&owner=me")
	p.stop()
	p, red, blue, _ := startWithTokens(t, durable(t, dir, 3))
	if got := red.granted("type=q&request_id=a&owner=me"); got.Names[0] != "q-0" {
		t.Errorf("with tokens: %+v", got)
	}
	blue.granted("type=q&request_id=b&owner=you")
	p.stop()
	p = start(t, durable(t, dir, 3))
	for id, owner := range map[string]string{"a": "me", "b": "you"} {
		p.granted("type=q&request_id=" + id + "&owner=" + owner)
		if n := p.pools()[0].InUse; n != 2 {
			t.Errorf("after %s, %d are in use", id, n)
		}
	}
	if r := p.release(`{"request_ids":["a","b"]}`); r.body != `{"released":["q-0","q-1"]}` {
		t.Errorf("%d %s", r.status, r.body)
	}
}
