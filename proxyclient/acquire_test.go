package proxyclient

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"net/http"
	"testing"
	"testing/synctest"
	"time"

	"github.com/leasectl/leasectl/leaseapi"
)

// bubble runs f as a subtest in a synctest bubble; it fails if a goroutine of
// the client is left behind.
func bubble(t *testing.T, name string, f func(t *testing.T)) {
	t.Helper()
	t.Run(name, func(t *testing.T) { synctest.Test(t, f) })
}

// want checks that err is all of the given errors; none means no error.
func want(t *testing.T, err error, all ...error) {
	t.Helper()
	if (err == nil) != (len(all) == 0) {
		t.Fatalf("error %v, want %v", err, all)
	}
	for _, w := range all {
		if !errors.Is(err, w) {
			t.Fatalf("error %q is not %q", err, w)
		}
	}
}

// What one fault makes of an acquire that would succeed at once.
func TestAcquireFault(t *testing.T) {
	type fate struct {
		err  error // nil: granted
		held int   // afterwards, whatever the client says
	}
	granted := fate{held: 1}
	unconfirmed := func(held int) fate { return fate{ErrUnconfirmed, held} }
	for _, tt := range []struct {
		name string
		f    fault
		v1   fate
		ours fate
	}{
		{"none", fault{}, granted, granted},
		{"refused", dialRefused, granted, granted},
		{"reset before the request is written", resetAtOnce, granted, granted},
		{"reset while it is written", resetInside, unconfirmed(0), granted},
		{"reset after it was read", lostRequest, unconfirmed(0), granted},
		{"answer lost", lostAnswer, unconfirmed(1), granted},
		{"half an answer", halfAnAnswer, unconfirmed(1), granted},
		{"endless answer", endlessAnswer, unconfirmed(0), granted},
		{"answer that stalls", stalledAnswer, unconfirmed(1), granted},
		{"garbage", garbage, unconfirmed(0), granted},
		{"not HTTP", otherLanguage, unconfirmed(0), granted},
		{"garbage for a grant", garbageDone, unconfirmed(1), granted},
		{"HTML page", htmlPage, unconfirmed(0), granted},
		{"JSON of something else", fault{status: 200, body: `{"status":"ok"}`}, unconfirmed(0), granted},
		{"500", status(500), unconfirmed(0), granted},
		{"502", badGateway, unconfirmed(0), granted},
		{"503", status(503), unconfirmed(0), granted},
		{"504 for a grant", gatewayDone, unconfirmed(1), granted},
		{"429", status(429), fate{errAny, 0}, granted},
		{"202 of another request", fault{status: 202, body: `{"request_id":"other"}`}, unconfirmed(0), granted},
		{"no content", fault{status: 204}, unconfirmed(0), granted},
		{"the proxy's word that there is nothing", fault{status: 500, body: `Failed to acquire lease "t": resources not found`}, granted, granted},
		{"its word that it could not", fault{status: 500, body: `Failed to acquire lease "t": the store is away`}, granted, granted},
		{"400", status(400), fate{errAny, 0}, fate{errAny, 0}},
		{"401", status(401), fate{errAny, 0}, fate{errAny, 0}},
		{"404 of something else", fault{status: 404, body: "<html>not found</html>"}, fate{errAny, 0}, fate{errAny, 0}},
		{"unknown type", fault{status: 404, body: `Failed to acquire lease "t": resource type not found`}, fate{ErrUnknownType, 0}, fate{ErrUnknownType, 0}},
		{"redirect", fault{status: 307, header: http.Header{"Location": {"https://elsewhere.test/"}}}, fate{errAny, 0}, fate{errAny, 0}},
		{"ended", problemFault(410, leaseapi.ProblemEnded), fate{ErrEnded, 0}, fate{ErrEnded, 0}},
		{"queue full", problemFault(503, leaseapi.ProblemQueueFull), unconfirmed(0), granted},
	} {
		check := func(t *testing.T, c *Client, f fate, held func() int) {
			g, err := c.Acquire(t.Context(), Request{Type: "t", Count: 1, Wait: time.Minute})
			switch {
			case f.err == nil && (err != nil || len(g.Leases) != 1):
				t.Fatalf("got %v, %v", g, err)
			case f.err == errAny && (err == nil || errors.Is(err, ErrUnconfirmed)):
				t.Fatalf("error %v, want one that is certain", err)
			case f.err != nil && f.err != errAny:
				want(t, err, f.err)
			}
			synctest.Wait()
			if h := held(); h != f.held {
				t.Errorf("%d held, want %d (%v)", h, f.held, err)
			}
		}
		bubble(t, tt.name+"/version 1", func(t *testing.T) {
			v := newVersion1(t, "a", "b")
			c, _ := serve(t, v, tt.f)
			check(t, c, tt.v1, func() int { h, _ := v.state(); return len(h) })
		})
		bubble(t, tt.name+"/ours", func(t *testing.T) {
			s := newOurs(t, "a", "b")
			c, _ := serve(t, s, tt.f)
			check(t, c, tt.ours, func() int { h, _ := s.state(); return h })
		})
	}
}

// Faults one after another are told apart.
func TestAcquireFaults(t *testing.T) {
	nothing := fault{status: 500, body: `Failed to acquire lease "t": resources not found`}
	bubble(t, "an attempt that did not leave, after one that did", func(t *testing.T) {
		c, _ := serve(t, newVersion1(t, "a"), nothing, dialRefused, resetAtOnce)
		_, err := c.Acquire(t.Context(), Request{Type: "t", Count: 1, Wait: time.Minute})
		want(t, err)
	})
	bubble(t, "the kind of the proxy is asked for once", func(t *testing.T) {
		asked := 0
		s := newOurs(t, "a")
		c, _ := serve(t, http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
			if r.Method == http.MethodGet {
				asked++
			}
			s.ServeHTTP(w, r)
		}), badGateway, fault{}, badGateway, badGateway)
		_, err := c.Acquire(t.Context(), Request{Type: "t", Count: 1, Wait: time.Minute})
		want(t, err)
		if asked != 1 {
			t.Errorf("asked %d times", asked)
		}
	})
}

// A 404 of something before a server that is known to be ours may pass, as its
// 502 may.
func TestAcquireMisrouted(t *testing.T) {
	bubble(t, "queued", func(t *testing.T) {
		s := newOurs(t)
		lost := fault{status: 404, body: "default backend - 404"}
		c, _ := serve(t, s, fault{}, lost, lost)
		s.freeAfter(time.Minute, "a")
		_, err := c.Acquire(t.Context(), Request{Type: "t", Count: 1, Wait: time.Hour})
		want(t, err)
		_, err = c.Acquire(t.Context(), Request{Type: "none", Count: 1, Wait: time.Hour})
		want(t, err, ErrUnknownType)
	})
}

// errAny stands for an error that is not unconfirmed.
var errAny = errors.New("any")

func problemFault(code int, typ string) fault {
	return fault{status: code, body: fmt.Sprintf(`{"type":%q}`, typ),
		header: http.Header{"Content-Type": {leaseapi.ContentTypeProblem}}}
}

// Whatever goes wrong, and whenever: what is held afterwards is what the client
// says is held, or says that it may be; and no request is granted twice.
func TestAcquireRandomFaults(t *testing.T) {
	faults := []fault{{}, {}, dialRefused, resetAtOnce, resetInside, lostRequest, lostAnswer, halfAnAnswer, endlessAnswer, stalledAnswer,
		otherLanguage, hanging, garbage, garbageDone, htmlPage, badGateway, gatewayDone, status(500), status(503), status(429),
		{status: 503, header: http.Header{"Retry-After": {"7"}}}}
	for seed := range uint64(300) {
		rnd := rand.New(rand.NewPCG(seed, 1))
		var script []fault
		for range 1 + rnd.IntN(8) {
			script = append(script, faults[rnd.IntN(len(faults))])
		}
		count, wait := 1+rnd.IntN(3), time.Duration(rnd.IntN(120))*time.Second
		patience := time.Duration(1+rnd.IntN(150)) * time.Second
		busy := rnd.IntN(2) == 0 // nothing is free at first
		bubble(t, fmt.Sprintf("version 1/seed %d", seed), func(t *testing.T) {
			v := newVersion1(t, "a", "b", "c")
			if busy {
				v.held, v.free = v.free, nil
				time.AfterFunc(40*time.Second, func() {
					v.mu.Lock()
					defer v.mu.Unlock()
					for _, n := range []string{"a", "b", "c"} {
						v.put(n)
					}
				})
			}
			c, _ := serve(t, v, script...)
			ctx, cancel := context.WithTimeout(t.Context(), patience)
			defer cancel()
			g, err := c.Acquire(ctx, Request{Type: "t", Count: count, Wait: wait})
			time.Sleep(time.Minute) // the holder of the busy ones has gone
			held, queued := v.state()
			checkHeld(t, g, err, len(held), count, queued)
		})
		bubble(t, fmt.Sprintf("ours/seed %d", seed), func(t *testing.T) {
			s := newOurs(t)
			if !busy {
				s.free = []string{"a", "b", "c"}
			} else {
				s.freeAfter(40*time.Second, "a", "b", "c")
			}
			c, _ := serve(t, s, script...)
			ctx, cancel := context.WithTimeout(t.Context(), patience)
			defer cancel()
			g, err := c.Acquire(ctx, Request{Type: "t", Count: count, RequestID: "id", Wait: wait})
			time.Sleep(time.Minute)
			held, queued := s.state()
			checkHeld(t, g, err, held, count, queued)
			if s.granted["id"] > 1 {
				t.Errorf("granted %d times", s.granted["id"])
			}
		})
	}
}

func checkHeld(t *testing.T, g *Grant, err error, held, count, queued int) {
	t.Helper()
	switch {
	case err == nil && (held != count || len(g.Leases) != count):
		t.Errorf("%d held after a grant of %d", held, len(g.Leases))
	case err != nil && held > unknown(err):
		t.Errorf("%d held, but %v", held, err)
	case queued != 0 && !errors.Is(err, ErrUnconfirmed):
		t.Errorf("%d still queued after %v", queued, err)
	}
}
