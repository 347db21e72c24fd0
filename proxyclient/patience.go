package proxyclient

import (
	"context"
	"crypto/tls"
	"errors"
	"math"
	"math/rand/v2"
	"net/http"
	"strconv"
	"time"

	"github.com/hashicorp/go-retryablehttp"
)

// patience is how long one operation goes on trying, over all its calls.
type patience struct {
	end      Instant       // no attempt begins after it; zero: the context alone decides
	silence  time.Duration // how long to go on without any HTTP answer
	maxPause time.Duration // between two attempts, whatever the proxy asks for; zero: until the end
	onRetry  func(error)   // may be nil

	silentSince Instant // zero while there are answers
	exhausted   bool    // the silence lasted too long
	answered    bool    // there was an HTTP answer
}

// maxSilence is how long the proxy may be silent before it counts as
// unreachable: a restart takes less, and a wrong address is reported soon.
const maxSilence = 30 * time.Second

// lasts notes what o says of the proxy, and reports whether a further attempt
// makes sense.
func (p *patience) lasts(ctx context.Context, o outcome) bool {
	p.note(ctx, o)
	return ctx.Err() == nil && !p.exhausted && !hopeless(o.err) && !p.ended()
}

func (p *patience) note(ctx context.Context, o outcome) {
	switch {
	case o.heard:
		p.silentSince, p.exhausted, p.answered = Instant{}, false, true
		return
	case o.sent && ctx.Err() != nil:
		return // the client stopped listening: the proxy was not silent
	case p.silentSince.IsZero() && o.sent:
		p.silentSince = Now() // the proxy may have been at work for hours until now
	case p.silentSince.IsZero():
		p.silentSince = o.asked
	}
	p.exhausted = -Until(p.silentSince) >= p.silence
}

func (p *patience) ended() bool { return !p.end.IsZero() && over(p.end) }

// hopeless reports a failure that no further attempt can mend.
func hopeless(err error) bool {
	_, untrusted := errors.AsType[*tls.CertificateVerificationError](err)
	return untrusted
}

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
