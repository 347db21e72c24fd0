package ui

import (
	"log/slog"
	"net/http/httptest"
	"regexp"
	"strings"
	"testing"
	"time"

	"github.com/leasectl/leasectl/internal/pool"
	"github.com/leasectl/leasectl/internal/proxyserver/auth"
	"github.com/leasectl/leasectl/internal/proxyserver/past"
	"github.com/leasectl/leasectl/leaseapi"
)

// bare is a server without tokens. All methods that it lacks panic.
type bare struct{ Server }

func (bare) Durable() bool    { return true }
func (bare) Gate() *auth.Gate { return auth.Open(nil, slog.New(slog.DiscardHandler)) }

// A page that cannot be made is answered with 500, and logged.
func TestPageThatCannotBeMade(t *testing.T) {
	var log strings.Builder
	u := New(bare{}, "1", 100, slog.New(slog.NewTextHandler(&log, nil)))
	for name, p := range map[string]page{
		"no template": {name: "none", status: 200, Parts: parts("text")},
		"no field":    {name: "message", status: 200, Parts: parts("text"), data: 1},
		"no lease":    {name: "pool", status: 200, Parts: parts("held"), data: poolData{Held: leasesView{Rows: []leaseView{{}}}}},
	} {
		log.Reset()
		w := httptest.NewRecorder()
		u.write(w, httptest.NewRequest("GET", "/ui/x", nil), auth.Token{}, p)
		if w.Code != 500 || strings.Contains(w.Body.String(), "<html") || !strings.Contains(log.String(), "/ui/x") {
			t.Errorf("%s: %d %s, log %s", name, w.Code, w.Body, log.String())
		}
	}
}

// tags matches the tags of a page; values, the values of their attributes.
var tags, values = regexp.MustCompile(`<[^>]*>`), regexp.MustCompile(`="[^"]*"`)

// No text of clients and operators changes the tags of a page, and none becomes a link to
// anything but http and https.
func FuzzTexts(f *testing.F) {
	f.Add(`"><script>alert(1)</script>`)
	f.Add("javascript:alert(1)")
	f.Add("{{.}}\x00'")
	f.Add("https://ci.example/\"onclick=alert(1)")
	show := func(t *testing.T, text string) string {
		owner := pool.BindOwner("token", "x"+text)
		v := view{Operator: true, now: time.Minute, zero: time.Unix(0, 0)}
		p := pool.PoolStatus{
			Type: text, Counted: true, Unit: text, Capacity: 2, Limit: 2, InUse: 2, Waiting: 2, Adapt: true,
			Paused: &pool.Pause{Reason: text}, Moved: pool.Move{From: 2, To: 1, Owner: owner, Detail: "x" + text},
			Leases:  []pool.Lease{{Name: text, RequestID: "x" + text, Owner: owner, Broken: "x" + text, Ask: pool.Ask{Key: "x" + text}}},
			Waiters: []pool.WaiterStatus{{ID: text, Owner: owner, Key: "x" + text, Reason: leaseapi.WaitReason{Kind: leaseapi.WaitReserved, Name: text, By: "x" + text, Token: text, Text: text, Type: text}}, {ID: text, Owner: owner, Follows: "x" + text}},
		}
		e := past.Event{What: text, Type: text, Holder: owner, Names: []string{text, text}, RequestID: "x" + text, By: "x" + text, Detail: text}
		found := []foundView{{Type: text, Owner: owner, State: text, ID: "x" + text}}
		var all strings.Builder
		for _, p := range []page{
			poolPage(poolView{view: v, PoolStatus: p}, pool.Part{}, past.Day{}),
			{name: "events", Title: text, Parts: parts("filter", "events"), data: eventsData{filter: filter{Query: text}, Types: []string{text}, Events: v.events([]past.Event{e}), Older: "/x"}},
			{name: "find", Parts: parts("found"), data: findData{Text: text, Sought: true, Found: found}},
			{name: "operation", Title: text, Parts: parts("form"), data: asked{Text: text, Fields: map[string]string{"type": text}, Reason: text, Error: "x" + text, Back: poolPath(text)}},
			message(200, text, text, "", text),
		} {
			if err := p.write(&all, frame{Server: "x" + text, User: "x" + text, Query: text}); err != nil {
				t.Fatal(err)
			}
		}
		return all.String()
	}
	f.Fuzz(func(t *testing.T, text string) {
		if text == "" {
			t.Skip("pages leave out what is empty")
		}
		html := show(t, text)
		skeleton := func(html string) string {
			return values.ReplaceAllString(strings.Join(tags.FindAllString(html, -1), "\n"), "")
		}
		got, want := strings.Split(skeleton(html), "\n"), strings.Split(skeleton(show(t, "harmless")), "\n")
		for i := range want {
			if i >= len(got) || got[i] != want[i] {
				t.Fatalf("%q changes the tags after %s: there is %s, not %s", text, want[max(0, i-5):i], got[min(i, len(got)):min(i+5, len(got))], want[i])
			}
		}
		for _, link := range regexp.MustCompile(`(?:href|action|src)="([^"]*)"`).FindAllStringSubmatch(html, -1) {
			if to := link[1]; !strings.HasPrefix(to, "/") && !strings.HasPrefix(to, "#") && to != "" || strings.HasPrefix(to, "//") {
				t.Errorf("%q becomes a link to %s", text, to)
			}
		}
	})
}

// An owner becomes a link only if it is a URL of http or https.
func TestOwnerLinks(t *testing.T) {
	for owner, want := range map[string]string{
		"https://ci.example/job?a=b&c=d": `href="https://ci.example/job?a=b&amp;c=d"`, "http://ci.example/": `href="http://ci.example/"`,
		"javascript:alert(1)": "", "https:evil": "", " https://ci.example/": "", "ftp://ci.example/": "", "https://": "", "data:text/html,x": "",
	} {
		var text strings.Builder
		if err := templates().ExecuteTemplate(&text, "owner", owner); err != nil {
			t.Fatal(err)
		}
		if strings.Contains(text.String(), "<a ") != (want != "") || !strings.Contains(text.String(), want) {
			t.Errorf("%s gives %s", owner, &text)
		}
	}
}
