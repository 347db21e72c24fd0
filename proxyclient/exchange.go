package proxyclient

import (
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"math"
	"math/rand/v2"
	"net/http"
	"net/http/httptrace"
	"net/url"
	"strconv"
	"strings"
	"time"

	"github.com/hashicorp/go-retryablehttp"
)

// call is one request, which may take several attempts.
type call struct {
	method  string
	path    string
	body    any           // nil, or []byte: JSON
	timeout time.Duration // of one attempt; zero: as long as the context
	// prepare completes the request just before each attempt, or stops it;
	// may be nil.
	prepare func(*http.Request) error
	// again reports whether the request may be sent again after o. It sees
	// every attempt.
	again func(o outcome) bool
}

// outcome is what came of an attempt.
type outcome struct {
	answer         // if err is nil
	err    error   // why there is no whole answer
	sent   bool    // a byte of the request can have left
	heard  bool    // there was an answer, if only a part of one
	asked  Instant // when the attempt began
}

// failed returns what is wrong with an outcome that is no success.
func (o outcome) failed() error {
	if o.err != nil {
		return o.err
	}
	return o.answer.err()
}

// exchange makes attempts until q.again or p says that it is enough, or ctx
// ends. It returns the outcome of the last one.
func (c *Client) exchange(ctx context.Context, q call, p *patience) outcome {
	var s sending
	var o outcome
	req, err := retryablehttp.NewRequestWithContext(httptrace.WithClientTrace(ctx, s.trace()), q.method, c.base+q.path, q.body)
	if err != nil {
		return outcome{err: err}
	}
	c.setHeader(req.Header, q.body != nil)
	prepare := func(r *http.Request) error {
		s.begin()
		o.asked = Now()
		if q.prepare == nil {
			return nil
		}
		return q.prepare(r)
	}
	if err := prepare(req.Request); err != nil {
		return outcome{err: err, asked: o.asked}
	}
	rc := retryablehttp.Client{
		HTTPClient: &http.Client{Transport: c.transport, Timeout: q.timeout, CheckRedirect: noRedirects},
		RetryMax:   math.MaxInt, // patience and context say when it is enough
		CheckRetry: func(_ context.Context, resp *http.Response, err error) (bool, error) {
			o = outcome{asked: o.asked, sent: s.sent(), heard: resp != nil, err: err}
			if err == nil {
				o.answer, o.err = readAnswer(resp)
			} else {
				o.err = plain(ctx, err, q.timeout)
			}
			// Both are asked each time: both keep count.
			again, patient := q.again(o), p.lasts(ctx, o)
			if again && patient && p.onRetry != nil {
				p.onRetry(o.failed())
			}
			return again && patient, nil
		},
		Backoff: func(_, _ time.Duration, n int, resp *http.Response) time.Duration {
			return p.pause(n, resp)
		},
		PrepareRetry: prepare,
		ErrorHandler: retryablehttp.PassthroughErrorHandler,
	}
	// What Do returns is in o already, or says that ctx or prepare ended the
	// pause before a further attempt: then the last one counts.
	_, _ = rc.Do(req)
	return o
}

func noRedirects(*http.Request, []*http.Request) error { return http.ErrUseLastResponse }

func (c *Client) setHeader(h http.Header, body bool) {
	h.Set("User-Agent", c.userAgent)
	if c.token != "" {
		h.Set("Authorization", "Bearer "+c.token)
	}
	if body {
		h.Set("Content-Type", "application/json")
	}
}

// plain takes from err what net/http says around it: the method and the whole
// URL with its query.
func plain(ctx context.Context, err error, timeout time.Duration) error {
	ue, ok := errors.AsType[*url.Error](err)
	if !ok {
		return err
	}
	if timeout > 0 && ue.Timeout() && ctx.Err() == nil {
		return &silence{text: fmt.Sprintf("no answer for %s", timeout), err: ue.Err}
	}
	return ue.Err
}

// patience is what one operation puts up with, over all its calls.
type patience struct {
	end     Instant       // no attempt follows after it; zero: the context decides alone
	silence time.Duration // how long to go on without any HTTP answer
	onRetry func(error)   // may be nil
	longest time.Duration // pause, whatever the proxy asks for; zero: no bound but the end

	since    Instant // when the silence began; zero while there are answers
	over     bool    // it lasted too long
	answered bool    // there was an HTTP answer
}

// maxSilence is how long the proxy may be silent before it counts as
// unreachable: a restart fits in, a wrong address is found out soon.
const maxSilence = 30 * time.Second

// lasts notes what o says of the proxy, and reports whether a further attempt
// makes sense.
func (p *patience) lasts(ctx context.Context, o outcome) bool {
	p.note(ctx, o)
	return ctx.Err() == nil && !p.over && !hopeless(o.err) && !p.ended()
}

func (p *patience) note(ctx context.Context, o outcome) {
	switch {
	case o.heard:
		p.since, p.over, p.answered = Instant{}, false, true
		return
	case o.sent && ctx.Err() != nil:
		return // a proxy that we stopped listening to was not silent
	case p.since.IsZero() && o.sent:
		p.since = Now() // it may have been at work for hours until now
	case p.since.IsZero():
		p.since = o.asked
	}
	p.over = -Until(p.since) >= p.silence
}

func (p *patience) ended() bool { return !p.end.IsZero() && Until(p.end) <= 0 }

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
	d, told := retryAfter(resp)
	if !told {
		d = retryablehttp.DefaultBackoff(minPause, maxPause, n, nil)
		d = d/2 + rand.N(d/2)
	}
	d = max(d, minPause/2) // "Retry-After: 0", and a date that is over
	if p.longest > 0 {
		d = min(d, p.longest)
	}
	if !p.end.IsZero() {
		d = min(d, max(0, Until(p.end)))
	}
	return d
}

// longestWithin is the longest pause of what must succeed within d. What
// Retry-After asks for is often more, and to try in vain is better than to leave a
// lease behind, or to lose one.
func longestWithin(d time.Duration) time.Duration { return max(maxPause, d/4) }

// longestBefore is longestWithin what is left of ctx; no bound if that has none.
func longestBefore(ctx context.Context) time.Duration {
	end, ok := ctx.Deadline()
	if !ok {
		return 0
	}
	return longestWithin(time.Until(end))
}

// retryAfter returns the pause that an answer asks for, in seconds or as a date,
// whatever its status: what stands before a proxy sends it with any failure. A
// date is by the clock of who sent it.
func retryAfter(resp *http.Response) (d time.Duration, told bool) {
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

// hopeless reports a failure that no further attempt can mend.
func hopeless(err error) bool {
	_, untrusted := errors.AsType[*tls.CertificateVerificationError](err)
	return untrusted
}

// failure returns the error of a call that came to no success.
func (c *Client) failure(ctx context.Context, o outcome, p *patience) error {
	err := o.failed()
	timedOut := errors.Is(ctx.Err(), context.DeadlineExceeded)
	if o.err != nil && !hopeless(o.err) && (p.over || timedOut && !p.answered) {
		return c.unreachable(ctx, o.err)
	}
	if ctx.Err() == nil || errors.Is(err, ctx.Err()) {
		return err
	}
	cause := context.Cause(ctx)
	if strings.Contains(err.Error(), cause.Error()) {
		return &silence{text: err.Error(), err: errors.Join(err, cause)}
	}
	return fmt.Errorf("%w (%w)", err, cause)
}

// unreachable is the error for a proxy that did not answer. err is why the last
// attempt failed; if that was only cut short by ctx, it says nothing.
func (c *Client) unreachable(ctx context.Context, err error) error {
	if ctx.Err() != nil && (errors.Is(err, context.Canceled) || errors.Is(err, context.DeadlineExceeded)) {
		return fmt.Errorf("%w: %w", ErrUnreachable, &silence{text: c.name, err: errors.Join(ctx.Err(), err)})
	}
	err = fmt.Errorf("%w: %s: %w", ErrUnreachable, c.name, err)
	if ctx.Err() != nil {
		return &silence{text: err.Error(), err: errors.Join(err, ctx.Err())}
	}
	return err
}

// silence is an error whose cause has nothing to tell a person: that a context
// ended, and how.
type silence struct {
	text string
	err  error
}

func (s *silence) Error() string { return s.text }
func (s *silence) Unwrap() error { return s.err }

// Sleep waits for d. If ctx ends before, it returns the cause.
func Sleep(ctx context.Context, d time.Duration) error {
	t := time.NewTimer(d)
	defer t.Stop()
	select {
	case <-t.C:
		return nil
	case <-ctx.Done():
		return context.Cause(ctx)
	}
}
