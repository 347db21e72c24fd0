package shared

import (
	"context"
	"errors"
	"testing"
	"time"

	"github.com/leasectl/leasectl/internal/holder"
	"github.com/leasectl/leasectl/internal/holder/holdertest"
	"github.com/leasectl/leasectl/leaseapi"
	"github.com/leasectl/leasectl/lockfile"
	"github.com/leasectl/leasectl/proxyclient"
)

// within returns a lease of a use of the shared lease s, and one of a command within that use.
func (w *world) within(t *testing.T) (outer, inner *holder.Lease) {
	t.Helper()
	request := holder.Request{Ask: leaseapi.Ask{Type: "t", Count: 1}, Handle: w.Handle("handle")}
	outer, err := Acquire(holdertest.Within(t), w.Holder, Options{Name: "s"}, request)
	if err != nil {
		t.Fatal(err)
	}
	inner, err = Acquire(holdertest.Within(t), w.Holder, Options{Name: "s", Within: outer.Uses()}, request)
	if err != nil {
		t.Fatal(err)
	}
	return outer, inner
}

// A command within a use loses its lease with that use, even if others go on using the round.
func TestNestedLosesItsUse(t *testing.T) {
	w := newWorld(t)
	outer, inner := w.within(t)
	other, err := Acquire(holdertest.Within(t), w.Holder, Options{Name: "s"}, holder.Request{Ask: leaseapi.Ask{Type: "t", Count: 1}, Handle: w.Handle("handle")})
	if err != nil {
		t.Fatal(err)
	}
	kept, stop := inner.Keep(t.Context(), holder.KeepOptions{})
	defer stop()
	if kept.Err() != nil {
		t.Fatal(context.Cause(kept))
	}
	if _, err := outer.Release(holdertest.Within(t)); err != nil {
		t.Fatal(err)
	}
	select {
	case <-kept.Done():
	case <-holdertest.Within(t).Done():
		t.Fatal("the command goes on without its use")
	}
	if !errors.Is(context.Cause(kept), proxyclient.ErrLost) {
		t.Errorf("lost because of %v", context.Cause(kept))
	}
	if _, err := other.Release(holdertest.Within(t)); err != nil {
		t.Error(err)
	}
}

// The lease counts as lost to a command within a use a margin before its end, as to that use.
func TestNestedMargin(t *testing.T) {
	w := newWorld(t)
	outer, inner := w.within(t)
	kept, stop := inner.Keep(t.Context(), holder.KeepOptions{Margin: time.Hour}) // at most half of the TTL counts
	defer stop()
	w.changeRound(t, func(r *lockfile.Round, now time.Duration) { r.RenewedAt, r.Deadline = now-time.Hour, now+time.Minute })
	select {
	case <-kept.Done():
	case <-holdertest.Within(t).Done():
		t.Fatal("the lease is not lost a minute before its end, with a margin of an hour")
	}
	if _, err := outer.Release(holdertest.Within(t)); err != nil {
		t.Error(err)
	}
}
