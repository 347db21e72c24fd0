package proxyserver

import (
	"fmt"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/leasectl/leasectl/pool"
	"github.com/leasectl/leasectl/proxyserver/page"
)

// The charts begin with the server, go on by the minute, and go back for a day.
func TestPastByTheMinute(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		p := start(t, Options{Pools: []pool.Config{quota(3)}})
		day := func() page.Day {
			p.server.term.do(func(*pool.Set, time.Duration) {})
			return p.server.term.past.Day(p.server.term.totals()[0])
		}
		time.Sleep(100 * time.Second)
		p.granted("type=q&request_id=a&count=2&ttl=4h")
		p.do("POST", "/lease/renew", withLeases(p.pools()[0].Leases[0].Lease))
		time.Sleep(2 * time.Minute)
		synctest.Wait()
		d := day()
		want := []page.Minute{{Limit: 3}, {Starts: 2, InUse: 2, Limit: 3}, {InUse: 1, Limit: 3}, {InUse: 1, Limit: 3}}
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
