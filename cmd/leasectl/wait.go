package main

import (
	"context"
	"fmt"
	"os"
	"strings"
	"sync"
	"time"

	"golang.org/x/term"

	"github.com/leasectl/leasectl/leaseapi"
)

// A waiting user is told what for, at which place, how many are in use, and
// who has held longest: every 30 s on a new line in a log, on a terminal every
// second in the same one.

const (
	// firstReport is when a wait is worth a line: most waits are shorter.
	firstReport = 2 * time.Second
	logEvery    = 30 * time.Second
	liveEvery   = time.Second
)

// waitReport tells of one wait until it is stopped.
type waitReport struct {
	a      *app
	h      *holding
	typ    string
	begun  time.Time
	cancel context.CancelFunc
	done   chan struct{}

	mu   sync.Mutex
	last leaseapi.Queued // zero until the proxy has said something
	at   time.Time       // when it said that
}

// reportWait starts to tell of h's wait.
func (a *app) reportWait(ctx context.Context, h *holding, typ string) *waitReport {
	ctx, cancel := context.WithCancel(ctx)
	r := &waitReport{a: a, h: h, typ: typ, begun: time.Now(), cancel: cancel, done: make(chan struct{})}
	go func() {
		defer close(r.done)
		r.run(ctx)
	}()
	return r
}

func (r *waitReport) stop() {
	r.cancel()
	<-r.done
	r.a.mu.Lock()
	defer r.a.mu.Unlock()
	r.a.status.clear()
}

// queued takes what the proxy last said of the queue.
func (r *waitReport) queued(q leaseapi.Queued) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.last, r.at = q, time.Now()
}

func (r *waitReport) run(ctx context.Context) {
	if sleep(ctx, firstReport) != nil {
		return
	}
	r.ask(ctx)
	if !r.a.status.live || r.a.quiet {
		for {
			r.a.notef("%s", r.text())
			if sleep(ctx, logEvery) != nil {
				return
			}
		}
	}
	for {
		r.a.mu.Lock()
		r.a.status.show("leasectl: " + r.text())
		r.a.mu.Unlock()
		if sleep(ctx, liveEvery) != nil {
			return
		}
	}
}

// ask looks up the place once, since the proxy speaks by itself only after its
// first slice. If it cannot say, the line is shorter.
func (r *waitReport) ask(ctx context.Context) {
	state, err := r.h.client.RequestState(ctx, r.h.record.RequestID)
	if err != nil || state.State != leaseapi.StateQueued {
		return
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.at.IsZero() {
		r.last = leaseapi.Queued{Place: state.Place, Length: state.Length, Estimate: state.Estimate}
		r.at = time.Now()
	}
}

func (r *waitReport) text() string {
	r.mu.Lock()
	defer r.mu.Unlock()
	now := time.Now()
	var b strings.Builder
	fmt.Fprintf(&b, "waiting %s for a lease of type %q", shortDuration(now.Sub(r.begun).Round(time.Second)), r.typ)
	if r.last.Place > 0 {
		fmt.Fprintf(&b, ": place %d of %d", r.last.Place, r.last.Length)
	}
	if r.last.Capacity > 0 {
		fmt.Fprintf(&b, ", %d of %d in use", r.last.InUse, r.last.Capacity)
	}
	if o := r.last.Oldest; o != nil {
		since := r.at.Add(-time.Duration(o.Age))
		fmt.Fprintf(&b, ", held longest by %s since %s", o.Owner, since.Format(time.TimeOnly))
	}
	if left := time.Duration(r.last.Estimate) - now.Sub(r.at); r.last.Estimate > 0 && left > 0 {
		fmt.Fprintf(&b, ", about %s to go", shortDuration(left.Round(time.Second)))
	}
	return b.String()
}

// statusLine is one line at the bottom of a terminal that is written over.
type statusLine struct {
	out   *os.File
	live  bool // out is a terminal that can do it
	shown bool
}

func newStatusLine(out *os.File) *statusLine {
	return &statusLine{out: out, live: term.IsTerminal(int(out.Fd())) && os.Getenv("TERM") != "dumb"}
}

// eraseLine is carriage return and "erase in line" of ECMA-48, section 8.3.41.
const eraseLine = "\r\x1b[K"

// show replaces the line; what does not fit is cut, or it could not be written
// over.
func (s *statusLine) show(text string) {
	if width, _, err := term.GetSize(int(s.out.Fd())); err == nil && width > 1 && len(text) >= width {
		text = text[:width-1]
	}
	fmt.Fprint(s.out, eraseLine, printable(text))
	s.shown = true
}

func (s *statusLine) clear() {
	if s.shown {
		fmt.Fprint(s.out, eraseLine)
		s.shown = false
	}
}
