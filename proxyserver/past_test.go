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
			return p.server.term.past.day(time.Now(), p.server.term.totals()[0])
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
		if n := len(d.Minutes); n != dayMinutes || d.Minutes[0].Starts != 0 || d.Minutes[0].Limit != 3 {
			t.Errorf("%d minutes, first %+v", n, d.Minutes[0])
		}
		if text := b.page("/ui/pools/q"); strings.Contains(text, "The charts begin at") {
			t.Error("after a day they still say when they began")
		}
	})
}

// What is kept of a pool that never stays the same is bounded.
func TestPastIsBounded(t *testing.T) {
	var p poolPast
	for minute := range int64(3 * dayMinutes) {
		p.started(minute, 1)
		p.level(levelsOf{minute: minute, inUse: int32(minute)})
		p.waits.add(minute/60, time.Second)
	}
	if len(p.starts) > dayMinutes || len(p.levels) > dayMinutes+1 || len(p.waits.hours) > 24 {
		t.Errorf("%d starts, %d levels, %d hours", len(p.starts), len(p.levels), len(p.waits.hours))
	}
	var quiet poolPast
	for minute := range int64(dayMinutes) {
		quiet.level(levelsOf{minute: minute, limit: 3})
	}
	if len(quiet.levels) != 1 {
		t.Errorf("%d levels of a pool that stays the same", len(quiet.levels))
	}
}

// The last thousand events are kept, the newest first, and can be filtered.
func TestEvents(t *testing.T) {
	c := startClock(0, nil, nil)
	h := newPast(c)
	for i := range mostEvents + 10 {
		h.changed(c, []pool.Change{{Kind: pool.Granted, Leases: []pool.Lease{{Name: fmt.Sprint("n", i), Type: "q", Owner: "me", RequestID: fmt.Sprint("r", i)}}}})
	}
	all := h.find(2*mostEvents, func(page.Event) bool { return true })
	if len(all) != mostEvents || all[0].Names[0] != "n1009" || all[mostEvents-1].Names[0] != "n10" {
		t.Errorf("%d events, from %v to %v", len(all), all[0], all[len(all)-1])
	}
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

// Quantiles of waits are exact to a tenth, and forget what is older than a day.
func TestDayWaits(t *testing.T) {
	var d dayWaits
	for i := range 100 {
		d.add(1, time.Duration(i+1)*time.Second)
	}
	w := d.waits(1)
	near := func(got, want time.Duration) bool { return got > want*9/10 && got < want*11/10 }
	if w.Count != 100 || !near(w.P50, 50*time.Second) || !near(w.P95, 95*time.Second) {
		t.Errorf("%+v", w)
	}
	if w := d.waits(25); w.Count != 0 {
		t.Errorf("a day later: %+v", w)
	}
	d = dayWaits{}
	d.add(1, 0)
	d.add(1, 1000*time.Hour)
	if w := d.waits(1); w.P50 != 0 || w.P95 < 80*time.Hour {
		t.Errorf("%+v", w)
	}
}
