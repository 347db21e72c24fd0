package proxyserver

import (
	"context"
	"encoding/json"
	"fmt"
	"net/http"
	"time"

	"github.com/leasectl/leasectl/proxyserver/page"
)

// serveLive sends a browser the changes of a page, as server-sent events, until the browser
// goes, its session ends, connections run short, or the server stops.
func (h *handler) serveLive(c caller, w http.ResponseWriter, r *http.Request) {
	of := page.Local(r.URL.Query().Get("of"))
	shown := livePage{of.RequestURI(), h.operates(c)}
	parts, unwatch, ok := h.live.watch(shown)
	defer unwatch()
	if !ok || h.connections.Crowded() {
		h.message(w, r, http.StatusServiceUnavailable, "Too many", "Too many browsers are told of changes already: reload the page to see them.")
		return
	}
	w.Header().Set("Content-Type", "text/event-stream")
	stream := liveStream{w: w, sent: make(map[string]string)}
	ticker := time.NewTicker(liveEvery)
	defer ticker.Stop()
	for {
		fresh, status := parts.latest(h.term().changed.Load(), func() (page.Page, int) { return h.page(c, of, true) })
		if status == http.StatusServiceUnavailable {
			return
		}
		if stream.send(fresh) != nil || !h.stillLive(r.Context(), ticker.C) {
			return
		}
		if now, ok := h.session(r); h.asksForTokens() && !ok || h.operates(now) != shown.operator {
			stream.event("reload", "")
			return
		}
		if h.connections.Crowded() {
			return
		}
	}
}

// stillLive waits for the next tick; false: the browser has gone, or the server stops.
func (h *handler) stillLive(ctx context.Context, tick <-chan time.Time) bool {
	select {
	case <-tick:
		return true
	case <-ctx.Done():
	case <-h.live.stopped:
	}
	return false
}

// liveStream is the connection of one browser.
type liveStream struct {
	w    http.ResponseWriter
	sent map[string]string // parts by id
	last time.Time
}

// send sends the parts that the browser does not have.
func (s *liveStream) send(parts []page.Part) error {
	begun := false
	for _, part := range parts {
		text := part.HTML.String()
		if had, ok := s.sent[part.ID]; ok && had == text {
			continue
		}
		s.sent[part.ID] = text
		if !begun {
			begun = true
			s.now()
		}
		body, err := json.Marshal(map[string]string{"id": part.ID, "html": text})
		if err != nil {
			return err
		}
		s.event("part", string(body))
	}
	if !begun {
		if time.Since(s.last) < liveAlive {
			return nil
		}
		s.now()
	}
	return http.NewResponseController(s.w).Flush()
}

// now sends the time, from which the browser counts, and bounds how long it may read.
func (s *liveStream) now() {
	s.last = time.Now()
	http.NewResponseController(s.w).SetWriteDeadline(s.last.Add(writeTime))
	s.event("now", s.last.UTC().Format(time.RFC3339Nano))
}

func (s *liveStream) event(name, data string) {
	fmt.Fprintf(s.w, "event: %s\ndata: %s\n\n", name, data) // the flush returns an error
}
