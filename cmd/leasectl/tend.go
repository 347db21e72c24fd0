package main

import (
	"context"
	"errors"
	"fmt"
	"strings"

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
// back if it is to go before the command ends. The proxy is not told when that
// is: then it would keep the lease until then if we die, rather than for its TTL.
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
		OnRetry:  func(err error) { x.a.debugf("%v: trying again", err) },
	}
	for {
		err := beat.Run(ctx)
		if err == nil || ctx.Err() != nil {
			<-ctx.Done() // the proxy has released it, as somebody told it to with a delay
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
