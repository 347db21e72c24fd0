package holder

import (
	"fmt"
	"strings"
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
	Type  string
	Begun time.Time

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

// DescribeQueue says where a request stands in its queue: its place, why it waits, who holds
// longest, and how long the wait may take. at is when the proxy sent q. The text is "" if q
// says nothing.
func DescribeQueue(q leaseapi.Queued, at, now time.Time) string {
	return leaseapi.Printable(strings.Join(append(placeWords(q, at, now), estimate(q, now.Sub(at))...), ", "))
}

// placeWords is DescribeQueue without the estimate.
func placeWords(q leaseapi.Queued, at, now time.Time) (words []string) {
	if q.Place > 0 {
		words = append(words, fmt.Sprintf("place %d of %d", q.Place, q.Length))
	}
	switch {
	case q.Reason == leaseapi.WaitJoined:
		words = append(words, "joined the run of request "+q.Follows)
	case q.Follows != "":
		words = append(words, "with request "+q.Follows, q.Reason)
	case q.Reason != "":
		words = append(words, q.Reason)
	}
	if order := q.Order.Words(); order != "" {
		words = append(words, order)
	}
	if q.Capacity > 0 {
		words = append(words, fmt.Sprintf("%d of %d in use", q.InUse, q.Capacity))
	}
	if q.Limit > 0 && q.Limit < q.Capacity {
		words = append(words, fmt.Sprintf("limit %d", q.Limit))
	}
	if o := q.Oldest; o != nil {
		words = append(words, "held longest by "+holderOf(o)+" since "+clock(at.Add(-time.Duration(o.Age)), now))
	}
	return words
}

// holderOf names the holder of a lease.
func holderOf(l *leaseapi.PoolLease) string {
	switch {
	case l.Owner != "":
		return l.Owner
	case l.Token != "":
		return "token " + l.Token
	}
	return "somebody without a name" // a version-1 client
}

// clock formats t as a local time of day, with the date if that is not today's.
func clock(t, now time.Time) string {
	t, now = t.Local(), now.Local()
	if t.YearDay() == now.YearDay() && t.Year() == now.Year() {
		return t.Format(time.TimeOnly)
	}
	return t.Format(time.DateTime)
}

// estimate says how much is left of the proxy's estimate. It says nothing without an upper
// bound: a proxy that gives none begins its estimate anew with each answer.
func estimate(q leaseapi.Queued, elapsed time.Duration) []string {
	low, high := time.Duration(q.Estimate)-elapsed, time.Duration(q.EstimateMax)-elapsed
	switch {
	case q.EstimateMax <= 0:
		return nil
	case high <= 0:
		return []string{"longer than expected"}
	}
	return []string{span(low, high) + " to go"}
}

// span describes a time between low and high, for people.
func span(low, high time.Duration) string {
	switch {
	case low <= 0:
		return "up to " + roughly(high)
	case roughly(low) == roughly(high):
		return "about " + roughly(high)
	}
	return roughly(low) + " to " + roughly(high)
}

// roughly rounds d up to the precision of an estimate: from 1 s to 5 min, as d grows.
func roughly(d time.Duration) string {
	unit := time.Second
	switch {
	case d > time.Hour:
		unit = 5 * time.Minute
	case d > 2*time.Minute:
		unit = time.Minute
	case d > 20*time.Second:
		unit = 5 * time.Second
	}
	return leaseapi.Duration((d + unit - 1) / unit * unit).String()
}
