package proxyclient

import (
	"context"
	"errors"
	"math"
	"math/rand/v2"
	"net"
	"net/http"
	"strconv"
	"sync"
	"time"

	"github.com/hashicorp/go-retryablehttp"

	"github.com/leasectl/leasectl/leaseapi"
)

// patience bounds how long one operation goes on trying, over all its calls.
type patience struct {
	end      Instant       // no attempt begins after end; zero: the context alone decides
	limits   troubleLimits // how long to go on without a good answer
	maxPause time.Duration // between two attempts, whatever the proxy asks for; zero: up to end
	onRetry  func(error)   // may be nil
	// onTrouble is called with the last failure and the start of the time without a good
	// answer, and once with a nil error at the next good answer. May be nil.
	onTrouble func(err error, since time.Time)

	// mu guards the rest, since questions about a silent attempt run beside the attempt. It
	// is held during the caller's callbacks, so that no two run at the same time.
	mu      sync.Mutex
	trouble trouble
	// leaderless is the time since which servers have answered only that they do not
	// lead; zero: not the case. An election is no trouble for an operation with an end.
	leaderless Instant
	heard      bool // there was an HTTP answer, or a part of one
}

// trouble describes the time since the last good answer.
type trouble struct {
	since    Instant // zero: there is no trouble
	refused  bool    // all attempts were refused connections
	errors   bool    // an attempt was answered with an error
	last     error   // the last failure; nil: none yet
	answered bool    // the last failure was an answer
	over     bool    // the trouble lasted too long
}

// troubleLimits bound a [trouble]. They are longer than a restart of the proxy, and short
// enough to report a wrong address soon.
type troubleLimits struct {
	refused time.Duration // no connection was made
	silent  time.Duration // no answer came, and not all connections were refused
	errors  time.Duration // at least one error was answered
}

const (
	maxRefused = 30 * time.Second
	maxTrouble = time.Minute
)

// usualLimits are the limits of calls that have no time of their own.
var usualLimits = troubleLimits{refused: maxRefused, silent: maxTrouble, errors: maxTrouble}

// within returns the limits of an operation that waits for d at most. The limit for
// errors stays: errors that the proxy answers until d is over are the result.
func (l troubleLimits) within(d time.Duration) troubleLimits {
	l.refused, l.silent = min(l.refused, d), min(l.silent, d)
	return l
}

// noLimits leave the bound to the context, or to end.
var noLimits = troubleLimits{refused: math.MaxInt64, silent: math.MaxInt64, errors: math.MaxInt64}

// lasts notes an attempt, and reports whether a further attempt makes sense. unwanted says
// that the call cannot use the answer o.
func (p *patience) lasts(ctx context.Context, o outcome, unwanted bool) bool {
	p.note(o, unwanted)
	return ctx.Err() == nil && !p.exhausted() && !hopeless(o.err) && !p.ended()
}

// note notes what o shows about the proxy.
func (p *patience) note(o outcome, unwanted bool) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.heard = p.heard || o.heard
	switch {
	case o.notLeader() && !p.end.IsZero():
		p.noteElection(o)
	case o.err == nil && (o.busy() || !o.passing() && !unwanted):
		p.noteGood()
	case !o.cut: // a cut says nothing of the proxy: the client stopped listening
		p.noteTrouble(o)
	}
}

// tell calls fn, which runs a callback of the caller.
func (p *patience) tell(fn func()) {
	p.mu.Lock()
	defer p.mu.Unlock()
	fn()
}

// noteElection notes that a server does not lead.
func (p *patience) noteElection(o outcome) {
	p.trouble = trouble{}
	if p.leaderless.IsZero() {
		p.leaderless = o.asked
		if !o.standby() {
			p.leaderless = Now() // the server may have led until now, with the request in its queue
		}
	}
	if p.onTrouble != nil {
		p.onTrouble(o.failure(), wallOf(p.leaderless))
	}
}

// noteGood notes a good answer.
func (p *patience) noteGood() {
	if (p.trouble.last != nil || !p.leaderless.IsZero()) && p.onTrouble != nil {
		p.onTrouble(nil, time.Time{})
	}
	p.trouble, p.leaderless = trouble{}, Instant{}
}

// noteTrouble notes an attempt without a good answer.
func (p *patience) noteTrouble(o outcome) {
	t := &p.trouble
	if t.since.IsZero() {
		t.since, t.refused = o.asked, true
		if o.sent && !timeout(o.err) {
			t.since = Now() // the proxy may have been at work for hours until now
		}
	}
	t.refused = t.refused && !o.sent && !o.heard
	t.errors = t.errors || o.err == nil
	t.last, t.answered = o.failure(), o.err == nil
	t.over = -Until(t.since) >= p.limits.of(*t)
	if p.onTrouble != nil {
		p.onTrouble(t.last, wallOf(t.since))
	}
}

// of returns the limit of t.
func (l troubleLimits) of(t trouble) time.Duration {
	switch {
	case t.refused:
		return l.refused
	case t.errors:
		return l.errors
	}
	return l.silent
}

// suspect notes that an attempt under way has had no answer since asked.
func (p *patience) suspect(asked Instant) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.trouble.since.IsZero() {
		p.trouble.since = asked
	}
	p.trouble.refused = false
}

// exhausted reports whether there has been no good answer for too long.
func (p *patience) exhausted() bool {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.trouble.over
}

// troubled returns the trouble since the last good answer, and whether there is any.
func (p *patience) troubled() (t trouble, is bool) {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.trouble, !p.trouble.since.IsZero()
}

// everAnswered reports whether there was any HTTP answer.
func (p *patience) everAnswered() bool {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.heard
}

// wallOf returns an instant by the wall clock, for people.
func wallOf(i Instant) time.Time { return time.Now().Add(Until(i)) }

// timeout reports whether an attempt timed out, rather than lost its connection.
func timeout(err error) bool {
	t, ok := errors.AsType[net.Error](err)
	return ok && t.Timeout()
}

func (p *patience) ended() bool { return !p.end.IsZero() && over(p.end) }

// hopeless reports whether no further attempt can succeed after err.
func hopeless(err error) bool {
	return errors.Is(err, ErrTwoStores) || errors.Is(err, errHopeless)
}

// Hopeless marks an error of [Options.Revive] or of a [TokenSource] after which no further
// attempt can succeed: the call ends with it at once.
func Hopeless(err error) error {
	return &reworded{text: err.Error(), err: errors.Join(err, errHopeless)}
}

var errHopeless = errors.New("hopeless")

// Bounds of the pause between two attempts. A hand-off takes milliseconds, so
// the first pause is short. Hundreds of jobs that lost the same proxy come
// back spread over the longest pause.
const (
	minPause = 100 * time.Millisecond
	maxPause = 2 * time.Second
	maxAsked = time.Minute // of Retry-After, so that a failure is noticed that lasts
)

// pause returns the pause after attempt n, counted from 0: the one of Retry-After
// (RFC 9110, section 10.2.3), else a random time that grows. It does not
// go beyond end. resp is the answer; nil: none.
func (p *patience) pause(n int, resp *http.Response) time.Duration {
	d, asked := retryAfter(resp)
	if !asked {
		d = retryablehttp.DefaultBackoff(minPause, maxPause, n, nil)
		d = d/2 + rand.N(d/2)
	}
	d = min(max(d, minPause/2), maxAsked) // "Retry-After: 0", or a date in the past
	if p.maxPause > 0 {
		d = min(d, p.maxPause)
	}
	if !p.end.IsZero() {
		d = min(d, max(0, Until(p.end)))
	}
	return d
}

// maxPauseWithin returns the longest pause of an operation that must succeed within d.
// Retry-After often asks for more, and a failed attempt is better than a lease that is
// left behind or lost.
func maxPauseWithin(d time.Duration) time.Duration { return max(maxPause, d/4) }

// maxPauseBefore is maxPauseWithin for the time until the deadline of ctx; zero, no
// bound, if ctx has no deadline.
func maxPauseBefore(ctx context.Context) time.Duration {
	end, ok := ctx.Deadline()
	if !ok {
		return 0
	}
	return maxPauseWithin(time.Until(end))
}

// retryAfter returns the pause that the Retry-After of an answer asks for, in seconds or
// as a date. It ignores the status, since load balancers and gateways send Retry-After
// with any failure. A date is relative to the sender's clock, which the Date header gives.
func retryAfter(resp *http.Response) (d time.Duration, asked bool) {
	if resp == nil {
		return 0, false
	}
	text := resp.Header.Get("Retry-After")
	if seconds, err := strconv.ParseUint(text, 10, 64); err == nil {
		return time.Duration(min(seconds, uint64(math.MaxInt64/time.Second))) * time.Second, true
	}
	at, err := http.ParseTime(text)
	if err != nil {
		return 0, false
	}
	now, err := http.ParseTime(resp.Header.Get("Date"))
	if err != nil {
		now = time.Now()
	}
	return at.Sub(now), true
}

// schedule has the times at which a heartbeat acts.
type schedule struct {
	margin    time.Duration // before the deadline
	deadline  Instant       // when the leases end unless they are renewed
	next      Instant       // when to renew
	limit     Instant       // when to give up
	releasing bool          // a delayed release is pending, due at deadline
}

// newSchedule returns a schedule that renews at once. For a zero deadline it assumes that
// the leases were granted just now.
func newSchedule(deadline Instant, margin time.Duration) schedule {
	if deadline.IsZero() {
		deadline = Now().Add(leaseapi.ProvisionalTTL)
	}
	s := schedule{margin: margin, deadline: deadline, next: Now()}
	s.setLimit()
	return s
}

// renewed updates the schedule after a renewal.
func (s *schedule) renewed(r Renewal) {
	s.deadline = r.Deadline
	s.next = r.Asked.Add(r.RenewEvery)
	s.releasing = r.releases()
	s.setLimit()
}

// retryPause is the longest pause after a failure that the renewal itself does not
// retry, such as a refused token: the cause may be mended before the deadline.
const retryPause = 2 * time.Second

// failed updates the schedule after a failed renewal.
func (s *schedule) failed() {
	s.next = Now().Add(max(minPause, min(retryPause, Until(s.limit)/4)))
}

func (s *schedule) setLimit() {
	margin := s.margin
	if !s.releasing { // else no renewal needs time
		margin = min(margin, max(0, Until(s.deadline)/2))
	}
	s.limit = s.deadline.Add(-margin)
}

// wake returns when the heartbeat acts next. During a renewal that is the limit.
func (s *schedule) wake(renewing bool) Instant {
	if !renewing && s.next.Sub(s.limit) < 0 {
		return s.next
	}
	return s.limit
}
