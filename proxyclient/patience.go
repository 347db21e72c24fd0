package proxyclient

import (
	"context"
	"crypto/tls"
	"errors"
	"math"
	"math/rand/v2"
	"net"
	"net/http"
	"strconv"
	"sync"
	"time"

	"github.com/hashicorp/go-retryablehttp"
)

// patience is how long one operation goes on trying, over all its calls.
type patience struct {
	end      Instant       // no attempt begins after it; zero: the context alone decides
	limits   troubleLimits // how long to go on without a good answer
	maxPause time.Duration // between two attempts, whatever the proxy asks for; zero: until the end
	onRetry  func(error)   // may be nil
	// onTrouble is told the last failure, and since when there was no good answer;
	// and once a nil error when there is one again. May be nil.
	onTrouble func(err error, since time.Time)

	mu      sync.Mutex // guards the rest: a question about a silent attempt is asked beside it
	trouble trouble
	// leaderless is since when servers have answered only that they do not lead, if
	// anything; zero: they have not. It is no trouble of what waits anyway.
	leaderless Instant
	heard      bool // there was an HTTP answer, if only a part of one
}

// trouble is the time since the last good answer.
type trouble struct {
	since    Instant // zero: there is no trouble
	refused  bool    // nothing but refused connections
	errors   bool    // an error was answered
	last     error
	answered bool // the last was an answer
	over     bool // it lasted too long
}

// troubleLimits bound a [trouble]. A restart takes less, and a wrong address is
// reported soon.
type troubleLimits struct {
	refused time.Duration // no connection was made
	silent  time.Duration // no answer came, or errors and no answer
	errors  time.Duration // errors were answered
}

const (
	maxRefused = 30 * time.Second
	maxTrouble = time.Minute
)

// usualLimits are those of calls that have no time of their own.
var usualLimits = troubleLimits{refused: maxRefused, silent: maxTrouble, errors: maxTrouble}

// within returns the limits of an operation that waits for d at most. Errors that
// were answered until then are its result.
func (l troubleLimits) within(d time.Duration) troubleLimits {
	l.refused, l.silent = min(l.refused, d), min(l.silent, d)
	return l
}

// noLimits leave it to the context, or to the end.
var noLimits = troubleLimits{refused: math.MaxInt64, silent: math.MaxInt64, errors: math.MaxInt64}

// lasts notes an attempt, and reports whether a further one makes sense. unwanted says
// that o is not the answer that the call wants.
func (p *patience) lasts(ctx context.Context, o outcome, unwanted bool) bool {
	p.note(o, unwanted)
	return ctx.Err() == nil && !p.exhausted() && !hopeless(o.err) && !p.ended()
}

// note notes what o says of the proxy.
func (p *patience) note(o outcome, unwanted bool) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.heard = p.heard || o.heard
	switch {
	case o.notLeader() && !p.end.IsZero():
		p.noteElection(o)
	case o.err == nil && (o.busy() || !o.passing() && !unwanted):
		p.noteGood()
	case !o.cut: // else the client stopped listening: the proxy was not silent
		p.noteTrouble(o)
	}
}

// noteElection notes that a server does not lead.
func (p *patience) noteElection(o outcome) {
	p.trouble = trouble{}
	if p.leaderless.IsZero() {
		p.leaderless = o.asked
		if !o.standby() {
			p.leaderless = Now() // the server may have led, and kept the request, until now
		}
	}
	if p.onTrouble != nil {
		p.onTrouble(o.failed(), wallOf(p.leaderless))
	}
}

// noteGood notes a good answer.
func (p *patience) noteGood() {
	if (p.trouble.last != nil || !p.leaderless.IsZero()) && p.onTrouble != nil {
		p.onTrouble(nil, time.Time{})
	}
	p.trouble, p.leaderless = trouble{}, Instant{}
}

// noteTrouble notes an attempt that came to no good answer.
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
	t.last, t.answered = o.failed(), o.err == nil
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

// suspect notes that an attempt has been without an answer since asked, though it
// goes on.
func (p *patience) suspect(asked Instant) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.trouble.since.IsZero() {
		p.trouble.since = asked
	}
	p.trouble.refused = false
}

// exhausted reports whether there was no good answer for too long.
func (p *patience) exhausted() bool {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.trouble.over
}

// troubled reports whether the last attempt came to no good answer, and how.
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

// wallOf is an instant for people.
func wallOf(i Instant) time.Time { return time.Now().Add(Until(i)) }

// timeout reports whether an attempt ended because it stayed without answer, and
// not because its connection broke.
func timeout(err error) bool {
	t, ok := errors.AsType[net.Error](err)
	return ok && t.Timeout()
}

func (p *patience) ended() bool { return !p.end.IsZero() && over(p.end) }

// hopeless reports a failure that no further attempt can mend.
func hopeless(err error) bool {
	_, untrusted := errors.AsType[*tls.CertificateVerificationError](err)
	return untrusted || errors.Is(err, ErrTwoStores) || errors.Is(err, errHopeless)
}

// Hopeless marks an error of [Options.Revive] that no further attempt can mend: the call
// ends with it.
func Hopeless(err error) error {
	return &reworded{text: err.Error(), err: errors.Join(err, errHopeless)}
}

var errHopeless = errors.New("hopeless")

// Bounds of the pause between two attempts. A hand-off takes milliseconds, so
// the first pause is short; hundreds of jobs that lost the same proxy come
// back spread over the last one.
const (
	minPause = 100 * time.Millisecond
	maxPause = 2 * time.Second
)

// pause returns the pause after attempt n, counted from 0: what Retry-After
// says (RFC 9110, section 10.2.3), else a random time that grows. It does not
// go beyond the end. resp is the answer, if there was one.
func (p *patience) pause(n int, resp *http.Response) time.Duration {
	d, asked := retryAfter(resp)
	if !asked {
		d = retryablehttp.DefaultBackoff(minPause, maxPause, n, nil)
		d = d/2 + rand.N(d/2)
	}
	d = max(d, minPause/2) // "Retry-After: 0", or a date in the past
	if p.maxPause > 0 {
		d = min(d, p.maxPause)
	}
	if !p.end.IsZero() {
		d = min(d, max(0, Until(p.end)))
	}
	return d
}

// maxPauseWithin is the longest pause of what must succeed within d. Retry-After
// often asks for more, and an attempt in vain is better than a lease that is
// left behind or lost.
func maxPauseWithin(d time.Duration) time.Duration { return max(maxPause, d/4) }

// maxPauseBefore is maxPauseWithin what is left of ctx; no bound if ctx has no
// deadline.
func maxPauseBefore(ctx context.Context) time.Duration {
	end, ok := ctx.Deadline()
	if !ok {
		return 0
	}
	return maxPauseWithin(time.Until(end))
}

// retryAfter returns the pause that an answer asks for, in seconds or as a date,
// whatever its status: load balancers and gateways send it with any failure. A
// date is by the clock of its sender.
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
