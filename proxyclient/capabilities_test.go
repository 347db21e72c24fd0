package proxyclient

import (
	"context"
	"errors"
	"net/http"
	"net/http/httptest"
	"testing"
	"time"

	"github.com/leasectl/leasectl/leaseapi"
)

func TestCapabilitiesOf(t *testing.T) {
	bare, ours := leaseapi.Lease{Name: "a"}, leaseapi.Lease{Name: "b", Generation: 7}
	for _, tt := range []struct {
		leases []leaseapi.Lease
		want   Capabilities
	}{
		{nil, Unknown},
		{[]leaseapi.Lease{bare}, NamesOnly},
		{[]leaseapi.Lease{ours}, Ours},
		{[]leaseapi.Lease{ours, bare}, NamesOnly}, // no renewal covers both
	} {
		if c := CapabilitiesOf(tt.leases); c != tt.want {
			t.Errorf("%v: %d, want %d", tt.leases, c, tt.want)
		}
	}
}

// counting counts the questions about requests that come to h.
type counting struct {
	http.Handler
	asked int
}

func (c *counting) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	if r.Method == http.MethodGet {
		c.asked++
	}
	c.Handler.ServeHTTP(w, r)
}

// The client asks at most once what a proxy can do, and not at all after an answer has
// proven it. A 404 proves it only for the call that got it.
func TestCapabilities(t *testing.T) {
	one := Request{Ask: leaseapi.Ask{Type: "t", Count: 1}, Wait: time.Minute}
	acquire := func(t *testing.T, c *Client) {
		t.Helper()
		_, err := c.Acquire(t.Context(), one)
		want(t, err)
	}
	check := func(t *testing.T, c *Client, wanted Capabilities) {
		t.Helper()
		can, err := c.Capabilities(t.Context())
		want(t, err)
		if can != wanted {
			t.Errorf("got %d, want %d", can, wanted)
		}
	}
	bubble(t, "ours, asked", func(t *testing.T) {
		h := &counting{Handler: newOurs(t)}
		c, _ := serve(t, h, badGateway)
		check(t, c, Ours)
		check(t, c, Ours)
		if h.asked != 1 {
			t.Errorf("asked %d times", h.asked)
		}
	})
	bubble(t, "ours, learned from a grant", func(t *testing.T) {
		h := &counting{Handler: newOurs(t, "a")}
		c, _ := serve(t, h)
		acquire(t, c)
		check(t, c, Ours)
		if h.asked != 0 {
			t.Errorf("asked %d times", h.asked)
		}
	})
	bubble(t, "ours, learned from its health", func(t *testing.T) {
		h := &counting{Handler: newOurs(t)}
		c, _ := serve(t, h)
		_, err := c.Health(t.Context())
		want(t, err)
		check(t, c, Ours)
		if h.asked != 1 {
			t.Errorf("asked %d times", h.asked)
		}
	})
	bubble(t, "version 1, learned from a grant", func(t *testing.T) {
		h := &counting{Handler: newVersion1(t, "a", "b")}
		c, _ := serve(t, h, fault{}, lostAnswer)
		acquire(t, c)
		check(t, c, NamesOnly)
		_, err := c.Acquire(t.Context(), one)
		want(t, err, ErrUnconfirmed)
		if h.asked != 0 {
			t.Errorf("asked %d times", h.asked)
		}
	})
	bubble(t, "a gateway that does not find ours for now", func(t *testing.T) {
		c, _ := serve(t, newOurs(t), status(404), status(404))
		check(t, c, NamesOnly)
		check(t, c, Ours)
	})
	bubble(t, "a gateway that does not find ours, nor takes an acquire back", func(t *testing.T) {
		s := newOurs(t, "a")
		c, _ := serve(t, s, gatewayDone, status(404), badGateway, badGateway)
		_, err := c.Acquire(t.Context(), one)
		if held, queued := s.state(); err == nil || errors.Is(err, ErrUnconfirmed) || held+queued != 0 {
			t.Errorf("%d held, %d queued after %v", held, queued, err)
		}
	})
	bubble(t, "a question whose context ends", func(t *testing.T) {
		ctx, cancel := context.WithTimeout(t.Context(), time.Second)
		defer cancel()
		c, _ := serve(t, newOurs(t), status(404), hanging)
		can, err := c.Capabilities(ctx)
		want(t, err, context.DeadlineExceeded)
		if can != Unknown {
			t.Errorf("got %+v", can)
		}
	})
	bubble(t, "a gateway with error pages of its own", func(t *testing.T) {
		s := newOurs(t, "a", "b")
		c, _ := serve(t, http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
			if out := httptest.NewRecorder(); r.Method == http.MethodGet {
				if s.ServeHTTP(out, r); out.Code == http.StatusNotFound {
					http.Error(w, "<html>no such page</html>", http.StatusNotFound)
					return
				}
			}
			s.ServeHTTP(w, r)
		}))
		g, err := c.Acquire(t.Context(), Request{Ask: leaseapi.Ask{Type: "t", Count: 2}, Wait: time.Minute})
		want(t, err)
		if g.Capabilities != Ours || len(s.acquires) != 1 {
			t.Errorf("got %+v by %+v", g, s.acquires)
		}
	})
	bubble(t, "version 1, with a health that fails", func(t *testing.T) {
		v := newVersion1(t, "a", "b")
		healths := 0
		c, _ := serve(t, http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
			if r.URL.Path == leaseapi.PathHealth {
				healths++
				http.Error(w, "no", http.StatusServiceUnavailable)
				return
			}
			v.ServeHTTP(w, r)
		}))
		start := time.Now()
		_, err := c.Acquire(t.Context(), Request{Ask: leaseapi.Ask{Type: "t", Count: 2}, Wait: time.Minute})
		want(t, err)
		if time.Since(start) != 0 || healths != 1 {
			t.Errorf("took %s, and %d questions for its health", time.Since(start), healths)
		}
	})
	bubble(t, "ours, replaced by version 1", func(t *testing.T) {
		var now http.Handler = newOurs(t, "a")
		c, _ := serve(t, http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) { now.ServeHTTP(w, r) }), fault{}, fault{}, lostAnswer)
		acquire(t, c)
		v := newVersion1(t, "a", "b", "c")
		now = v
		acquire(t, c)
		_, err := c.Acquire(t.Context(), one)
		want(t, err, ErrUnconfirmed)
		if held, _ := v.state(); len(held) != 2 {
			t.Errorf("an ambiguous request was repeated: %v held", held)
		}
	})
	bubble(t, "nobody", func(t *testing.T) {
		c, m := serve(t, newOurs(t))
		m.Close()
		can, err := c.Capabilities(t.Context())
		want(t, err, ErrUnreachable)
		if can != Unknown {
			t.Errorf("got %+v", can)
		}
	})
}

// A request without an id is not repeated, even if another request has shown
// meanwhile that the proxy recognises ids.
func TestAcquireEachNeverRepeats(t *testing.T) {
	a := acquisition{client: &Client{}, request: Request{RequestID: "id"}, oneByOne: true}
	a.client.learn(Ours)
	if a.mayRepeat(outcome{err: errors.New("broken pipe"), sent: true}) || a.next() != identify {
		t.Error("an ambiguous request without an id would be repeated")
	}
	a.oneByOne = false
	if !a.mayRepeat(outcome{err: errors.New("broken pipe"), sent: true}) {
		t.Error("an ambiguous request with an id would not be repeated")
	}
}

// Every wire from 2 on is of leasectl's own server, not only the wire that this client was built
// with.
func TestHealthOfOtherWires(t *testing.T) {
	for wire, body := range map[int]string{2: `{"status":"ok","wire":2}`, 9: `{"status":"ok","wire":9}`} {
		bubble(t, body, func(t *testing.T) {
			c, _ := serve(t, nil, fault{status: 200, body: body})
			h, err := c.Health(t.Context())
			want(t, err)
			if h.Wire != wire || c.known() != Ours {
				t.Errorf("got %+v, %+v", h, c.known())
			}
		})
	}
}

// A context that is ended early, since its deadline was moved, has timed out, too.
func TestReleaseDeadlineMoved(t *testing.T) {
	release := func(t *testing.T, c *Client) error {
		ctx, end := context.WithCancelCause(releaseTimeout(t))
		time.AfterFunc(time.Second, func() { end(context.DeadlineExceeded) })
		start := time.Now()
		_, err := c.Release(ctx, leaseapi.ReleaseRequest{Names: []string{"a"}})
		if d := time.Since(start); d != time.Second {
			t.Errorf("took %s", d)
		}
		return err
	}
	bubble(t, "nobody there", func(t *testing.T) {
		c, m := serve(t, newVersion1(t))
		m.Close()
		want(t, release(t, c), ErrUnreachable, context.DeadlineExceeded)
	})
	bubble(t, "hanging", func(t *testing.T) {
		c, _ := serve(t, newVersion1(t), hanging)
		err := release(t, c)
		want(t, err, ErrUnreachable, context.DeadlineExceeded)
		if errors.Is(err, context.Canceled) {
			t.Errorf("looks as if the caller had given up: %v", err)
		}
	})
}
