// Package idle ends a server that nobody needs, and loses no client that connects at
// that moment.
//
// A [Watch] counts connections from the moment they are accepted, and the other reasons to
// keep the server. When there has been no reason for long enough, [Watch.Wait] hides the
// listeners and looks into their accept queues. A client in a queue keeps the server: the
// client is accepted, and the listeners are shown again. A client that comes later does not
// find the listeners.
package idle

import (
	"context"
	"log/slog"
	"math"
	"net"
	"net/http"
	"sync"
	"time"
)

// Watch knows since when nobody needs a server. [New] makes one. Its methods are safe for
// concurrent use, except Listener and Wait.
type Watch struct {
	after time.Duration
	hide  func() (unhide func(), err error)
	gates []*gate

	timer *time.Timer // fires when the server may have been idle for long enough

	mu    sync.Mutex // guards what follows, and that timer and since fit together
	busy  int        // as the last SetBusy said
	conns int        // open connections
	since time.Time  // when the last reason to go on ended; zero: there is a reason
}

// never is more time than passes.
const never time.Duration = math.MaxInt64

// New returns a watch over a server that ends once it was idle for after. The time counts
// from the first [Watch.SetBusy] on. After hide no new connection finds the listeners;
// unhide undoes that.
func New(after time.Duration, hide func() (unhide func(), err error)) *Watch {
	return &Watch{after: after, hide: hide, timer: time.NewTimer(after)}
}

// Listener returns the listener on which the server must accept. accepts is l or wraps it;
// the connections of accepts are counted. The error is that l has no deadlines. Listener
// must not be called after [Watch.Wait].
func (w *Watch) Listener(l, accepts net.Listener) (net.Listener, error) {
	g, err := newGate(l, accepts, w.connected)
	if err != nil {
		return nil, err
	}
	w.gates = append(w.gates, g)
	return g, nil
}

// SetBusy sets how many reasons, beside connections, the server has to go on.
func (w *Watch) SetBusy(n int) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.busy = n
	w.update()
}

// ConnState counts connections that end, as a hook of [http.Server]. It does not count
// those that begin: net/http knows a connection only after Accept has returned it.
func (w *Watch) ConnState(_ net.Conn, state http.ConnState) {
	if state != http.StateClosed && state != http.StateHijacked {
		return
	}
	w.mu.Lock()
	defer w.mu.Unlock()
	w.conns--
	w.update()
}

// Wait blocks until the server has been idle for long enough and no client came while it
// hid. Then Wait returns true: the server stays hidden, and each Accept returns
// [http.ErrServerClosed]. Wait returns false if ctx is done first. An error of hide is
// logged, and the server goes on.
func (w *Watch) Wait(ctx context.Context, log *slog.Logger) bool {
	for w.waitUntilIdle(ctx) {
		unhide, err := w.hide()
		if err != nil {
			log.Warn("the server is idle, and cannot stop", "error", err)
			w.timer.Reset(w.after)
			continue
		}
		for _, g := range w.gates {
			g.look(ctx)
		}
		// Clients that were found are counted by now, and so are leases that they
		// took, even if they have gone again.
		idle := w.left() <= 0
		if !idle {
			unhide()
			w.timer.Reset(w.after)
		}
		for _, g := range w.gates {
			g.decide(idle)
		}
		if idle {
			return true
		}
	}
	return false
}

// waitUntilIdle blocks until the server has been idle for long enough; false: ctx is done.
func (w *Watch) waitUntilIdle(ctx context.Context) bool {
	for {
		select {
		case <-ctx.Done():
			return false
		case <-w.timer.C:
		}
		switch left := w.left(); {
		case left <= 0:
			return true
		case left < never:
			w.timer.Reset(left)
		}
		// Else the server is needed: update sets the timer when it is not.
	}
}

// connected counts a connection. It is called before Accept returns it.
func (w *Watch) connected() {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.conns++
	w.update()
}

// update notes since when nobody needs the server. The caller holds w.mu.
func (w *Watch) update() {
	switch {
	case w.busy+w.conns > 0:
		w.since = time.Time{}
	case w.since.IsZero():
		w.since = time.Now()
		w.timer.Reset(w.after)
	}
}

// left returns how much longer the server must be idle; never if it is needed.
func (w *Watch) left() time.Duration {
	w.mu.Lock()
	defer w.mu.Unlock()
	if w.since.IsZero() {
		return never
	}
	return w.after - time.Since(w.since)
}
