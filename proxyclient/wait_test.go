package proxyclient

import (
	"context"
	"errors"
	"fmt"
	"net"
	"net/http"
	"os"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/leasectl/leasectl/internal/wiretest"
	"github.com/leasectl/leasectl/leaseapi"
)

// A queued request is sent again at once with the rest of the wait, and reports its
// place. The error at the end of the wait has the last known place.
func TestAcquireQueued(t *testing.T) {
	bubble(t, "granted", func(t *testing.T) {
		s := newOurs(t)
		c, _ := serve(t, s)
		s.freeAfter(60*time.Second, "a", "b")
		var places []int
		start := time.Now()
		g, err := c.Acquire(t.Context(), Request{Ask: leaseapi.Ask{Type: "t", Count: 2}, Owner: "job", RequestID: "id", TTL: time.Minute, Wait: time.Hour,
			OnQueued: func(q leaseapi.Queued) {
				places = append(places, q.Place)
				if strings.ContainsRune(q.Oldest.Owner, '\x1b') {
					t.Error("an escape sequence came through")
				}
			}})
		want(t, err)
		if d := time.Since(start); d != 60*time.Second {
			t.Errorf("took %s, want the minute until the leases were free", d)
		}
		if len(places) != 3 || g.Capabilities != Ours || len(g.Leases) != 2 || g.RequestID != "id" || g.TTL != time.Minute || g.RenewEvery != 20*time.Second {
			t.Errorf("queued %v, got %+v", places, g)
		}
		if since := Now().Sub(g.Asked); since != 8*time.Second {
			t.Errorf("asked %s ago, want 8s: the start of the last slice", since)
		}
		if left := Until(g.Deadline()); left != 22*time.Second {
			t.Errorf("%s left, want 22s of the provisional 30", left)
		}
		wants := []string{"1h0m0s", "59m58s", "59m33s", "59m8s"}
		for i, q := range s.acquires {
			if time.Duration(*q.Wait).String() != wants[i] || q.Owner != "job" || time.Duration(q.TTL) != time.Minute || q.Count != 2 || q.RequestID != "id" {
				t.Errorf("request %d: %+v", i, q)
			}
		}
	})
	bubble(t, "exhausted", func(t *testing.T) {
		s := newOurs(t)
		c, _ := serve(t, s)
		start := time.Now()
		_, err := c.Acquire(t.Context(), Request{Ask: leaseapi.Ask{Type: "t", Count: 1}, Wait: time.Minute})
		want(t, err, ErrExhausted)
		if d := time.Since(start); d != time.Minute {
			t.Errorf("took %s, want the wait", d)
		}
		if s := err.Error(); s != `acquire: no lease of type "t" within 1m0s (place 1 of 1, 2 of 2 in use)` {
			t.Errorf("error %q", s)
		}
		if _, queued := s.state(); queued != 0 {
			t.Error("still queued")
		}
	})
	bubble(t, "try", func(t *testing.T) {
		s := newOurs(t)
		c, _ := serve(t, s)
		start := time.Now()
		_, err := c.Acquire(t.Context(), Request{Ask: leaseapi.Ask{Type: "t", Count: 1}})
		want(t, err, ErrExhausted)
		if time.Since(start) != 0 || len(s.acquires) != 1 {
			t.Errorf("took %s and %d requests", time.Since(start), len(s.acquires))
		}
	})
	bubble(t, "a slice that hangs is sent again", func(t *testing.T) {
		s := newOurs(t)
		c, _ := serve(t, s, fault{}, hanging)
		s.freeAfter(time.Minute+time.Second, "a")
		start := time.Now()
		_, err := c.Acquire(t.Context(), Request{Ask: leaseapi.Ask{Type: "t", Count: 1}, Wait: time.Hour})
		want(t, err)
		if d := time.Since(start); d != time.Minute+time.Second {
			t.Errorf("took %s", d)
		}
	})
	bubble(t, "answered at once without end", func(t *testing.T) {
		var n int
		c, _ := serve(t, http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
			n++
			if r.URL.Path == leaseapi.PathRelease {
				answerJSON(w, 200, leaseapi.ReleaseReply{Released: []string{}})
				return
			}
			answerJSON(w, 202, leaseapi.Queued{RequestID: wiretest.Asked(r).RequestID})
		}))
		_, err := c.Acquire(t.Context(), Request{Ask: leaseapi.Ask{Type: "t", Count: 1}, Wait: 10 * time.Second})
		want(t, err, ErrExhausted)
		if n > 110 {
			t.Errorf("%d requests in 10s", n)
		}
	})
}

// A cancelled acquire leaves nothing behind if the proxy can be told. If it cannot, the
// error says so.
func TestAcquireCancelled(t *testing.T) {
	cause := errors.New("told to stop")
	cancelAfter := func(t *testing.T, d time.Duration) context.Context {
		ctx, cancel := context.WithCancelCause(t.Context())
		time.AfterFunc(d, func() { cancel(cause) })
		return ctx
	}
	bubble(t, "ours", func(t *testing.T) {
		s := newOurs(t)
		c, _ := serve(t, s)
		start := time.Now()
		_, err := c.Acquire(cancelAfter(t, 40*time.Second), Request{Ask: leaseapi.Ask{Type: "t", Count: 1}, RequestID: "id", Wait: time.Hour})
		want(t, err, cause)
		if errors.Is(err, ErrUnconfirmed) || time.Since(start) != 40*time.Second {
			t.Errorf("after %s: %v", time.Since(start), err)
		}
		if _, queued := s.state(); queued != 0 || !s.ended["id"] {
			t.Error("the request still stands")
		}
	})
	bubble(t, "ours, that hangs", func(t *testing.T) {
		s := newOurs(t)
		c, _ := serve(t, s, fault{}, fault{}, hanging, hanging, hanging)
		start := time.Now()
		_, err := c.Acquire(cancelAfter(t, 55*time.Second), Request{Ask: leaseapi.Ask{Type: "t", Count: 1}, RequestID: "id", Wait: time.Hour})
		want(t, err, cause, ErrUnconfirmed)
		if d := time.Since(start); d != 58*time.Second {
			t.Errorf("took %s, want 3s after the end", d)
		}
	})
	bubble(t, "version 1", func(t *testing.T) {
		v := newVersion1(t)
		c, _ := serve(t, v)
		_, err := c.Acquire(cancelAfter(t, 40*time.Second), Request{Ask: leaseapi.Ask{Type: "t", Count: 1}, Wait: time.Hour})
		want(t, err, cause)
		synctest.Wait()
		if _, queued := v.state(); errors.Is(err, ErrUnconfirmed) || queued != 0 {
			t.Errorf("%d queued after %v", queued, err)
		}
	})
	bubble(t, "version 1 that answered an earlier question with an error", func(t *testing.T) {
		c, _ := serve(t, newVersion1(t), badGateway)
		_, err := c.Acquire(cancelAfter(t, 40*time.Second), Request{Ask: leaseapi.Ask{Type: "t", Count: 1}, Wait: time.Hour})
		want(t, err, ErrUnconfirmed)
	})
	bubble(t, "before anything was sent", func(t *testing.T) {
		v := newVersion1(t)
		c, m := serve(t, v)
		m.Close()
		_, err := c.Acquire(cancelAfter(t, 20*time.Second), Request{Ask: leaseapi.Ask{Type: "t", Count: 1}, Wait: time.Hour})
		want(t, err, cause)
		if errors.Is(err, ErrUnconfirmed) {
			t.Error(err)
		}
	})
	bubble(t, "version 1 that is tried", func(t *testing.T) {
		c, _ := serve(t, newVersion1(t))
		start := time.Now()
		_, err := c.Acquire(t.Context(), Request{Ask: leaseapi.Ask{Type: "t", Count: 1}})
		want(t, err, ErrExhausted)
		if d := time.Since(start); errors.Is(err, ErrUnconfirmed) || d != noAnswerTime {
			t.Errorf("took %s", d)
		}
	})
	bubble(t, "version 1 at the end of the wait", func(t *testing.T) {
		v := newVersion1(t)
		c, _ := serve(t, v)
		start := time.Now()
		_, err := c.Acquire(t.Context(), Request{Ask: leaseapi.Ask{Type: "t", Count: 1}, Wait: time.Minute})
		want(t, err, ErrExhausted)
		if d := time.Since(start); errors.Is(err, ErrUnconfirmed) || d != time.Minute+noAnswerTime {
			t.Errorf("took %s", d)
		}
	})
}

// An acquire gives up after half a minute of refused connections, or at the end of its wait.
func TestAcquireUnreachable(t *testing.T) {
	for _, tt := range []struct {
		name            string
		wait            time.Duration
		after           time.Duration // then the network is gone; zero: from the start
		err             error
		atLeast, atMost time.Duration
	}{
		{name: "never there", wait: time.Hour, err: ErrUnreachable, atLeast: maxRefused, atMost: maxRefused + maxPause},
		{name: "short wait", wait: 5 * time.Second, err: ErrUnreachable, atLeast: 5 * time.Second, atMost: 5 * time.Second},
		{name: "no wait", wait: 0, err: ErrUnreachable, atLeast: 0, atMost: 0},
		{name: "gone while queued", wait: time.Hour, after: 10 * time.Minute, err: ErrUnreachable,
			atLeast: 10*time.Minute + maxRefused, atMost: 10*time.Minute + 30*time.Second + maxRefused + maxPause + cancelTime},
		{name: "gone just before the end", wait: 10 * time.Minute, after: 10*time.Minute - 10*time.Second, err: ErrExhausted,
			atLeast: 10 * time.Minute, atMost: 10*time.Minute + answerTime + cancelTime},
	} {
		bubble(t, tt.name, func(t *testing.T) {
			s := newOurs(t)
			c, m := serve(t, s, fault{})
			if tt.after == 0 {
				m.Close()
			} else {
				time.AfterFunc(tt.after, func() { m.Close() })
			}
			start := time.Now()
			_, err := c.Acquire(t.Context(), Request{Ask: leaseapi.Ask{Type: "t", Count: 1}, Wait: tt.wait})
			want(t, err, tt.err)
			if d := time.Since(start); d < tt.atLeast || d > tt.atMost {
				t.Errorf("took %s, want %s to %s: %v", d, tt.atLeast, tt.atMost, err)
			}
		})
	}
	for _, wait := range []time.Duration{0, dialTime / 2, dialTime + time.Second} {
		bubble(t, fmt.Sprintf("connections that nobody accepts or refuses, for %s", wait), func(t *testing.T) {
			c, _ := serve(t, newOurs(t))
			c.transport.DialContext = tracked(func(ctx context.Context, _, _ string) (net.Conn, error) {
				ctx, cancel := context.WithTimeout(ctx, dialTime)
				defer cancel()
				<-ctx.Done()
				return nil, &net.OpError{Op: "dial", Net: "mem", Err: os.ErrDeadlineExceeded}
			})
			start := time.Now()
			_, err := c.Acquire(t.Context(), Request{Ask: leaseapi.Ask{Type: "t", Count: 1}, Wait: wait})
			want(t, err, ErrUnreachable)
			u, _ := errors.AsType[*UnreachableError](err)
			if errors.Is(err, ErrExhausted) || errors.Is(err, ErrUnconfirmed) || !u.Refused || time.Since(start) != wait+noAnswerTime {
				t.Errorf("after %s: %v", time.Since(start), err)
			}
		})
	}
	bubble(t, "a proxy that is down comes back", func(t *testing.T) {
		s := newOurs(t, "a")
		var down []fault
		for range 10 {
			down = append(down, dialRefused)
		}
		var retries int
		c, _ := serve(t, s, down...)
		_, err := c.Acquire(t.Context(), Request{Ask: leaseapi.Ask{Type: "t", Count: 1}, Wait: time.Hour, OnRetry: func(error) { retries++ }})
		want(t, err)
		if retries != 10 {
			t.Errorf("told of %d retries", retries)
		}
	})
	bubble(t, "silence ends with an answer", func(t *testing.T) {
		s := newOurs(t)
		c, _ := serve(t, s, dialRefused, fault{}, fault{}, fault{}, dialRefused)
		s.freeAfter(2*time.Minute, "a")
		_, err := c.Acquire(t.Context(), Request{Ask: leaseapi.Ask{Type: "t", Count: 1}, Wait: time.Hour})
		want(t, err)
	})
	bubble(t, "a connection that breaks after an hour was not silent for an hour", func(t *testing.T) {
		asked := 0
		c, _ := serve(t, http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
			switch {
			case r.Method == http.MethodGet:
				asked++
				http.NotFound(w, r)
				return
			case r.URL.Path == leaseapi.PathRelease:
				w.WriteHeader(http.StatusNoContent)
				return
			}
			time.Sleep(time.Hour)
			panic(http.ErrAbortHandler)
		}))
		_, err := c.Acquire(t.Context(), Request{Ask: leaseapi.Ask{Type: "t", Count: 1}, Wait: 2 * time.Hour})
		want(t, err, ErrUnconfirmed)
		if errors.Is(err, ErrUnreachable) || asked == 0 || asked > 12 {
			t.Errorf("asked %d times which kind it is: %v", asked, err)
		}
	})
}

// Retry-After counts against a server that knows the request id, up to the wait and for a minute at most.
func TestAcquireRetryAfter(t *testing.T) {
	busy := func(code int, after string) fault {
		f := problemFault(code, leaseapi.ProblemUnavailable)
		f.header.Set("Retry-After", after)
		return f
	}
	for _, tt := range []struct {
		code  int
		after string
		wait  time.Duration
		took  time.Duration
	}{
		{503, "20", time.Hour, 20 * time.Second},
		{503, "20", 10 * time.Second, 10 * time.Second},
		{502, "20", time.Hour, 20 * time.Second},
		{503, "31536000", time.Hour, time.Minute},
		{429, "99999999999999999999", time.Minute, 0}, // too large for a number: ignored
		{429, "9223372036854775807", time.Minute, time.Minute},
		{503, "Sat, 01 Jan 2000 00:00:20 GMT", time.Hour, 20 * time.Second},
		{503, "Saturday, 01-Jan-00 00:00:20 GMT", time.Hour, 20 * time.Second}, // RFC 850
		{503, "Sat Jan  1 00:00:20 2000", time.Hour, 20 * time.Second},         // asctime
		{503, "Sat, 01 Jan 2000 00:00:20 GMT", 10 * time.Second, 10 * time.Second},
		{503, "Fri, 31 Dec 1999 23:59:00 GMT", time.Hour, minPause / 2}, // in the past
	} {
		bubble(t, fmt.Sprintf("%d %s of %s", tt.code, tt.after, tt.wait), func(t *testing.T) {
			c, _ := serve(t, newOurs(t, "a"), busy(tt.code, tt.after))
			start := time.Now()
			_, err := c.Acquire(t.Context(), Request{Ask: leaseapi.Ask{Type: "t", Count: 1}, Wait: tt.wait})
			want(t, err)
			if d := time.Since(start); d != tt.took && (tt.took != 0 || d > maxPause) {
				t.Errorf("took %s, want %s", d, tt.took)
			}
		})
	}
	bubble(t, "a date by a clock that is wrong", func(t *testing.T) {
		f := busy(503, "Mon, 01 Jan 2001 00:00:20 GMT")
		f.header.Set("Date", "Mon, 01 Jan 2001 00:00:00 GMT")
		c, _ := serve(t, newOurs(t, "a"), f)
		start := time.Now()
		_, err := c.Acquire(t.Context(), Request{Ask: leaseapi.Ask{Type: "t", Count: 1}, Wait: time.Hour})
		want(t, err)
		if d := time.Since(start); d != 20*time.Second {
			t.Errorf("took %s", d)
		}
	})
	bubble(t, "longer than what was granted meanwhile lasts", func(t *testing.T) {
		f := fault{status: 503, body: "no", header: http.Header{}, done: true}
		f.header.Set("Retry-After", "40")
		c, _ := serve(t, newOurs(t, "a"), f)
		start := time.Now()
		_, err := c.Acquire(t.Context(), Request{Ask: leaseapi.Ask{Type: "t", Count: 1}, Wait: time.Hour})
		want(t, err)
		if d := time.Since(start); d >= leaseapi.ProvisionalTTL {
			t.Errorf("took %s", d)
		}
	})
	bubble(t, "longer than a renewal may take", func(t *testing.T) {
		s := newOurs(t, "a")
		c, _ := serve(t, s)
		g, err := c.Acquire(t.Context(), Request{Ask: leaseapi.Ask{Type: "t", Count: 1}, Wait: time.Hour})
		want(t, err)
		c, _ = serve(t, s, busy(503, "45"))
		ctx, cancel := context.WithTimeout(t.Context(), leaseapi.ProvisionalTTL)
		defer cancel()
		_, err = c.Renew(ctx, g.Leases, 0)
		want(t, err)
	})
	bubble(t, "at once, without end", func(t *testing.T) {
		n := 0
		c, _ := serve(t, http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
			n++
			w.Header().Set("Retry-After", "0")
			http.Error(w, `Failed to acquire lease "t": resources not found`, http.StatusServiceUnavailable)
		}))
		_, err := c.Acquire(t.Context(), Request{Ask: leaseapi.Ask{Type: "t", Count: 1}, Wait: 10 * time.Second})
		want(t, err, ErrExhausted)
		if limit := int(10*time.Second/(minPause/2)) + 1; n > limit {
			t.Errorf("%d requests in 10s, want at most %d", n, limit)
		}
	})
	bubble(t, "the queue is full", func(t *testing.T) {
		c, _ := serve(t, http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
			switch q := wiretest.Asked(r); {
			case r.Method == http.MethodGet:
				problem(w, 404, leaseapi.Problem{Type: leaseapi.ProblemUnknownRequest})
			case q.Wait != nil && *q.Wait == 0:
				problem(w, 503, leaseapi.Problem{Type: leaseapi.ProblemExhausted, Detail: "no lease was free"})
			default:
				problem(w, 503, leaseapi.Problem{Type: leaseapi.ProblemQueueFull, Detail: "the queue is full"})
			}
		}))
		_, err := c.Acquire(t.Context(), Request{Ask: leaseapi.Ask{Type: "t", Count: 1}, Wait: time.Minute})
		if want(t, err, ErrExhausted); !strings.Contains(err.Error(), "the queue is full") {
			t.Errorf("error %v, want why it was not taken into the queue", err)
		}
	})
}
