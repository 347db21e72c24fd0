package proxyclient

import (
	"context"
	"errors"
	"net/http"
	"slices"
	"testing"
	"testing/synctest"
	"time"

	"github.com/leasectl/leasectl/leaseapi"
)

// Several leases of a version-1 proxy: all of them, or none.
func TestAcquireEach(t *testing.T) {
	request := Request{Ask: leaseapi.Ask{Type: "t", Count: 3}, RequestID: "id", Wait: time.Hour}
	bubble(t, "granted", func(t *testing.T) {
		v := newVersion1(t, "a", "b", "c", "d")
		c, _ := serve(t, v)
		g, err := c.Acquire(t.Context(), request)
		want(t, err)
		if held, _ := v.state(); g.Capabilities != NamesOnly || len(g.Leases) != 3 || len(held) != 3 || v.acquires != 3 || v.query != "count=1&type=t" || !g.Deadline().IsZero() {
			t.Errorf("got %+v by %d calls like %s, %v held", g, v.acquires, v.query, held)
		}
	})
	bubble(t, "a part is held for a minute, and never while the rest is waited for longer", func(t *testing.T) {
		v := newVersion1(t, "a", "b")
		v.known("c")
		c, _ := serve(t, v)
		start := time.Now()
		var g *Grant
		var err error
		done := make(chan struct{})
		go func() {
			defer close(done)
			g, err = c.Acquire(t.Context(), request)
		}()
		time.Sleep(holdTime - time.Second)
		if held, queued := v.state(); len(held) != 3 || queued != 1 {
			t.Errorf("before the minute is over: %v held, %d queued", held, queued)
		}
		time.Sleep(2 * time.Second)
		// The first name that was given back went to the client's own request in the
		// queue, and had to be given back again.
		synctest.Wait()
		if held, _ := v.state(); !slices.Equal(held, []string{"c"}) {
			t.Errorf("after the minute: %v held, want only what is another's", held)
		}
		v.mu.Lock()
		v.put("c")
		v.mu.Unlock()
		<-done
		want(t, err)
		backoff := time.Since(start) - holdTime
		if len(g.Leases) != 3 || backoff < minBackoff || backoff > maxBackoff {
			t.Errorf("got %v, %s after the part was given back", g.Leases, backoff)
		}
	})
	bubble(t, "two that block each other both get through", func(t *testing.T) {
		v := newVersion1(t, "a", "b", "c", "d")
		c, _ := serve(t, v)
		errs := make(chan error, 2)
		for range 2 {
			go func() {
				g, err := c.Acquire(t.Context(), request)
				if err == nil {
					time.Sleep(20 * time.Minute)
					_, err = c.Release(t.Context(), Releasing(g.Leases, ""))
				}
				errs <- err
			}()
		}
		want(t, <-errs)
		want(t, <-errs)
		if held, queued := v.state(); len(held) != 0 || queued != 0 {
			t.Errorf("%v held, %d queued", held, queued)
		}
	})
	bubble(t, "a later one fails", func(t *testing.T) {
		v := newVersion1(t, "a", "b", "c")
		v.slow = 2 * cancelTime
		c, _ := serve(t, v, fault{}, fault{}, fault{}, fault{}, status(400)) // after the questions
		_, err := c.Acquire(t.Context(), request)
		if held, _ := v.state(); err == nil || errors.Is(err, ErrUnconfirmed) || len(held) != 0 {
			t.Errorf("%v held after %v", held, err)
		}
	})
	bubble(t, "the answer to a later one is lost", func(t *testing.T) {
		v := newVersion1(t, "a", "b", "c")
		c, _ := serve(t, v, fault{}, fault{}, fault{}, fault{}, lostAnswer)
		_, err := c.Acquire(t.Context(), request)
		u, ok := errors.AsType[*UnconfirmedError](err)
		if held, _ := v.state(); !ok || u.Count != 1 || len(u.Names) != 0 || !slices.Equal(held, []string{"c"}) {
			t.Errorf("%v held after %v", held, err)
		}
	})
	bubble(t, "and the others cannot be given back", func(t *testing.T) {
		v := newVersion1(t, "a", "b", "c")
		v.broken = 1000
		c, _ := serve(t, v, fault{}, fault{}, fault{}, fault{}, lostAnswer)
		_, err := c.Acquire(t.Context(), request)
		u, ok := errors.AsType[*UnconfirmedError](err)
		if !ok || u.Count != 1 || !slices.Equal(slices.Sorted(slices.Values(u.Names)), []string{"a", "b"}) {
			t.Errorf("error %v", err)
		}
	})
	bubble(t, "cancelled", func(t *testing.T) {
		v := newVersion1(t, "a", "b")
		c, _ := serve(t, v)
		ctx, cancel := context.WithTimeout(t.Context(), 30*time.Second)
		defer cancel()
		_, err := c.Acquire(ctx, request)
		want(t, err, context.DeadlineExceeded, ErrUnconfirmed)
		synctest.Wait()
		if held, queued := v.state(); len(held) > unknown(err) || unknown(err) != 1 || queued != 0 {
			t.Errorf("%v held, %d queued after %v", held, queued, err)
		}
	})
	bubble(t, "never enough", func(t *testing.T) {
		v := newVersion1(t, "a", "b")
		v.wait = 50 * time.Second
		c, _ := serve(t, v)
		start := time.Now()
		_, err := c.Acquire(t.Context(), Request{Ask: leaseapi.Ask{Type: "t", Count: 3}, Wait: 10 * time.Minute})
		want(t, err, ErrExhausted)
		if held, _ := v.state(); len(held) > unknown(err) || time.Since(start) > 10*time.Minute+answerTime {
			t.Errorf("%v held after %s: %v", held, time.Since(start), err)
		}
	})
	bubble(t, "not together, and no time left to try again", func(t *testing.T) {
		v := newVersion1(t, "a", "b")
		c, _ := serve(t, v)
		start := time.Now()
		_, err := c.Acquire(t.Context(), Request{Ask: leaseapi.Ask{Type: "t", Count: 3}, Wait: holdTime + minBackoff})
		want(t, err, ErrExhausted)
		if held, _ := v.state(); len(held) != 0 || time.Since(start) != holdTime {
			t.Errorf("%v held after %s: %v", held, time.Since(start), err)
		}
	})
	bubble(t, "not together, and cannot be given back", func(t *testing.T) {
		v := newVersion1(t, "a", "b")
		v.broken = 1000
		c, _ := serve(t, v)
		time.AfterFunc(2*time.Minute, func() { // for the request under way
			v.mu.Lock()
			defer v.mu.Unlock()
			v.held = append(v.held, "c")
			v.queue[0] <- "c"
			v.queue = nil
		})
		_, err := c.Acquire(t.Context(), request)
		u, ok := errors.AsType[*UnconfirmedError](err)
		if !ok || u.Count != 0 || !slices.Equal(u.Names, []string{"a", "b", "c"}) {
			t.Errorf("error %v", err)
		}
	})
	bubble(t, "a name that was given back, granted again, and lost its second release", func(t *testing.T) {
		v := newVersion1(t, "a")
		v.known("c")
		releases := 0
		c, _ := serve(t, http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
			v.ServeHTTP(w, r)
			if r.URL.Path == leaseapi.PathRelease {
				if releases++; releases == 2 {
					panic(http.ErrAbortHandler)
				}
			}
		}))
		two := request
		two.Count = 2
		_, err := c.Acquire(t.Context(), two)
		u, ok := errors.AsType[*UnconfirmedError](err)
		if !ok || !slices.Equal(u.Names, []string{"a"}) {
			t.Errorf("error %v", err)
		}
	})
	bubble(t, "the same name twice", func(t *testing.T) {
		v := newVersion1(t, "a", "b", "c")
		v.reply = `{"names":["a"]}`
		c, _ := serve(t, v)
		_, err := c.Acquire(t.Context(), request)
		if err == nil || !slices.Equal(v.releases, []string{"a"}) {
			t.Errorf("error %v, given back %q", err, v.releases)
		}
	})
	bubble(t, "a proxy that does not say what it is", func(t *testing.T) {
		v := newVersion1(t, "a", "b", "c")
		c, _ := serve(t, v, status(400))
		_, err := c.Acquire(t.Context(), request)
		if err == nil || errors.Is(err, ErrUnconfirmed) || v.acquires != 0 {
			t.Errorf("%d acquires, error %v", v.acquires, err)
		}
	})
}

// unknown returns how many leases may be held according to err. The request that was
// given up last may have got a lease that was given back.
func unknown(err error) int {
	if u, ok := errors.AsType[*UnconfirmedError](err); ok {
		return u.Count + len(u.Names)
	}
	return 0
}

// known makes name a lease that the proxy has granted to somebody else.
func (v *version1) known(name string) { v.held = append(v.held, name) }
