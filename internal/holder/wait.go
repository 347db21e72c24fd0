package holder

import (
	"sync"
	"time"

	"github.com/leasectl/leasectl/leaseapi"
)

// Reporter tells the user what a [Holder] does. Its methods must not block: a lease is given
// back in time even if nobody reads the messages.
type Reporter interface {
	Failf(format string, args ...any)  // what went wrong
	Notef(format string, args ...any)  // news of a run that goes well
	Debugf(format string, args ...any) // each step, for the search for a fault
	// Waiting begins to report a wait, until stop is called.
	Waiting(w *Wait) (stop func())
}

// Wait is a request in its queue, as far as the proxy has told. It is safe for concurrent use.
type Wait struct {
	Type    string
	Begun   time.Time
	GivesUp time.Time // at the latest, unless the request joins a run

	mu       sync.Mutex
	queued   leaseapi.Queued
	at       time.Time
	trouble  Trouble
	news     chan struct{} // closed when there is something to report; see Heard
	announce sync.Once     // closes it
}

// Trouble is why a proxy fails, or does not answer, while a request waits.
type Trouble struct {
	Err   error     // of the last attempt; nil: there is none
	Since time.Time // of the first attempt that failed
}

// Queued returns what the proxy last said about the queue, and when. Both are zero before it
// has said something.
func (w *Wait) Queued() (q leaseapi.Queued, at time.Time) {
	w.mu.Lock()
	defer w.mu.Unlock()
	return w.queued, w.at
}

// Trouble returns the failure since the proxy last said something about the queue.
func (w *Wait) Trouble() Trouble {
	w.mu.Lock()
	defer w.mu.Unlock()
	return w.trouble
}

// Heard returns a channel that is closed once the proxy has said something about the queue, or
// has failed.
func (w *Wait) Heard() <-chan struct{} {
	w.mu.Lock()
	defer w.mu.Unlock()
	return w.newsLocked()
}

// newsLocked returns the channel, and makes it for a new Wait. The caller holds w.mu.
func (w *Wait) newsLocked() chan struct{} {
	if w.news == nil {
		w.news = make(chan struct{})
	}
	return w.news
}

// SetQueued notes what the proxy says about the queue, and ends the trouble.
func (w *Wait) SetQueued(q leaseapi.Queued) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.queued, w.at, w.trouble = q, time.Now(), Trouble{}
	w.noteNews()
}

// SetTrouble notes the last failure of a proxy that has given no good answer since the given
// time. A nil error ends the trouble: the proxy has given a good answer.
func (w *Wait) SetTrouble(err error, since time.Time) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.trouble = Trouble{}
	if err != nil {
		w.trouble = Trouble{Err: err, Since: since}
		w.noteNews()
	}
}

// noteNews notes that there is something to report. The caller holds w.mu.
func (w *Wait) noteNews() { w.announce.Do(func() { close(w.newsLocked()) }) }
