package holder

import (
	"context"
	"errors"
	"net/http"
	"os"
	"testing"
	"time"

	"github.com/leasectl/leasectl/internal/holder/cleanup"
	"github.com/leasectl/leasectl/internal/holder/holdertest"
	"github.com/leasectl/leasectl/leaseapi"
	"github.com/leasectl/leasectl/lockfile"
	"github.com/leasectl/leasectl/proxyclient"
)

// kept acquires a lease and keeps it.
func (w *world) kept(o KeepOptions) (l *Lease, kept context.Context, stop func()) {
	w.T.Helper()
	l, err := w.Acquire(holdertest.Within(w.T), Request{Ask: leaseapi.Ask{Type: "t", Count: 1}, Handle: w.Handle("handle"), Private: true, WaitTimeout: time.Minute})
	if err != nil {
		w.T.Fatal(err)
	}
	kept, stop = l.Keep(holdertest.Within(w.T), o)
	return l, kept, stop
}

// awaitDenied waits until a lease that the proxy no longer renews counts as lost or as given
// back.
func (w *world) awaitDenied(kept context.Context) {
	w.T.Helper()
	for end := time.Now().Add(20 * time.Second); kept.Err() == nil && !w.report.Said("given back by its command"); time.Sleep(time.Millisecond) {
		if time.Now().After(end) {
			w.T.Error("neither lost nor given back")
			return
		}
	}
}

// A lease that the proxy has given to somebody else ends its context, with the
// loss as the cause.
func TestKeepLoss(t *testing.T) {
	w := newWorld(t)
	w.Proxy.OnRenew = holdertest.Lost
	_, kept, stop := w.kept(KeepOptions{})
	defer stop()
	select {
	case <-kept.Done():
	case <-holdertest.Within(t).Done():
		t.Fatal("the loss was not noticed")
	}
	loss, ok := errors.AsType[*Loss](context.Cause(kept))
	if !ok || !errors.Is(loss, proxyclient.ErrLost) {
		t.Errorf("the cause is %v, want a loss", context.Cause(kept))
	}
}

// A lease whose handle its command gave back is not lost: nobody renews it, and its
// context goes on until stop.
func TestKeepGivenBack(t *testing.T) {
	w := newWorld(t)
	released := make(chan struct{})
	w.Proxy.OnRenew = func(out http.ResponseWriter, r *http.Request) bool {
		<-released
		return holdertest.Lost(out, r)
	}
	l, kept, stop := w.kept(KeepOptions{})
	if _, err := w.inside(l).Release(holdertest.Within(t), l.handle, l.record, Delay{}); err != nil {
		t.Error(err)
	}
	close(released)
	w.awaitDenied(kept)
	if kept.Err() != nil {
		t.Errorf("the context ended with %v, want no loss", context.Cause(kept))
	}
	stop()
}

// A lease that a waiting request has replaced, such as a reacquire under exec, was given back, too.
func TestKeepReplaced(t *testing.T) {
	w := newWorld(t)
	replaced := make(chan struct{})
	w.Proxy.OnRenew = func(out http.ResponseWriter, r *http.Request) bool {
		<-replaced
		return holdertest.Lost(out, r)
	}
	l, kept, stop := w.kept(KeepOptions{})
	w.Write(l.handle, lockfile.Record{State: lockfile.HandleQueued, RequestID: "request-2", Replaces: l.record.Leases, ReplacesOf: l.record.RequestID, Within: l.record.RequestID})
	close(replaced)
	w.awaitDenied(kept)
	if kept.Err() != nil {
		t.Errorf("the context ended with %v, want no loss", context.Cause(kept))
	}
	stop()
}

// A late release that its command asked for ends the lease without a loss, also if no renewal was answered
// before. A lease that ends long before that is lost.
func TestKeepPutOff(t *testing.T) {
	for _, tt := range []struct {
		after time.Duration
		lost  bool
	}{{0, false}, {time.Hour, true}} {
		w := newWorld(t)
		ended := make(chan struct{})
		w.Proxy.OnRenew = func(out http.ResponseWriter, r *http.Request) bool {
			<-ended
			return holdertest.Lost(out, r)
		}
		l, kept, stop := w.kept(KeepOptions{})
		r := l.record
		r.Within, r.ReleaseAt = r.RequestID, time.Now().Add(tt.after)
		w.Write(l.handle, r)
		close(ended)
		w.awaitDenied(kept)
		if lost := kept.Err() != nil; lost != tt.lost {
			t.Errorf("released in %v by its command: lost is %t (%v), want %t", tt.after, lost, context.Cause(kept), tt.lost)
		}
		stop()
	}
}

// With ReleaseAfter the lease is given back while the context of Keep goes on.
func TestKeepReleaseAfter(t *testing.T) {
	w := newWorld(t)
	l, kept, stop := w.kept(KeepOptions{ConfirmAfter: time.Hour, ReleaseAfter: 50 * time.Millisecond})
	for end := time.Now().Add(20 * time.Second); len(w.Proxy.Released()) == 0; time.Sleep(time.Millisecond) {
		if time.Now().After(end) {
			t.Fatal("it was not released")
		}
	}
	if kept.Err() != nil {
		t.Errorf("the context ended: %v", context.Cause(kept))
	}
	stop()
	w.WantNothingLeft(l.handle, "lease1")
}

// A lease that was broken or expired is lost although its handle is gone.
func TestMayBeReleased(t *testing.T) {
	for reason, want := range map[string]bool{
		leaseapi.ReasonReleased:           true,
		leaseapi.ReasonOther:              true, // released, and granted again
		leaseapi.ReasonUnknown:            true, // after a restart
		leaseapi.ReasonExpired:            false,
		leaseapi.ReasonBroken + "testing": false,
	} {
		if got := mayBeReleased([]leaseapi.Lost{{Reason: reason}}); got != want {
			t.Errorf("%q: may have been released: %t, want %t", reason, got, want)
		}
	}
}

// After a release that failed, the handle owes the lease. The next release of the same lease
// gives it back and removes the handle.
func TestReleaseAfterAFailedOne(t *testing.T) {
	w := newWorld(t)
	w.Proxy.OnRelease = func(out http.ResponseWriter, _ *http.Request) bool {
		out.WriteHeader(http.StatusForbidden)
		return true
	}
	l, _, stop := w.kept(KeepOptions{ConfirmAfter: time.Hour})
	defer stop()
	if released, err := l.Release(holdertest.Within(t)); err == nil {
		t.Fatalf("released %v, want an error", released)
	}
	w.Proxy.Mend()
	if _, err := l.Release(holdertest.Within(t)); err != nil {
		t.Error(err)
	}
	w.WantNothingLeft(l.handle, "lease1", "lease1")
}

// Removing the handle of a lease does not give the lease back, nor does acquiring another lease
// into its path: the lease counts as lost when the proxy no longer knows it. So it does if the proxy says
// that the lease was released: who did that was not its command, of which the journal would know.
func TestKeepCleaned(t *testing.T) {
	for _, tt := range []struct {
		name, reason string
		again        bool // another lease is acquired into the path
	}{
		{"unknown", leaseapi.ReasonUnknown, false},
		{"somebody else's", leaseapi.ReasonOther, false},
		{"unknown, another lease in its path", leaseapi.ReasonUnknown, true},
		{"released", leaseapi.ReasonReleased, false},
	} {
		t.Run(tt.name, func(t *testing.T) {
			w := newWorld(t)
			cleaned := make(chan struct{})
			w.Proxy.OnRenew = func(out http.ResponseWriter, r *http.Request) bool {
				<-cleaned
				return holdertest.LostBecause(out, tt.reason)
			}
			l, kept, stop := w.kept(KeepOptions{})
			defer stop()
			for _, suffix := range []string{"", ".json", ".lock"} {
				os.Remove(l.Handle() + suffix)
			}
			if tt.again {
				if _, err := w.Acquire(holdertest.Within(t), Request{Ask: leaseapi.Ask{Type: "t", Count: 1}, Handle: w.Handle("handle"), WaitTimeout: time.Minute}); err != nil {
					t.Fatal(err)
				}
			}
			close(cleaned)
			w.awaitDenied(kept)
			if kept.Err() == nil {
				t.Error("it is not lost")
			}
		})
	}
}

// A release of a name is not sent again if a version-1 proxy may have carried it out: the name
// may be somebody else's now.
func TestReleaseAfterAFailedOneOfVersionOne(t *testing.T) {
	w := newWorld(t)
	w.Proxy.OnAcquire = func(out http.ResponseWriter, _ *http.Request) bool {
		holdertest.Reply(out, http.StatusOK, map[string][]string{"names": {"a"}})
		return true
	}
	w.Proxy.OnRelease = holdertest.Fails
	l, _, stop := w.kept(KeepOptions{})
	defer stop()
	ctx, cancel := cleanup.Within(holdertest.Within(t), 200*time.Millisecond)
	defer cancel()
	if released, err := l.Release(ctx); err == nil {
		t.Fatalf("released %v, want an error", released)
	}
	w.Proxy.Mend()
	w.Proxy.OnRelease = func(http.ResponseWriter, *http.Request) bool {
		t.Error("it was sent again")
		return false
	}
	if released, err := l.Release(holdertest.Within(t)); !errors.Is(err, proxyclient.ErrUnconfirmed) || len(released) > 0 {
		t.Errorf("released %v again, %v", released, err)
	}
	if r := w.record(l.handle); r.State != lockfile.HandleReleasing {
		t.Errorf("the handle says %+v, want that its release has begun", r)
	}
}
