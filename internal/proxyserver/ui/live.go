package ui

import (
	"context"
	"encoding/json"
	"fmt"
	"net/http"
	"slices"
	"sync"
	"time"

	"github.com/leasectl/leasectl/internal/proxyserver/auth"
)

const (
	// mostLive bounds how many browsers are told of changes at once. The bound is also a
	// quarter of all connections at most, so that jobs find room.
	mostLive = 100
	// liveEvery is how often the page in a browser changes at most.
	liveEvery = time.Second
	// liveAnyway is how often a page is made anew although nothing was committed: a pace
	// runs out by itself, and a renewal is no change.
	liveAnyway = 5 * time.Second
	// liveAlive is how often a browser gets an event even without changes, so that a dead
	// connection is noticed.
	liveAlive = 15 * time.Second
	// readTime is how long a browser may take to read what was sent.
	readTime = 30 * time.Second
)

// live keeps the parts of the pages that browsers show. Browsers with the same page share
// its parts. While no browser shows a page nothing is made.
type live struct {
	most    int
	stopped chan struct{} // closed when the server stops

	mu      sync.Mutex     // guards what follows; never held while a page is made
	count   int            // of connections
	of      map[string]int // the same, by the name of the user
	watched map[livePage]*liveParts
}

// livePage is a page that a browser shows, for operators or for others.
type livePage struct {
	of       string
	operator bool
}

// liveParts are the parts of a page as they were last made.
type liveParts struct {
	watchers int // guarded by live.mu

	mu      sync.Mutex // guards what follows; held while the page is made
	parts   []part
	status  int
	err     error
	made    time.Time
	changed uint64 // [Term.Changed] when it was made
}

func newLive(connections int) live {
	return live{most: max(1, min(mostLive, connections/4)), stopped: make(chan struct{}), of: make(map[string]int), watched: make(map[livePage]*liveParts)}
}

// watch adds a browser in which a user shows p, until unwatch; false if there are too many already. A user has no more
// than are left for others. Without tokens all are one, without a name, which may have all.
func (l *live) watch(p livePage, user string) (parts *liveParts, unwatch func(), ok bool) {
	l.mu.Lock()
	defer l.mu.Unlock()
	left := l.most - l.count
	if left <= 0 || user != "" && l.of[user] > 0 && l.of[user] >= left {
		return nil, func() {}, false
	}
	l.count++
	l.of[user]++
	if parts = l.watched[p]; parts == nil {
		parts = new(liveParts)
		l.watched[p] = parts
	}
	parts.watchers++
	return parts, func() {
		l.mu.Lock()
		defer l.mu.Unlock()
		l.count--
		if l.of[user]--; l.of[user] == 0 {
			delete(l.of, user)
		}
		if parts.watchers--; parts.watchers == 0 {
			delete(l.watched, p)
		}
	}, true
}

// latest returns the parts of a page, and its HTTP status. It makes them anew if something
// may have changed.
func (p *liveParts) latest(changed uint64, make func() page) ([]part, int, error) {
	p.mu.Lock()
	defer p.mu.Unlock()
	age := time.Since(p.made)
	if p.made.IsZero() || age >= liveAnyway || age >= liveEvery/2 && changed != p.changed {
		made := make()
		p.err = made.fill()
		p.parts = slices.DeleteFunc(made.Parts, func(part part) bool { return part.Fixed })
		p.status, p.made, p.changed = made.status, time.Now(), changed
	}
	return p.parts, p.status, p.err
}

// serveLive sends a browser the changes of a page, as server-sent events, until the browser
// goes, its session ends, connections run short, or the server stops.
func (u *UI) serveLive(user auth.Token, w http.ResponseWriter, r *http.Request) {
	of := local(r.URL.Query().Get("of"))
	shown := livePage{of.RequestURI(), u.operates(user)}
	parts, unwatch, ok := u.live.watch(shown, user.Name)
	defer unwatch()
	if !ok || u.server.Crowded() {
		u.message(w, r, http.StatusServiceUnavailable, "Too many", "Too many browsers are told of changes already: reload the page to see them.")
		return
	}
	w.Header().Set("Content-Type", "text/event-stream")
	w.Header().Set("X-Accel-Buffering", "no") // nginx holds changes back until a buffer is full
	stream := liveStream{w: w, sent: make(map[string]string)}
	ticker := time.NewTicker(liveEvery)
	defer ticker.Stop()
	for {
		fresh, status, err := parts.latest(u.server.Term().Changed(), func() page { return u.page(of, shown.operator, true) })
		if err != nil {
			u.log.Error("a page could not be made", "path", of.Path, "error", err)
			return
		}
		if status == http.StatusServiceUnavailable {
			return
		}
		if stream.send(fresh) != nil || !u.live.waitFor(r.Context(), ticker.C) {
			return
		}
		if now, ok := u.session(r); u.asksForTokens() && !ok || u.operates(now) != shown.operator {
			stream.event("reload", "")
			return
		}
		if u.server.Crowded() {
			return
		}
	}
}

// waitFor waits for the next tick; false: the browser has gone, or the server stops.
func (l *live) waitFor(ctx context.Context, tick <-chan time.Time) bool {
	select {
	case <-tick:
		return true
	case <-ctx.Done():
	case <-l.stopped:
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
func (s *liveStream) send(parts []part) error {
	begun := false
	for _, part := range parts {
		text := string(part.HTML)
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
	http.NewResponseController(s.w).SetWriteDeadline(s.last.Add(readTime))
	s.event("now", s.last.UTC().Format(time.RFC3339Nano))
}

func (s *liveStream) event(name, data string) {
	fmt.Fprintf(s.w, "event: %s\ndata: %s\n\n", name, data) // the flush returns an error
}
