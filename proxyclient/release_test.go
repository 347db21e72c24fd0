package proxyclient

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/leasectl/leasectl/leaseapi"
)

func releaseTimeout(t *testing.T) context.Context {
	ctx, cancel := context.WithTimeout(t.Context(), releaseTime)
	t.Cleanup(cancel)
	return ctx
}

// Faults of a release that TestFault does not cover, since it has one fault per call.
func TestRelease(t *testing.T) {
	bubble(t, "a login page that stays", func(t *testing.T) {
		for _, h := range []struct {
			name string
			req  leaseapi.ReleaseRequest
		}{
			{"names", leaseapi.ReleaseRequest{Names: []string{"a"}}},
			{"leases", leaseapi.ReleaseRequest{Leases: leases}},
			{"request ids", leaseapi.ReleaseRequest{RequestIDs: []string{"id"}}},
		} {
			c, _ := serve(t, http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) { w.Write([]byte("<html>log in")) }))
			reply, err := c.Release(releaseTimeout(t), h.req)
			want(t, err, context.DeadlineExceeded)
			if errors.Is(err, errors.ErrUnsupported) || len(reply.Released) > 0 || !strings.Contains(err.Error(), "an HTML or XML page") {
				t.Errorf("%s: released %v, error %v", h.name, reply.Released, err)
			}
		}
	})
	bubble(t, "what answers for a server that is known to be ours", func(t *testing.T) {
		s := newOurs(t, "a")
		c, m := serve(t, s, fault{})
		g, err := c.Acquire(t.Context(), Request{Ask: leaseapi.Ask{Type: "t", Count: 1}})
		want(t, err)
		m.add(fault{status: 204}, fault{status: 200, body: `{"status":"ok"}`})
		_, err = c.Release(releaseTimeout(t), Releasing(g.Leases, ""))
		want(t, err)
		if held, _ := s.state(); held != 0 {
			t.Errorf("%d held", held)
		}
	})
	bubble(t, "a pause that is longer than the release", func(t *testing.T) {
		s := newOurs(t)
		s.grants["id"] = []leaseapi.Lease{{Name: "a", Generation: 7}}
		c, _ := serve(t, s, status(503).after("3600"))
		_, err := c.Release(releaseTimeout(t), leaseapi.ReleaseRequest{Leases: s.grants["id"]})
		want(t, err)
	})
	bubble(t, "hanging/ours", func(t *testing.T) {
		s := newOurs(t)
		s.grants["id"] = []leaseapi.Lease{{Name: "a", Generation: 7}}
		c, _ := serve(t, s, hanging)
		start := time.Now()
		_, err := c.Release(releaseTimeout(t), leaseapi.ReleaseRequest{Leases: s.grants["id"]})
		want(t, err)
		if d := time.Since(start); d > quickTime+maxPause {
			t.Errorf("took %s", d)
		}
	})
	bubble(t, "unreachable", func(t *testing.T) {
		c, m := serve(t, newVersion1(t))
		m.Close()
		start := time.Now()
		_, err := c.Release(releaseTimeout(t), leaseapi.ReleaseRequest{Names: []string{"a"}})
		want(t, err, ErrUnreachable, context.DeadlineExceeded)
		if d := time.Since(start); d != releaseTime {
			t.Errorf("took %s", d)
		}
	})
	bubble(t, "failing", func(t *testing.T) {
		c, _ := serve(t, http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) { http.Error(w, "no store", http.StatusServiceUnavailable) }))
		_, err := c.Release(releaseTimeout(t), leaseapi.ReleaseRequest{Names: []string{"a"}})
		want(t, err, context.DeadlineExceeded)
		if errors.Is(err, ErrUnreachable) || !strings.Contains(err.Error(), "no store") {
			t.Errorf("error %v", err)
		}
	})
	bubble(t, "failing, and then without an answer", func(t *testing.T) {
		faults := slices.Repeat([]fault{lostRequest}, 100) // more than there is time for
		faults[0] = status(503)
		c, _ := serve(t, newOurs(t), faults...)
		_, err := c.Release(releaseTimeout(t), leaseapi.ReleaseRequest{Leases: []leaseapi.Lease{{Name: "a", Generation: 7}}})
		want(t, err, ErrUnreachable, context.DeadlineExceeded)
	})
	bubble(t, "failing, and slowly", func(t *testing.T) {
		for _, pause := range []time.Duration{time.Second, 1700 * time.Millisecond, 3 * time.Second} {
			c, _ := serve(t, http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
				time.Sleep(pause)
				http.Error(w, "no store", http.StatusServiceUnavailable)
			}))
			_, err := c.Release(releaseTimeout(t), leaseapi.ReleaseRequest{Leases: []leaseapi.Lease{{Name: "a", Generation: 7}}})
			want(t, err, context.DeadlineExceeded)
			if errors.Is(err, ErrUnreachable) {
				t.Errorf("answers after %s: error %v", pause, err)
			}
			time.Sleep(pause) // for the handler of an attempt that was cut
		}
	})
	bubble(t, "a name that version 1 cannot release, and slowly", func(t *testing.T) {
		for _, pause := range []time.Duration{time.Second, 1700 * time.Millisecond, 3 * time.Second} {
			c, _ := serve(t, http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
				time.Sleep(pause)
				http.Error(w, leaseapi.TextReleaseFailed+"a: no store", http.StatusInternalServerError)
			}))
			_, err := c.Release(releaseTimeout(t), leaseapi.ReleaseRequest{Names: []string{"a"}})
			want(t, err, context.DeadlineExceeded)
			if _, failing := errors.AsType[*FailingError](err); failing || errors.Is(err, ErrUnreachable) || !strings.Contains(err.Error(), "no store") {
				t.Errorf("answers after %s: error %v (a failing proxy: %t)", pause, err, failing)
			}
			time.Sleep(pause) // for the handler of an attempt that was cut
		}
	})
	bubble(t, "refused for good", func(t *testing.T) {
		c, m := serve(t, newVersion1(t), status(400))
		_, err := c.Release(releaseTimeout(t), leaseapi.ReleaseRequest{Names: []string{"a"}})
		if err == nil || m.dials != 1 {
			t.Errorf("error %v after %d attempts", err, m.dials)
		}
	})
	bubble(t, "a name that stands there twice", func(t *testing.T) {
		v := newVersion1(t)
		v.held, v.queue = []string{"a"}, []chan string{make(chan string, 1)}
		c, _ := serve(t, v)
		reply, err := c.Release(releaseTimeout(t), leaseapi.ReleaseRequest{Names: []string{"a", "a"}})
		want(t, err)
		if held, queued := v.state(); len(held) != 1 || queued != 0 {
			t.Errorf("the next holder has %v; %d wait", held, queued)
		}
		if !slices.Equal(reply.Released, []string{"a"}) {
			t.Errorf("released %v", reply.Released)
		}
	})
	bubble(t, "nothing", func(t *testing.T) {
		c, m := serve(t, newVersion1(t))
		_, err := c.Release(releaseTimeout(t), leaseapi.ReleaseRequest{Owner: "job"})
		want(t, err)
		if m.dials != 0 {
			t.Error("asked all the same")
		}
	})
}

// Version 1 answers an error for a name that is free already. Somebody else has released
// the name. But if an earlier release of ours did not succeed, the release is
// unconfirmed. The names after it are released in any case.
func TestReleaseStopsAtName(t *testing.T) {
	names := leaseapi.ReleaseRequest{Names: []string{"a", "b", "c"}}
	hold := func(t *testing.T, faults ...fault) (*version1, *Client) {
		v := newVersion1(t)
		v.held = []string{"a", "c"} // b is free
		c, _ := serve(t, v, faults...)
		return v, c
	}
	bubble(t, "never released here", func(t *testing.T) {
		v, c := hold(t)
		reply, err := c.Release(releaseTimeout(t), names)
		want(t, err)
		if held, _ := v.state(); len(held) != 0 || !slices.Equal(reply.Released, []string{"a", "b", "c"}) {
			t.Errorf("%v held, released %v", held, reply.Released)
		}
	})
	unconfirmed := func(t *testing.T, err error, names ...string) {
		t.Helper()
		u, ok := errors.AsType[*UnconfirmedReleaseError](err)
		if !ok || !slices.Equal(u.Names, names) || !errors.Is(err, ErrUnconfirmed) {
			t.Errorf("error %v, want %v unconfirmed", err, names)
		}
	}
	bubble(t, "after an attempt whose answer was lost", func(t *testing.T) {
		v := newVersion1(t)
		v.held = []string{"a", "b", "c"}
		c, _ := serve(t, v, lostAnswer)
		reply, err := c.Release(releaseTimeout(t), names)
		unconfirmed(t, err, "a", "b", "c")
		if len(reply.Released) != 0 {
			t.Errorf("released %v", reply.Released)
		}
	})
	bubble(t, "forgotten by an attempt that failed", func(t *testing.T) {
		v, c := hold(t)
		v.known("b")
		v.broken, v.forgets = 1, true
		reply, err := c.Release(releaseTimeout(t), names)
		unconfirmed(t, err, "a")
		if !slices.Equal(reply.Released, []string{"b", "c"}) {
			t.Errorf("released %v", reply.Released)
		}
		_, err = c.Release(releaseTimeout(t), names)
		unconfirmed(t, err, "a") // still
	})
	bubble(t, "ours has never had it", func(t *testing.T) {
		s := newOurs(t)
		c, _ := serve(t, http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
			if r.Method == http.MethodPost {
				http.Error(w, "Failed to release lease b: no resource name: the server has never had it\nReleased: ", 500)
				return
			}
			s.ServeHTTP(w, r)
		}))
		_, err := c.Release(releaseTimeout(t), leaseapi.ReleaseRequest{Names: []string{"b"}})
		if err == nil || errors.Is(err, ErrUnconfirmed) || !strings.HasSuffix(err.Error(), `the proxy has no lease "b"`) {
			t.Errorf("error %v", err)
		}
	})
	bubble(t, "released by an earlier call", func(t *testing.T) {
		v, c := hold(t)
		v.known("b")
		_, err := c.Release(releaseTimeout(t), leaseapi.ReleaseRequest{Names: []string{"b"}})
		want(t, err)
		_, err = c.Release(releaseTimeout(t), names)
		want(t, err)
	})
	bubble(t, "an attempt that did not leave is no release", func(t *testing.T) {
		_, c := hold(t, dialRefused, resetAtOnce, fault{status: 404, body: "default backend - 404"})
		_, err := c.Release(releaseTimeout(t), names)
		want(t, err)
		if c.MayHaveReached([]string{"a", "b", "c"}) {
			t.Error("taken for attempted")
		}
	})
	bubble(t, "granted anew since", func(t *testing.T) {
		v := newVersion1(t, "a")
		c, _ := serve(t, v)
		for range 2 {
			g, err := c.Acquire(t.Context(), Request{Ask: leaseapi.Ask{Type: "t", Count: 1}})
			want(t, err)
			_, err = c.Release(releaseTimeout(t), Releasing(g.Leases, ""))
			want(t, err)
		}
		g, err := c.Acquire(t.Context(), Request{Ask: leaseapi.Ask{Type: "t", Count: 1}})
		want(t, err)
		v.mu.Lock()
		v.put("a") // by somebody else
		v.mu.Unlock()
		_, err = c.Release(releaseTimeout(t), Releasing(g.Leases, ""))
		want(t, err)
	})
	bubble(t, "not now", func(t *testing.T) {
		v, c := hold(t)
		v.known("b")
		v.broken = 2
		reply, err := c.Release(releaseTimeout(t), names)
		want(t, err)
		if held, _ := v.state(); len(held) != 0 || len(reply.Released) != 3 {
			t.Errorf("%v held, released %v after %q", held, reply.Released, v.releases)
		}
		if !slices.Equal(v.releases, []string{"a b c", "b c", "c", "a b"}) {
			t.Errorf("sent %q", v.releases)
		}
	})
	bubble(t, "not within the deadline", func(t *testing.T) {
		v, c := hold(t)
		v.broken = 1000
		_, err := c.Release(releaseTimeout(t), names)
		want(t, err, context.DeadlineExceeded)
		if !strings.Contains(err.Error(), "the store is away") {
			t.Errorf("error %v", err)
		}
	})
}

func TestStoppedAt(t *testing.T) {
	for _, tt := range []struct {
		status int
		body   string
		names  []string
		want   int
	}{
		{500, "Failed to release lease b: x, Released: a", []string{"a", "b"}, 1},
		{500, "Failed to release lease \"b\": x", []string{"a", "b"}, 1},
		{500, "Failed to release lease a:b: x", []string{"a", "a:b"}, 1},
		{500, "Failed to release lease a:b: x", []string{"a:b", "a"}, 0},
		{500, "Failed to release lease c: x", []string{"a", "b"}, -1},
		{500, "Failed to release: a", []string{"a"}, -1},
		{404, "Failed to release lease a: x", []string{"a"}, -1},
	} {
		o := outcome{answer: answer{Response: &http.Response{StatusCode: tt.status}, body: []byte(tt.body)}}
		if got := stoppedAt(o, tt.names); got != tt.want {
			t.Errorf("%d %q of %q: %d, want %d", tt.status, tt.body, tt.names, got, tt.want)
		}
	}
}

// A part of a release that a version-1 proxy ignores is an error, not a success.
func TestReleaseUnsupported(t *testing.T) {
	for name, req := range map[string]leaseapi.ReleaseRequest{
		"generation":       {Leases: []leaseapi.Lease{{Name: "a", Generation: 7}}},
		"request id":       {RequestIDs: []string{"id"}},
		"names and more":   {Names: []string{"a"}, RequestIDs: []string{"id"}},
		"names, put off":   {Names: []string{"a"}, Delay: leaseapi.Duration(time.Minute)},
		"another's answer": {RequestIDs: []string{"id"}},
	} {
		bubble(t, name, func(t *testing.T) {
			v := newVersion1(t)
			v.known("a")
			c, m := serve(t, v)
			if name == "another's answer" {
				m.add(fault{status: 200, body: `{"status":"ok"}`})
			}
			reply, err := c.Release(releaseTimeout(t), req)
			want(t, err, errors.ErrUnsupported)
			held, _ := v.state()
			if released := name == "names and more"; released != (len(held) == 0) || released != (len(reply.Released) == 1) {
				t.Errorf("%v held, released %v", held, reply.Released)
			}
		})
	}
}

// The caller gets our server's reply. A delay of bare names is sent only to our server.
func TestReleaseOurs(t *testing.T) {
	bubble(t, "stale", func(t *testing.T) {
		s := newOurs(t)
		c, _ := serve(t, s)
		stale := leaseapi.Lease{Name: "a", Generation: 6}
		s.grants["id"] = []leaseapi.Lease{{Name: "a", Generation: 7}}
		reply, err := c.Release(releaseTimeout(t), leaseapi.ReleaseRequest{Leases: []leaseapi.Lease{stale}})
		want(t, err)
		if len(reply.Released) != 0 || len(reply.Stale) != 1 || reply.Stale[0].Lease != stale {
			t.Errorf("reply %+v", reply)
		}
	})
	bubble(t, "delay", func(t *testing.T) {
		s := newOurs(t)
		c, _ := serve(t, s)
		delay := leaseapi.Duration(time.Minute)
		_, err := c.Release(releaseTimeout(t), leaseapi.ReleaseRequest{Names: []string{"a"}, Owner: "job",
			Leases: []leaseapi.Lease{{Name: "b", Generation: 1}}, Delay: delay})
		want(t, err)
		if len(s.released) != 2 || s.released[0].Delay != delay || s.released[1].Delay != delay || s.released[1].Owner != "job" {
			t.Errorf("sent %+v", s.released)
		}
	})
}

func TestReleasing(t *testing.T) {
	r := Releasing([]leaseapi.Lease{{Name: "a"}, {Name: "b", Generation: 2}}, "job")
	if fmt.Sprint(r) != fmt.Sprint(leaseapi.ReleaseRequest{Names: []string{"a"}, Leases: []leaseapi.Lease{{Name: "b", Generation: 2}}, Owner: "job"}) {
		t.Errorf("got %+v", r)
	}
}
