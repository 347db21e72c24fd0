package proxyserver

import (
	"slices"
	"sync"
	"time"

	"github.com/leasectl/leasectl/proxyserver/page"
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
)

// live keeps the parts of the pages that browsers show. Browsers with the same page share
// its parts. While no browser shows a page nothing is made.
type live struct {
	most    int
	stopped chan struct{} // closed when the server stops

	mu      sync.Mutex // guards what follows; never held while a page is made
	count   int        // of connections
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
	parts   []page.Part
	status  int
	made    time.Time
	changed uint64 // term.changed when it was made
}

func (l *live) init(connections int) {
	l.most = max(1, min(mostLive, connections/4))
	l.stopped = make(chan struct{})
	l.watched = make(map[livePage]*liveParts)
}

// stop ends the connections of all browsers.
func (l *live) stop() { close(l.stopped) }

// watch adds a browser that shows p, until unwatch; false if there are too many already.
func (l *live) watch(p livePage) (parts *liveParts, unwatch func(), ok bool) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.count >= l.most {
		return nil, func() {}, false
	}
	l.count++
	if parts = l.watched[p]; parts == nil {
		parts = new(liveParts)
		l.watched[p] = parts
	}
	parts.watchers++
	return parts, func() {
		l.mu.Lock()
		defer l.mu.Unlock()
		l.count--
		if parts.watchers--; parts.watchers == 0 {
			delete(l.watched, p)
		}
	}, true
}

// latest returns the parts of a page, and its HTTP status. It makes them anew if something
// may have changed.
func (p *liveParts) latest(changed uint64, make func() (page.Page, int)) ([]page.Part, int) {
	p.mu.Lock()
	defer p.mu.Unlock()
	age := time.Since(p.made)
	if p.made.IsZero() || age >= liveAnyway || age >= liveEvery/2 && changed != p.changed {
		made, status := make()
		p.parts = slices.DeleteFunc(made.Parts, func(part page.Part) bool { return part.Fixed })
		p.status, p.made, p.changed = status, time.Now(), changed
	}
	return p.parts, p.status
}
