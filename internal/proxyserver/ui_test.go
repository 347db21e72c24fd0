package proxyserver

import (
	"context"
	"fmt"
	"net"
	"net/http"
	"net/url"
	"regexp"
	"strings"
	"testing"

	"github.com/leasectl/leasectl/internal/pool"
	"github.com/leasectl/leasectl/internal/proxyserver/auth"
)

// browser looks at pages, with a cookie if the server gave one.
type browser struct {
	*peer
	cookie string
}

// ask sends a request as a page of the server would, or as header says.
func (b *browser) ask(method, target, body string, header ...string) reply {
	b.t.Helper()
	req, err := http.NewRequest(method, "http://pipe"+target, strings.NewReader(body))
	if err != nil {
		b.t.Fatal(err)
	}
	req.Header.Set("Sec-Fetch-Site", "same-origin")
	if b.cookie != "" {
		req.Header.Set("Cookie", b.cookie)
	}
	for i := 0; i < len(header); i += 2 {
		req.Header.Set(header[i], header[i+1])
	}
	resp, err := b.http.Do(req)
	if err != nil {
		b.t.Fatal(err)
	}
	r, err := replyOf(resp)
	if err != nil {
		b.t.Fatal(err)
	}
	return r
}

// page gets a page, which must exist.
func (b *browser) page(target string) string {
	b.t.Helper()
	r := b.ask("GET", target, "")
	if r.status != 200 || r.header.Get("Content-Type") != "text/html; charset=utf-8" {
		b.t.Fatalf("%s: %d %s\n%s", target, r.status, r.header.Get("Content-Type"), r.body)
	}
	return r.body
}

// signIn begins a session with a token.
func signIn(p *peer, token string) *browser {
	p.t.Helper()
	b := &browser{peer: p}
	r := b.ask("POST", "/ui/login", url.Values{"token": {token}, "next": {"/ui/events"}}.Encode())
	cookie, _, _ := strings.Cut(r.header.Get("Set-Cookie"), ";")
	if r.status != 303 || r.header.Get("Location") != "/ui/events" || cookie == "" {
		p.t.Fatalf("sign in: %d %v %s", r.status, r.header, r.body)
	}
	b.cookie = cookie
	return b
}

const hostile = `"><script>alert(1)</script><img src=x onerror='alert(2)'>&lt;{}`

var tag = regexp.MustCompile(`<[^>]*>`)

// skeleton returns the tags of a page with the names of their attributes.
func skeleton(text string) string {
	return regexp.MustCompile(`="[^"]*"`).ReplaceAllString(strings.Join(tag.FindAllString(text, -1), "\n"), `=""`)
}

// Input of clients and operators is text on every page: the tags of the page do not depend on
// it, and links lead only to http and https.
func TestPageOfHostileTexts(t *testing.T) {
	pages := func(text, typ string) (all map[string]string) {
		all = make(map[string]string)
		p, red, _, ops := startWithTokens(t, Options{Pools: []pool.Config{{Type: typ, Names: []string{"n1"}}}})
		b := signIn(p, "o-token-0123456789")
		q := url.Values{"type": {typ}, "owner": {text}, "request_id": {"held"}}
		red.granted(q.Encode())
		for i, owner := range []string{text, "javascript:" + text, "https://ci.example/" + text, "data:text/html," + text, "ftp://ci.example/" + text} {
			q.Set("owner", owner)
			q.Set("request_id", fmt.Sprintf("waits-%d", i))
			red.later(t.Context(), q.Encode())
			red.waitingFor(i + 1)
		}
		ops.do("POST", "/pools/pause", fmt.Sprintf(`{"type":%q,"reason":%q}`, typ, text))
		ops.do("POST", "/lease/break", fmt.Sprintf(`{"name":"n1","reason":%q}`, text))
		e := url.QueryEscape(text)
		for name, target := range map[string]string{
			"overview": "/", "pool": "/ui/pools/" + url.PathEscape(typ), "request": "/ui/requests/held", "events": "/ui/events?q=" + e + "&type=" + e + "&what=" + e,
			"all events": "/ui/events", "found": "/ui/find?q=" + e, "not found": "/ui/find?q=zz" + e, "pause": "/ui/pause?type=" + e,
			"break": "/ui/break?name=" + e + "&generation=" + e, "remove": "/ui/remove?request=" + e, "signed in": "/ui/login?next=" + e,
		} {
			all[name] = b.page(target)
		}
		all["no pool"] = b.ask("GET", "/ui/pools/zz"+url.PathEscape(text), "").body
		all["no page"] = b.ask("GET", "/ui/"+url.PathEscape(text), "").body
		all["no reason"] = b.ask("POST", "/ui/pause", "reason=&type="+e).body
		all["too long"] = b.ask("POST", "/ui/pause", "type=x&reason="+e+strings.Repeat("x", 600)).body
		all["sign in"] = (&browser{peer: p}).page("/ui/login?next=" + url.QueryEscape("/ui/events?q="+text))
		return all
	}
	plain, evil := pages("harmless", "t"), pages(hostile, `t"><script>alert(3)</script>`)
	for name, text := range evil {
		if got, want := skeleton(text), skeleton(plain[name]); got != want {
			t.Errorf("%s: the tags differ:\n%s\nwant\n%s", name, got, want)
		}
		for _, link := range regexp.MustCompile(`href="([^"]*)"`).FindAllStringSubmatch(text, -1) {
			if !strings.HasPrefix(link[1], "/") && !strings.HasPrefix(link[1], "https://ci.example/") && !strings.HasPrefix(link[1], "#") {
				t.Errorf("%s: a link to %s", name, link[1])
			}
			if strings.HasPrefix(link[1], "//") {
				t.Errorf("%s: a link to another host: %s", name, link[1])
			}
		}
	}
	if !strings.Contains(evil["pool"], `<a class="owner" href="https://ci.example/%22%3E`) {
		t.Error("an owner that is a URL is no link")
	}
}

// Every answer, also to a refused request, forbids what a page does not need.
func TestPageHeaders(t *testing.T) {
	p, _, _, _ := startWithTokens(t, Options{Pools: []pool.Config{quota(1)}})
	b := signIn(p, "e-token-0123456789")
	style := regexp.MustCompile(`/ui/[0-9a-z]+/style.css`).FindString(b.page("/"))
	for _, target := range []string{"/", "/ui/pools/q", "/ui/events", "/ui/find?q=x", "/ui/nothing", "/ui/login", "/ui/pause?type=q", "/ui/requests/x", style} {
		r := b.ask("GET", target, "")
		csp := r.header.Get("Content-Security-Policy")
		if !strings.Contains(csp, "default-src 'none'") || !strings.Contains(csp, "frame-ancestors 'none'") || strings.Contains(csp, "unsafe") ||
			r.header.Get("X-Frame-Options") != "DENY" || r.header.Get("X-Content-Type-Options") != "nosniff" {
			t.Errorf("%s: %v", target, r.header)
		}
		if policy := r.header.Get("Referrer-Policy"); policy != "no-referrer" && policy != "same-origin" {
			t.Errorf("%s: Referrer-Policy %q", target, policy)
		}
		if cache := r.header.Get("Cache-Control"); (cache == "no-store") == (target == style) {
			t.Errorf("%s: Cache-Control %q", target, cache)
		}
	}
	if r := b.ask("DELETE", "/", ""); r.status != 405 || r.header.Get("Allow") == "" {
		t.Errorf("DELETE: %d", r.status)
	}
	if r := b.ask("POST", "/", ""); r.status != 405 {
		t.Errorf("POST /: %d", r.status)
	}
}

// A browser shows a token once, and then has a session, whose cookie says nothing of the token.
// Without a session there is nothing to see.
func TestPageSignIn(t *testing.T) {
	p, _, _, _ := startWithTokens(t, Options{Pools: []pool.Config{quota(1)}})
	b := &browser{peer: p}
	for _, target := range []string{"/", "/ui/pools/q", "/ui/events", "/ui/requests/x", "/ui/live?of=/", "/ui/pause?type=q"} {
		r := b.ask("GET", target, "")
		if want := "/ui/login?next=" + url.QueryEscape(target); r.status != 303 || r.header.Get("Location") != want {
			t.Errorf("%s without a session: %d, to %s", target, r.status, r.header.Get("Location"))
		}
	}
	name, _, _ := strings.Cut(signIn(p, "e-token-0123456789").cookie, "=")
	for _, forged := range []string{"x", name + "=x"} {
		b.cookie = forged
		if r := b.ask("GET", "/", ""); r.status != 303 {
			t.Errorf("with a cookie that nobody gave: %d", r.status)
		}
	}
	b.cookie = ""
	if r := b.ask("POST", "/ui/login", "token=wrong-0123456789abc"); r.status != 401 || r.header.Get("Set-Cookie") != "" || !strings.Contains(r.body, "does not know this token") {
		t.Errorf("with a wrong token: %d %v", r.status, r.header)
	}
	r := b.ask("POST", "/ui/login", "token=e-token-0123456789&next=//evil.example/")
	cookie := r.header.Get("Set-Cookie")
	for _, want := range []string{"HttpOnly", "SameSite=Strict", "Path=/", "Max-Age=43200"} {
		if !strings.Contains(cookie, want) {
			t.Errorf("the cookie %s has no %s", cookie, want)
		}
	}
	if r.header.Get("Location") != "/" || strings.Contains(cookie, "Secure") || strings.Contains(cookie, "token-0123456789") {
		t.Errorf("to %s with %s", r.header.Get("Location"), cookie)
	}
	for _, next := range []string{"https://evil.example/", "/\\evil.example/", "javascript:alert(1)", "/lease/acquire"} {
		if r := b.ask("POST", "/ui/login", url.Values{"token": {"e-token-0123456789"}, "next": {next}}.Encode()); r.header.Get("Location") != "/" {
			t.Errorf("%s leads to %s", next, r.header.Get("Location"))
		}
	}
	if r := b.ask("POST", "/ui/login", "token=e-token-0123456789", "Origin", "https://pipe"); !strings.Contains(r.header.Get("Set-Cookie"), "; Secure") {
		t.Errorf("over TLS: %s", r.header.Get("Set-Cookie"))
	}
	one, other := signIn(p, "e-token-0123456789"), signIn(p, "e-token-0123456789")
	if one.cookie == other.cookie {
		t.Error("two sessions have one cookie")
	}
	if text := one.page("/ui/login"); !strings.Contains(text, "<bdi>eye</bdi>") {
		t.Errorf("it does not say who is signed in:\n%s", text)
	}
	one.ask("POST", "/ui/logout", "")
	if r := one.ask("GET", "/", ""); r.status != 303 {
		t.Errorf("after signing out: %d", r.status)
	}
	other.page("/")
	// The wire does not accept the cookie.
	if r := other.ask("GET", "/pools", ""); r.status != 401 {
		t.Errorf("the wire takes a cookie: %d", r.status)
	}
	// Without its token the browser must sign in again, and is told so at once.
	p.server.SetAuth(&auth.Config{})
	if text := other.page("/ui/login"); !strings.Contains(text, `name="token"`) || strings.Contains(text, "<bdi>eye</bdi>") {
		t.Errorf("after its token was revoked:\n%s", text)
	}
}

// A browser that follows a link from another site does not send its cookie. It is told to ask
// again, and only then asked for a token.
func TestPageFromAnotherSite(t *testing.T) {
	p, _, _, _ := startWithTokens(t, Options{Pools: []pool.Config{quota(1)}})
	r := (&browser{peer: p}).ask("GET", "/ui/pools/q", "", "Sec-Fetch-Site", "cross-site", "Sec-Fetch-Mode", "navigate")
	if r.status != 200 || !strings.Contains(r.body, `http-equiv="refresh"`) || strings.Contains(r.body, "Queue") {
		t.Errorf("%d %s", r.status, r.body)
	}
}

// Without tokens a server shows its page only under host names that it knows.
func TestPageHosts(t *testing.T) {
	s, err := New(Options{Pools: []pool.Config{quota(1)}, Hosts: []string{"Leases.test"}})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { s.Close() })
	status := func(host string) int {
		w, r := record("GET", "/", "")
		r.Host = host
		s.ServeHTTP(w, r.WithContext(context.WithValue(r.Context(), http.LocalAddrContextKey, &net.TCPAddr{IP: net.IPv4(10, 1, 2, 3), Port: 8370})))
		return w.Code
	}
	for host, want := range map[string]int{
		"10.1.2.3:8370": 200, "10.1.2.3": 200, "localhost:8370": 200, "127.0.0.1": 200, "[::1]:1": 200, "leases.TEST:8370": 200, "leases.test.": 200,
		"evil.example": 403, "10.1.2.4": 403, "leases.test.evil.example": 403,
	} {
		if got := status(host); got != want {
			t.Errorf("host %s: %d, want %d", host, got, want)
		}
	}
}
