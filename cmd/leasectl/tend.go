package main

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"time"

	"github.com/leasectl/leasectl/lockfile"
	"github.com/leasectl/leasectl/proxyclient"
)

// loss is the end of a lease while the command still runs.
type loss struct {
	err  error
	over bool // somebody else may have the lease already
}

// tend looks after the lease while the command runs, until ctx ends: it
// confirms and renews it, says on lost when that fails, and gives the lease
// back if it is to go before the command ends.
func (x *execution) tend(ctx context.Context, h *holding, lost chan<- loss) {
	due := ctx
	if after := x.o.take.releaseAfter; after > 0 {
		var cancel context.CancelFunc
		due, cancel = context.WithDeadline(ctx, h.record.AcquiredAt.Add(after))
		defer cancel()
	}
	x.renew(due, h, lost)
	if ctx.Err() == nil && due.Err() != nil {
		x.releaseLate(ctx, h)
	}
}

// renew keeps the lease until ctx ends or it is lost for good.
func (x *execution) renew(ctx context.Context, h *holding, lost chan<- loss) {
	if h.grant.Version1 {
		<-ctx.Done() // its leases last until they are released
		return
	}
	beat := proxyclient.Heartbeat{
		Client:   h.client,
		Leases:   h.grant.Leases,
		Deadline: h.deadline,
		Margin:   x.o.grace + stopMargin,
		OnRenew:  x.firstRenewal(ctx, h),
		OnRetry:  func(err error) { x.a.debugf("%v: trying again", err) },
	}
	for {
		err := beat.Run(ctx)
		if err == nil || ctx.Err() != nil {
			<-ctx.Done() // released by the proxy as it was told to, a moment before our own timer
			return
		}
		select {
		case lost <- lossOf(err, x.o.onLost):
		default: // said once is enough
		}
		var l *proxyclient.LostError
		if errors.As(err, &l) && len(l.Lost) > 0 {
			return // the proxy has the last word
		}
		// It was away for too long. It may still know the lease when it is back.
		beat.Deadline = proxyclient.Instant{}
	}
}

// firstRenewal is called when the lease is confirmed. With --release-after the
// proxy then also learns when to take it back, in case we die before.
func (x *execution) firstRenewal(ctx context.Context, h *holding) func(proxyclient.Renewal) {
	after := x.o.take.releaseAfter
	if after == 0 {
		return nil
	}
	told := false
	return func(proxyclient.Renewal) {
		if told {
			return
		}
		left := time.Until(h.record.AcquiredAt.Add(after))
		err := x.a.delayRelease(ctx, h.client, h.handle, h.grant.Leases, h.record.Owner, max(left, time.Millisecond))
		if told = err == nil; !told {
			x.a.debugf("%v: trying again with the next renewal", err)
		}
	}
}

// releaseLate gives the lease back while the command goes on.
func (x *execution) releaseLate(ctx context.Context, h *holding) {
	_, err := x.a.giveBack(ctx, h.handle, func(r lockfile.Record) bool { return r.RequestID == h.record.RequestID })
	if err != nil {
		x.a.failf("%v", err)
		return
	}
	x.a.notef("released %s, %s after it was acquired; the command goes on", strings.Join(h.names(), ", "), shortDuration(x.o.take.releaseAfter))
}

// lossOf says what was lost and what follows.
func lossOf(err error, onLost string) loss {
	var l *proxyclient.LostError
	over := errors.As(err, &l) && !l.Deadline.IsZero() && proxyclient.Until(l.Deadline) <= 0
	what := "stopping the command"
	if onLost == "warn" {
		what = "the command goes on without it"
	}
	return loss{err: fmt.Errorf("%w: %s", err, what), over: over}
}
