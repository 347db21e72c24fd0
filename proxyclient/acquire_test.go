package proxyclient

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"net/http"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/leasectl/leasectl/leaseapi"
)

// bubble runs f as a subtest in a synctest bubble. The subtest fails if a goroutine of
// the client is left behind.
func bubble(t *testing.T, name string, f func(t *testing.T)) {
	t.Helper()
	t.Run(name, func(t *testing.T) { synctest.Test(t, f) })
}

// want checks that err matches all of the given errors; without any it must be nil.
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

// Several faults in a row are each handled for what they are.
func TestAcquireFaults(t *testing.T) {
	nothing := fault{status: 500, body: `Failed to acquire lease "t": resources not found`}
	bubble(t, "an attempt that did not leave, after one that did", func(t *testing.T) {
		c, _ := serve(t, newVersion1(t, "a"), nothing, dialRefused, resetAtOnce)
		_, err := c.Acquire(t.Context(), Request{Ask: leaseapi.Ask{Type: "t", Count: 1}, Wait: time.Minute})
		want(t, err)
	})
	bubble(t, "the kind of the proxy is asked for once", func(t *testing.T) {
		h := &counting{Handler: newOurs(t, "a")}
		c, _ := serve(t, h, badGateway, fault{}, badGateway, badGateway)
		_, err := c.Acquire(t.Context(), Request{Ask: leaseapi.Ask{Type: "t", Count: 1}, Wait: time.Minute})
		want(t, err)
		if h.asked != 1 {
			t.Errorf("asked %d times", h.asked)
		}
	})
}

// A 404 of a gateway before a server that is known to be ours may pass, like a 502.
func TestAcquireMisrouted(t *testing.T) {
	bubble(t, "queued", func(t *testing.T) {
		s := newOurs(t)
		lost := fault{status: 404, body: "default backend - 404"}
		c, _ := serve(t, s, fault{}, lost, lost)
		s.freeAfter(time.Minute, "a")
		_, err := c.Acquire(t.Context(), Request{Ask: leaseapi.Ask{Type: "t", Count: 1}, Wait: time.Hour})
		want(t, err)
		_, err = c.Acquire(t.Context(), Request{Ask: leaseapi.Ask{Type: "none", Count: 1}, Wait: time.Hour})
		want(t, err, ErrUnknownType)
	})
}

func problemFault(code int, typ string) fault {
	return fault{status: code, body: fmt.Sprintf(`{"type":%q}`, typ),
		header: http.Header{"Content-Type": {leaseapi.ContentTypeProblem}}}
}

// Whatever goes wrong, and whenever: the client says of each lease that is held
// afterwards that it is held or may be held, and no request is granted twice.
func TestAcquireRandomFaults(t *testing.T) {
	faults := []fault{{}, {}, dialRefused, resetAtOnce, resetInside, lostRequest, lostAnswer, halfAnAnswer, endlessAnswer, stalledAnswer,
		otherLanguage, hanging, garbage, garbageDone, htmlPage, badGateway, gatewayDone, status(500), status(503), status(429),
		status(503).after("7"), status(502).after("3600"), status(429).after("Sat, 01 Jan 2000 00:01:00 GMT")}
	for seed := range uint64(300) {
		rnd := rand.New(rand.NewPCG(seed, 1))
		var script []fault
		for range 1 + rnd.IntN(8) {
			script = append(script, faults[rnd.IntN(len(faults))])
		}
		count, wait := 1+rnd.IntN(3), time.Duration(rnd.IntN(120))*time.Second
		patience := time.Duration(1+rnd.IntN(150)) * time.Second
		busy := rnd.IntN(2) == 0 // no name is free at first
		bubble(t, fmt.Sprintf("version 1/seed %d", seed), func(t *testing.T) {
			v := newVersion1(t, "a", "b", "c")
			if busy {
				v.held, v.free = v.free, nil
				time.AfterFunc(40*time.Second+time.Second/2, func() {
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
			begun := time.Now()
			g, err := c.Acquire(ctx, Request{Ask: leaseapi.Ask{Type: "t", Count: count}, Wait: wait})
			checkTook(t, time.Since(begun), min(wait, patience), err)
			time.Sleep(time.Minute) // until the busy names are free
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
			begun := time.Now()
			g, err := c.Acquire(ctx, Request{Ask: leaseapi.Ask{Type: "t", Count: count}, RequestID: "id", Wait: wait})
			checkTook(t, time.Since(begun), min(wait, patience), err)
			time.Sleep(time.Minute)
			held, queued := s.state()
			checkHeld(t, g, err, held, count, queued)
			if s.granted["id"] > 1 {
				t.Errorf("granted %d times", s.granted["id"])
			}
		})
	}
}

// checkTook checks that an acquire took no longer than its wait, the time for a last
// answer, and the time to give back.
func checkTook(t *testing.T, took, wait time.Duration, err error) {
	t.Helper()
	most := wait + answerTime + cancelTime
	if errors.Is(err, ErrUnconfirmed) {
		most = wait + answerTime + releaseTime // a grant that it could not give back
	}
	if took > most {
		t.Errorf("took %s of a wait of %s: %v", took, wait, err)
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

// A refusal by something on the way says nothing about an earlier attempt, whose answer was lost: what that
// took is given back.
func TestAcquireRefusedAfterALostAnswer(t *testing.T) {
	bubble(t, "", func(t *testing.T) {
		s := newOurs(t, "a")
		c, _ := serve(t, s, fault{}, lostAnswer, fault{status: 400, body: "400 Bad Request"})
		_, err := c.Capabilities(t.Context())
		want(t, err)
		taken := false
		_, err = c.Acquire(t.Context(), Request{Ask: leaseapi.Ask{Type: "t", Count: 1}, Wait: time.Minute, OnTaken: func() { taken = true }})
		if err == nil || !strings.Contains(err.Error(), "400 Bad Request") {
			t.Errorf("error %v, want the refusal", err)
		}
		if held, _ := s.state(); held > 0 || !taken {
			t.Errorf("%d held; taken: %v", held, taken)
		}
	})
}

// The error about an unknown type comes soon, even if the proxy then does not answer the
// question what it can do.
func TestUnknownTypeOfSilentProxy(t *testing.T) {
	bubble(t, "", func(t *testing.T) {
		unknown := fault{status: 404, body: `Failed to acquire lease "t": resource type not found`}
		c, _ := serve(t, newVersion1(t), unknown, hanging, hanging)
		begun := time.Now()
		_, err := c.Acquire(t.Context(), Request{Ask: leaseapi.Ask{Type: "t", Count: 1}, Wait: time.Hour})
		want(t, err, ErrUnknownType)
		if took := time.Since(begun); took > cancelTime {
			t.Errorf("took %s", took)
		}
	})
}

// What answers in the place of a server of ours did not take a request back.
func TestWithdrawalOfAnother(t *testing.T) {
	bubble(t, "", func(t *testing.T) {
		s := newOurs(t)
		c, _ := serve(t, http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
			if r.URL.Path == leaseapi.PathRelease {
				fmt.Fprint(w, "OK")
				return
			}
			s.ServeHTTP(w, r)
		}))
		_, err := c.Capabilities(t.Context())
		want(t, err)
		ctx, cancel := context.WithTimeout(t.Context(), time.Second)
		defer cancel()
		_, err = c.Acquire(ctx, hour)
		want(t, err, ErrUnconfirmed, context.DeadlineExceeded)
		if _, queued := s.state(); queued != 1 {
			t.Errorf("%d queued", queued)
		}
	})
}
