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
	Type  string
	Begun time.Time

	mu       sync.Mutex
	queued   leaseapi.Queued
	at       time.Time
	trouble  Trouble
	news     chan struct{} // closed when there is something to tell; see Heard
	announce sync.Once     // closes it
}

// Trouble is why a proxy does not answer, or fails, while a request waits.
type Trouble struct {
	Err   error     // of the last attempt; nil: there is none
	Since time.Time // of the first attempt that failed
}

// Queued returns what the proxy last said of the queue, and when; zero values
// until it has said something.
func (w *Wait) Queued() (q leaseapi.Queued, at time.Time) {
	w.mu.Lock()
	defer w.mu.Unlock()
	return w.queued, w.at
}

// Trouble returns what has failed since the proxy last said something of the
// queue.
func (w *Wait) Trouble() Trouble {
	w.mu.Lock()
	defer w.mu.Unlock()
	return w.trouble
}

// Heard is closed when the proxy has said something of the queue, or has failed.
func (w *Wait) Heard() <-chan struct{} {
	w.mu.Lock()
	defer w.mu.Unlock()
	return w.newsLocked()
}

// newsLocked returns the channel, which the zero Wait has not. w.mu is held.
func (w *Wait) newsLocked() chan struct{} {
	if w.news == nil {
		w.news = make(chan struct{})
	}
	return w.news
}

// Tell takes what the proxy says of the queue.
func (w *Wait) Tell(q leaseapi.Queued) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.queued, w.at, w.trouble = q, time.Now(), Trouble{}
	w.hear()
}

// Fail takes the last failure of a proxy that has given no good answer since that
// time; a nil error says that it has.
func (w *Wait) Fail(err error, since time.Time) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.trouble = Trouble{}
	if err != nil {
		w.trouble = Trouble{Err: err, Since: since}
		w.hear()
	}
}

// hear says that there is something to tell. w.mu is held.
func (w *Wait) hear() { w.announce.Do(func() { close(w.newsLocked()) }) }
