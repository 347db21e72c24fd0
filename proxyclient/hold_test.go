package proxyclient

import (
	"context"
	"errors"
	"net/http"
	"runtime"
	"testing"
	"time"

	"github.com/leasectl/leasectl/leaseapi"
)

var oneOfT = Request{Ask: leaseapi.Ask{Type: "t", Count: 1}, Owner: "job", RequestID: "id"}

// onMachine runs f as [bubble] does, on a machine that is never suspended.
func onMachine(t *testing.T, name string, f func(t *testing.T)) {
	t.Helper()
	bubble(t, name, func(t *testing.T) {
		newMachine(t)
		f(t)
	})
}

// wantFree checks that nothing is held nor waited for.
func wantFree(t *testing.T, s *ours) {
	t.Helper()
	if held, queued := s.state(); held+queued > 0 {
		t.Errorf("%d held, %d wait", held, queued)
	}
}

func TestHold(t *testing.T) {
	onMachine(t, "waits, and begins when the grant is confirmed", func(t *testing.T) {
		s := newOurs(t)
		c, _ := serve(t, s)
		s.freeAfter(time.Hour, "a")
		start := time.Now()
		err := c.Hold(t.Context(), oneOfT, func(ctx context.Context, g *Grant) error {
			if took, renewed := time.Since(start), s.renewed(); took != time.Hour || renewed != 1 || g.Leases[0].Name != "a" {
				t.Errorf("began after %v, %d renewals, with %+v", took, renewed, g)
			}
			time.Sleep(time.Hour) // as many TTLs
			if held, _ := s.state(); held != 1 || ctx.Err() != nil {
				t.Errorf("%d held, context %v", held, context.Cause(ctx))
			}
			return errors.ErrUnsupported
		})
		if err != errors.ErrUnsupported {
			t.Errorf("error %v, want that of the function as it is", err)
		}
		if ttl := time.Duration(s.acquires[0].TTL); ttl != 5*time.Minute {
			t.Errorf("asked for a TTL of %s", ttl)
		}
		wantFree(t, s)
	})
	onMachine(t, "the context ends while it waits", func(t *testing.T) {
		s := newOurs(t)
		c, _ := serve(t, s)
		ctx, cancel := context.WithTimeout(t.Context(), 2*time.Second)
		defer cancel()
		want(t, c.Hold(ctx, oneOfT, nil), context.DeadlineExceeded)
		wantFree(t, s)
	})
	onMachine(t, "the wait ends", func(t *testing.T) {
		c, _ := serve(t, newOurs(t))
		r := oneOfT
		r.Wait = time.Minute
		want(t, c.Hold(t.Context(), r, nil), ErrExhausted)
	})
	onMachine(t, "the context ends before the grant is confirmed", func(t *testing.T) {
		s := newOurs(t, "a")
		c, _ := serve(t, s, fault{}, fault{hang: true})
		ctx, cancel := context.WithTimeout(t.Context(), time.Second)
		defer cancel()
		want(t, c.Hold(ctx, oneOfT, nil), context.DeadlineExceeded)
		wantFree(t, s)
	})
	onMachine(t, "the context ends, and the work goes on", func(t *testing.T) {
		s := newOurs(t, "a")
		c, _ := serve(t, s)
		ctx, cancel := context.WithCancel(t.Context())
		err := c.Hold(ctx, oneOfT, func(work context.Context, _ *Grant) error {
			cancel()
			<-work.Done()
			time.Sleep(time.Hour)
			if renewed := s.renewed(); renewed < 30 {
				t.Errorf("renewed %d times", renewed)
			}
			return context.Cause(work)
		})
		want(t, err, context.Canceled)
		wantFree(t, s)
	})
	onMachine(t, "a panic, and the end of the goroutine", func(t *testing.T) {
		s := newOurs(t, "a")
		c, _ := serve(t, s)
		for _, end := range []func(){func() { panic("at work") }, runtime.Goexit} {
			ended, said := make(chan any), any(nil)
			r := oneOfT
			r.RequestID = ""
			go func() {
				defer func() { said = recover(); close(ended) }()
				c.Hold(t.Context(), r, func(context.Context, *Grant) error { end(); return nil })
			}()
			<-ended
			if said != nil && said != "at work" {
				t.Errorf("panics with %v", said)
			}
			wantFree(t, s)
		}
	})
	onMachine(t, "a version-1 proxy", func(t *testing.T) {
		s := &version1{t: t, free: []string{"a"}}
		c, _ := serve(t, s)
		want(t, c.Hold(t.Context(), Request{Ask: leaseapi.Ask{Type: "t", Count: 1}}, func(context.Context, *Grant) error {
			time.Sleep(time.Hour)
			return nil
		}))
		if len(s.free) != 1 {
			t.Errorf("free are %v", s.free)
		}
	})
	onMachine(t, "a request that coalesces", func(t *testing.T) {
		s := newOurs(t, "a")
		c, _ := serve(t, s)
		r := oneOfT
		r.Key, r.Coalesce = "k", leaseapi.CoalesceOnce
		want(t, c.Hold(t.Context(), r, nil), errors.ErrUnsupported)
		if len(s.acquires) > 0 {
			t.Error("it was sent")
		}
	})
}

// However the leases are lost, the work hears it by its context, and the caller by the error.
func TestHoldLost(t *testing.T) {
	lease := leaseapi.Lease{Name: "a", Generation: 1001}
	for name, lose := range map[string]func(s *ours, m *memory){
		"broken":   func(s *ours, _ *memory) { s.lost = []leaseapi.Lost{{Lease: lease, Reason: leaseapi.ReasonBroken}} },
		"released": func(s *ours, _ *memory) { s.release = time.Now().Add(10 * time.Minute) },
		"silence": func(_ *ours, m *memory) {
			for range 1000 {
				m.faults = append(m.faults, fault{hang: true})
			}
		},
	} {
		onMachine(t, name, func(t *testing.T) {
			s := newOurs(t, "a")
			c, m := serve(t, s, fault{}, fault{}) // each attempt dials
			var stopped time.Time
			err := c.Hold(t.Context(), oneOfT, func(work context.Context, _ *Grant) error {
				s.mu.Lock()
				m.mu.Lock()
				lose(s, m)
				m.mu.Unlock()
				s.mu.Unlock()
				<-work.Done()
				if _, ok := errors.AsType[*LostError](context.Cause(work)); !ok {
					t.Errorf("the cause is %v", context.Cause(work))
				}
				time.Sleep(holdMargin - 2*time.Second)
				stopped = time.Now()
				return nil
			})
			want(t, err, ErrLost)
			if took := time.Since(stopped); took > 2*time.Second {
				t.Errorf("ended %v after the work", took)
			}
		})
	}
	onMachine(t, "the work fails, too", func(t *testing.T) {
		s := newOurs(t, "a")
		c, _ := serve(t, s)
		for _, failure := range []error{context.Canceled, errors.ErrUnsupported} {
			s.lost, s.ended = nil, map[string]bool{}
			err := c.Hold(t.Context(), oneOfT, func(work context.Context, _ *Grant) error {
				s.mu.Lock()
				for _, l := range s.grants["id"] {
					s.lost = append(s.lost, leaseapi.Lost{Lease: l, Reason: leaseapi.ReasonBroken})
				}
				s.end("id")
				s.mu.Unlock()
				<-work.Done()
				return failure
			})
			want(t, err, ErrLost)
			if errors.Is(err, failure) != (failure == errors.ErrUnsupported) { // that the work was cancelled says no more
				t.Errorf("error %v", err)
			}
		}
	})
	onMachine(t, "it shows in the release alone", func(t *testing.T) {
		s := newOurs(t, "a")
		c, _ := serve(t, s)
		want(t, c.Hold(t.Context(), oneOfT, func(context.Context, *Grant) error {
			s.mu.Lock()
			defer s.mu.Unlock()
			s.end("id")
			return nil
		}), ErrLost)
	})
}

// Work that is done is not done again because its lease could not be given back.
func TestHoldNotReleased(t *testing.T) {
	onMachine(t, "", func(t *testing.T) {
		s := newOurs(t, "a")
		c, m := serve(t, s)
		start := time.Now()
		err := c.Hold(t.Context(), oneOfT, func(context.Context, *Grant) error {
			m.mu.Lock()
			defer m.mu.Unlock()
			for range 100 {
				m.faults = append(m.faults, fault{status: http.StatusInternalServerError})
			}
			return errors.ErrUnsupported
		})
		want(t, err, errors.ErrUnsupported)
		left, ok := errors.AsType[*NotReleasedError](err)
		if took := time.Since(start); !ok || len(left.Leases) != 1 || took > releaseTime+time.Second {
			t.Errorf("error %v after %v", err, took)
		}
	})
}
