package proxyserver

import (
	"bufio"
	"context"
	"encoding/json"
	"net/http"
	"net/url"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/leasectl/leasectl/internal/pool"
	"github.com/leasectl/leasectl/internal/proxyserver/auth"
	"github.com/leasectl/leasectl/internal/proxyserver/config"
)

// liveEvent is one event of a stream.
type liveEvent struct{ name, id, html string }

// watch shows a page, and returns its events. The channel is closed when the server ends the
// stream.
func (b *browser) watch(ctx context.Context, of string) (<-chan liveEvent, int) {
	b.t.Helper()
	req, err := http.NewRequestWithContext(ctx, "GET", "http://pipe/ui/live?of="+url.QueryEscape(of), nil)
	if err != nil {
		b.t.Fatal(err)
	}
	req.Header.Set("Cookie", b.cookie)
	resp, err := b.http.Do(req)
	if err != nil {
		b.t.Fatal(err)
	}
	if resp.StatusCode == 200 && resp.Header.Get("X-Accel-Buffering") != "no" {
		b.t.Error("nginx would hold the changes back")
	}
	events := make(chan liveEvent, 1000)
	if resp.StatusCode != 200 {
		resp.Body.Close()
		close(events)
		return events, resp.StatusCode
	}
	go func() {
		defer close(events)
		defer resp.Body.Close()
		var e liveEvent
		lines := bufio.NewScanner(resp.Body)
		lines.Buffer(nil, 1<<20)
		for lines.Scan() {
			name, value, _ := strings.Cut(lines.Text(), ": ")
			switch name {
			case "event":
				e = liveEvent{name: value}
			case "data":
				var part struct{ ID, HTML string }
				if json.Unmarshal([]byte(value), &part) == nil {
					e.id, e.html = part.ID, part.HTML
				}
			case "":
				events <- e
			}
		}
	}()
	return events, 200
}

// received returns the events that have come.
func received(events <-chan liveEvent) (all []liveEvent) {
	for {
		select {
		case e, ok := <-events:
			if !ok {
				return all
			}
			all = append(all, e)
		default:
			return all
		}
	}
}

// parts returns the ids of the parts in events.
func parts(events []liveEvent) (ids []string) {
	for _, e := range events {
		if e.name == "part" {
			ids = append(ids, e.id)
		}
	}
	return ids
}

// A browser gets a part that changed within a second, at most once a second, and nothing while
// nothing changes.
func TestLive(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		p := start(t, Options{Pools: []pool.Config{quota(1)}})
		b := &browser{peer: p}
		events, _ := b.watch(t.Context(), "/ui/pools/q")
		time.Sleep(100 * time.Millisecond)
		synctest.Wait()
		if first := parts(received(events)); len(first) != 9 {
			t.Errorf("at first it gets %v", first)
		}
		p.granted("type=q&request_id=a&owner=me")
		time.Sleep(time.Second)
		synctest.Wait()
		got := received(events)
		if ids := strings.Join(parts(got), " "); ids != "state held names" && ids != "state held names charts" {
			t.Errorf("after a grant it gets %v", ids)
		}
		for range 100 { // ten in each second
			p.release(`{"names":["q-0"]}`)
			id := num(uint64(time.Now().UnixNano()))
			p.granted("type=q&request_id=" + id + "&owner=" + id) // the page shows the owner, and no part of a second
			time.Sleep(100 * time.Millisecond)
		}
		synctest.Wait()
		n := 0
		for _, e := range received(events) {
			if e.id == "held" {
				n++
			}
		}
		if n < 9 || n > 11 {
			t.Errorf("%d updates in 10 s", n)
		}
		time.Sleep(2 * time.Second)
		synctest.Wait()
		received(events)
		time.Sleep(9 * time.Second)
		synctest.Wait()
		if ids := parts(received(events)); len(ids) > 1 { // the charts change if a minute is over
			t.Errorf("while nothing changes it gets %v", ids)
		}
	})
}

// The number of browsers that are told of changes is bounded.
func TestLiveIsBounded(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		p := start(t, Options{Pools: []pool.Config{quota(1)}, maxConnections: 40})
		b := &browser{peer: p}
		ctx, cancel := context.WithCancel(t.Context())
		for range 10 {
			if _, status := b.watch(ctx, "/"); status != 200 {
				t.Fatalf("%d", status)
			}
		}
		if _, status := b.watch(t.Context(), "/"); status != 503 {
			t.Errorf("one more gets %d", status)
		}
		cancel()
		synctest.Wait()
		if _, status := b.watch(t.Context(), "/"); status != 200 {
			t.Errorf("when the others have gone: %d", status)
		}
	})
}

// A stream ends with its session, and when the server stops: a stop does not wait for streams.
func TestLiveEnds(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		p, _, _, _ := startWithTokens(t, Options{Pools: []pool.Config{quota(1)}})
		p.http.Timeout = 0
		eye, ops := signIn(p, "e-token-0123456789"), signIn(p, "o-token-0123456789")
		events, _ := eye.watch(t.Context(), "/ui/pools/q")
		others, _ := ops.watch(t.Context(), "/ui/pools/q")
		time.Sleep(time.Second)
		synctest.Wait()
		seen, shown := received(events), received(others)
		if strings.Contains(seen[1].html, "Pause…") || !strings.Contains(shown[1].html, "Pause…") {
			t.Error("the page of an operator is shown to others, or not to operators")
		}
		tokens, err := config.ParseTokens("t", []byte("ops o-token-0123456789 admin\n"))
		if err != nil {
			t.Fatal(err)
		}
		p.server.SetAuth(&auth.Config{Tokens: tokens})
		time.Sleep(2 * time.Second)
		synctest.Wait()
		ended := received(events)
		if last := len(ended) - 1; last < 0 || ended[last].name != "reload" {
			t.Errorf("when its token has gone: %+v", ended)
		}
		begin := time.Now()
		p.stop()
		synctest.Wait()
		for range others {
		}
		if took := time.Since(begin); took > time.Second {
			t.Errorf("the stop took %v", took)
		}
	})
}
