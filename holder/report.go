package holder

import (
	"sync"
	"time"

	"github.com/leasectl/leasectl/leaseapi"
)

// Reporter tells the user what a [Holder] does. No method of it may block: a
// lease is given back in time even if nobody reads what is said.
type Reporter interface {
	Failf(format string, args ...any)  // what went wrong
	Notef(format string, args ...any)  // what a user wants to know of a run that goes well
	Debugf(format string, args ...any) // each step, for somebody who looks for a fault
	// Waiting begins to tell of a wait, until stop is called.
	Waiting(w *Wait) (stop func())
}

// Wait is a request in its queue, as far as the proxy has told. It is safe for
// concurrent use.
type Wait struct {
	Type      string
	RequestID string
	Begun     time.Time

	mu     sync.Mutex
	queued  leaseapi.Queued
	at      time.Time
	trouble Trouble
}

// Trouble is the last failure of a proxy that has given no good answer since.
type Trouble struct {
	Err   error // nil: there is none
	Since time.Time
}

// Trouble returns what is wrong with the proxy.
func (w *Wait) Trouble() Trouble {
	w.mu.Lock()
	defer w.mu.Unlock()
	return w.trouble
}

// fail takes what is wrong with the proxy; a nil error says that all is well.
func (w *Wait) fail(err error, since time.Time) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.trouble = Trouble{Err: err, Since: since}
}

// Queued returns what the proxy last said of the queue, and when; zero values
// until it has said something.
func (w *Wait) Queued() (q leaseapi.Queued, at time.Time) {
	w.mu.Lock()
	defer w.mu.Unlock()
	return w.queued, w.at
}

// tell takes what the proxy says of the queue.
func (w *Wait) tell(q leaseapi.Queued) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.queued, w.at = q, time.Now()
}
