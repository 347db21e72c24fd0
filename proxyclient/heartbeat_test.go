package proxyclient

import (
	"cmp"
	"context"
	"errors"
	"io"
	"net/http"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/leasectl/leasectl/leaseapi"
)

var leases = []leaseapi.Lease{{Name: "a", Generation: 7}}

func (s *ours) renewed() int {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.renews
}

// beating is a running Heartbeat.
type beating struct {
	*Heartbeat
	cancel  context.CancelCauseFunc
	start   time.Time
	done    chan error
	retries []error
	renewed []Renewal
}

var errStopped = errors.New("stopped")

func beatOn(t *testing.T, h *Heartbeat) *beating {
	ctx, cancel := context.WithCancelCause(t.Context())
	b := &beating{Heartbeat: h, cancel: cancel, start: time.Now(), done: make(chan error, 1)}
	h.OnRetry = func(err error) { b.retries = append(b.retries, err) }
	h.OnRenew = func(r Renewal) { b.renewed = append(b.renewed, r) }
	go func() { b.done <- h.Run(ctx) }()
	t.Cleanup(func() { cancel(errStopped) })
	return b
}

func (b *beating) stop(t *testing.T) {
	t.Helper()
	b.cancel(errStopped)
	want(t, <-b.done, errStopped)
}

// lost waits for the end of the heartbeat, and checks its time and its error.
func (b *beating) lost(t *testing.T, after time.Duration) *LostError {
	t.Helper()
	err := <-b.done
	want(t, err, ErrLost)
	if d := time.Since(b.start); d != after {
		t.Errorf("lost after %s, want %s: %v", d, after, err)
	}
	l, _ := errors.AsType[*LostError](err)
	return l
}

func TestHeartbeat(t *testing.T) {
	const margin = 12 * time.Second
	bubble(t, "renews at once and every half minute", func(t *testing.T) {
		newMachine(t)
		s := newOurs(t)
		c, _ := serve(t, s)
		b := beatOn(t, &Heartbeat{Client: c, Leases: leases, Margin: margin})
		time.Sleep(1001 * time.Second)
		b.stop(t)
		if len(b.renewed) != 34 || s.renewed() != 34 || len(b.retries) != 0 {
			t.Errorf("%d renewals, %d retries in 1000s", len(b.renewed), len(b.retries))
		}
		if r := b.renewed[0]; r.Deadline.Sub(r.Asked) != 5*time.Minute || r.RenewEvery != leaseapi.MaxRenewEvery {
			t.Errorf("renewal %+v", r)
		}
	})
	bubble(t, "retries a failed renewal soon", func(t *testing.T) {
		newMachine(t)
		s := newOurs(t)
		c, _ := serve(t, s, fault{}, badGateway, lostAnswer, dialRefused, hanging, fault{status: 404, body: "<html>"}, status(401), fault{status: 410, body: "gone"})
		b := beatOn(t, &Heartbeat{Client: c, Leases: leases, Margin: margin})
		time.Sleep(60 * time.Second)
		b.stop(t)
		if len(b.renewed) != 2 || len(b.retries) != 7 {
			t.Errorf("%d renewals, retries %v", len(b.renewed), b.retries)
		}
	})
	bubble(t, "a pause that is asked for is kept, as far as the lease can bear", func(t *testing.T) {
		newMachine(t)
		s := newOurs(t)
		c, m := serve(t, s, fault{}, status(503).after("20"), status(503).after("3600"))
		b := beatOn(t, &Heartbeat{Client: c, Leases: leases, Margin: margin})
		time.Sleep(leaseapi.MaxRenewEvery + 19*time.Second)
		if n := m.dialled(); n != 2 {
			t.Errorf("%d attempts within the pause", n)
		}
		time.Sleep(5*time.Minute - margin - leaseapi.MaxRenewEvery - 19*time.Second) // when the lease would be lost
		b.stop(t)
		if s.renewed() < 2 || len(b.retries) != 2 {
			t.Errorf("%d renewals, %d retries", s.renewed(), len(b.retries))
		}
	})
	bubble(t, "no renewal in time", func(t *testing.T) {
		newMachine(t)
		c, m := serve(t, newOurs(t))
		b := beatOn(t, &Heartbeat{Client: c, Leases: leases, Margin: margin})
		time.Sleep(time.Second)
		c.Close()
		m.Close()
		l := b.lost(t, 5*time.Minute-margin)
		if len(l.Lost) != 0 || Until(l.Deadline) != margin || !strings.Contains(l.Error(), "connection refused") {
			t.Errorf("%s before the deadline: %v", Until(l.Deadline), l)
		}
	})
	bubble(t, "a proxy that hangs", func(t *testing.T) {
		newMachine(t)
		c, _ := serve(t, http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
			io.Copy(io.Discard, r.Body)
			<-r.Context().Done()
		}))
		b := beatOn(t, &Heartbeat{Client: c, Leases: leases, Deadline: Now().Add(time.Minute), Margin: margin})
		b.lost(t, time.Minute-margin)
	})
	bubble(t, "the proxy says so", func(t *testing.T) {
		newMachine(t)
		s := newOurs(t)
		c, _ := serve(t, s)
		b := beatOn(t, &Heartbeat{Client: c, Leases: leases, Margin: margin})
		time.Sleep(time.Second)
		s.mu.Lock()
		s.lost = []leaseapi.Lost{{Lease: leases[0], Reason: "broken by an operator"}}
		s.mu.Unlock()
		l := b.lost(t, leaseapi.MaxRenewEvery)
		if !slices.Equal(l.Lost, s.lost) || !l.Deadline.IsZero() || !strings.Contains(l.Error(), `"a" (broken by an operator)`) {
			t.Errorf("lost %+v: %v", l.Lost, l)
		}
	})
	bubble(t, "a margin longer than half the time leaves half", func(t *testing.T) {
		newMachine(t)
		s := newOurs(t)
		s.ttl = 9 * time.Second
		c, m := serve(t, s)
		b := beatOn(t, &Heartbeat{Client: c, Leases: leases, Margin: margin})
		time.Sleep(31 * time.Second)
		c.Close()
		m.Close()
		b.lost(t, 30*time.Second+4500*time.Millisecond)
	})
	bubble(t, "a grant that is nearly over is confirmed", func(t *testing.T) {
		newMachine(t)
		c, _ := serve(t, newOurs(t))
		b := beatOn(t, &Heartbeat{Client: c, Leases: leases, Deadline: Now().Add(2 * time.Second), Margin: margin})
		time.Sleep(time.Minute)
		b.stop(t)
	})
	bubble(t, "without a deadline a grant is taken for provisional", func(t *testing.T) {
		newMachine(t)
		c, m := serve(t, newOurs(t))
		m.Close()
		b := beatOn(t, &Heartbeat{Client: c, Leases: leases, Margin: margin})
		b.lost(t, leaseapi.ProvisionalTTL-margin)
	})
	bubble(t, "stopped while a renewal is under way", func(t *testing.T) {
		newMachine(t)
		c, _ := serve(t, newOurs(t), hanging)
		b := beatOn(t, &Heartbeat{Client: c, Leases: leases})
		time.Sleep(time.Second)
		b.stop(t)
	})
	bubble(t, "returns only when its renewal has ended", func(t *testing.T) {
		newMachine(t)
		c, m := serve(t, newOurs(t))
		m.Close()
		told := false
		h := &Heartbeat{Client: c, Leases: leases, OnRetry: func(error) {
			time.Sleep(5 * time.Second)
			told = true
		}}
		ctx, cancel := context.WithTimeout(t.Context(), time.Second)
		defer cancel()
		want(t, h.Run(ctx), context.DeadlineExceeded)
		if !told {
			t.Error("it returned before")
		}
	})
	bubble(t, "version 1", func(t *testing.T) {
		c, m := serve(t, newVersion1(t))
		err := (&Heartbeat{Client: c, Leases: []leaseapi.Lease{{Name: "a"}}}).Run(t.Context())
		want(t, err, errors.ErrUnsupported)
		_, err = c.Renew(t.Context(), []leaseapi.Lease{{Name: "a"}}, 0)
		want(t, err, errors.ErrUnsupported)
		_, err = c.Renew(t.Context(), nil, 0)
		if err == nil || m.dials != 0 {
			t.Errorf("%v after %d dials", err, m.dials)
		}
	})
}

// A renewal that was answered in time counts, even if the loop sees the answer only
// after the limit. A renewal that was answered late does not count.
func TestHeartbeatAnsweredInTime(t *testing.T) {
	for _, tt := range []struct {
		name string
		left time.Duration
		done bool
	}{{"in time", time.Minute, false}, {"too late", -time.Minute, true}} {
		t.Run(tt.name, func(t *testing.T) {
			past := Now().Add(-time.Second)
			l := heartbeatLoop{Heartbeat: &Heartbeat{}, schedule: newSchedule(past, 0), running: make(chan renewalResult, 1), cancel: func(error) {}}
			l.running <- renewalResult{renewal: Renewal{TTL: time.Minute, Asked: Now(), Deadline: Now().Add(tt.left)}}
			if err := l.atLimit(); errors.Is(err, ErrLost) != tt.done || (err != nil) != tt.done {
				t.Errorf("error %v", err)
			}
		})
	}
}

// A lease with a delayed release is lost a margin before that is due, so that its users can stop before
// somebody else has it; or when the proxy says that it has ended.
func TestHeartbeatDelayedRelease(t *testing.T) {
	const margin, due = time.Minute, 10 * time.Minute
	for _, tt := range []struct {
		name string
		skew time.Duration // of the proxy's clock
		gone bool          // the proxy is gone at the end
		lost string        // why the lease is lost before the release is due
	}{
		{name: "due"},
		{name: "due, by a clock that is wrong", skew: -3 * time.Hour},
		{name: "due, and the proxy is gone", gone: true},
		{name: "carried out already", lost: leaseapi.ReasonReleased},
		{name: "broken", lost: "broken"},
	} {
		bubble(t, tt.name, func(t *testing.T) {
			newMachine(t)
			s := newOurs(t)
			s.release = time.Now().Add(tt.skew + due)
			reason := cmp.Or(tt.lost, "released late, at "+time.Now().Add(due).Format(time.TimeOnly))
			c, m := serve(t, http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
				w.Header().Set("Date", time.Now().Add(tt.skew).UTC().Format(http.TimeFormat))
				s.ServeHTTP(w, r)
			}))
			b := beatOn(t, &Heartbeat{Client: c, Leases: leases, Margin: margin})
			time.Sleep(8 * time.Minute)
			if tt.gone {
				c.Close()
				m.Close()
			}
			want, left := due-margin, margin
			if tt.lost != "" {
				s.mu.Lock()
				s.lost = []leaseapi.Lost{{Lease: leases[0], Reason: tt.lost}}
				s.mu.Unlock()
				want, left = 8*time.Minute, 0 // with the next renewal
			}
			l := b.lost(t, want)
			if !slices.Equal(l.Lost, []leaseapi.Lost{{Lease: leases[0], Reason: reason}}) {
				t.Errorf("lost %v, want the reason %s", l, reason)
			}
			if left > 0 && Until(l.Deadline) != left || left == 0 && !l.Deadline.IsZero() {
				t.Errorf("%s are left, want %s", Until(l.Deadline), left)
			}
		})
	}
}
