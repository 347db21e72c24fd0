package holder

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/leasectl/leasectl/leaseapi"
	"github.com/leasectl/leasectl/lockfile"
	"github.com/leasectl/leasectl/proxyclient"
)

// ConfirmAfter is when the first renewal goes out, which confirms a grant. A command that ends sooner
// needs none, since its release says that the lease was received. It is short, since an outage
// that begins before the answer ends the command: the grant ends after [leaseapi.ProvisionalTTL], and
// nobody can know whether it was confirmed.
const ConfirmAfter = 100 * time.Millisecond

// Loss says that a lease was lost. It is the cause of the context that [Lease.Keep] returns.
type Loss struct {
	Err error // what was lost, and why
	// Deadline is when somebody else may have the lease. It is zero if the proxy has ended the lease: then
	// it may be so already, or not for the whole TTL.
	Deadline proxyclient.Instant
}

func (l *Loss) Error() string { return l.Err.Error() }
func (l *Loss) Unwrap() error { return l.Err }

// Grace returns how much of a grace period is left to those who must be gone a moment before the
// deadline; zero: nothing.
func (l *Loss) Grace(period, moment time.Duration) time.Duration {
	if l.Deadline.IsZero() {
		return period
	}
	return max(0, min(period, proxyclient.Until(l.Deadline)-moment))
}

// Keep renews the lease until stop is called; stop waits for the last renewal. The end of ctx
// does not stop it. The returned context ends when the lease is lost, with a [Loss] as its
// cause, or with stop. A lease that was given back through its handle by a process within the command of
// this one is not lost: its renewals end, and the context goes on. A shared lease that was given back is
// lost to its users.
func (l *Lease) Keep(ctx context.Context, o KeepOptions) (kept context.Context, stop func()) {
	if l.part != nil {
		return l.part.Keep(ctx, o)
	}
	after := o.ConfirmAfter
	var releaseAt proxyclient.Instant // since somebody may set the time of day
	if o.ReleaseAfter > 0 {
		releaseAt = proxyclient.Now().Add(time.Until(l.record.AcquiredAt) + o.ReleaseAfter)
		after = min(after, proxyclient.Until(releaseAt))
	}
	return KeepWith(ctx, after, func(ctx context.Context, lose func(error)) {
		due := ctx
		if o.ReleaseAfter > 0 {
			var cancel context.CancelFunc
			due, cancel = context.WithTimeout(ctx, proxyclient.Until(releaseAt))
			defer cancel()
		}
		l.keepAlive(due, o.Margin, lose)
		if ctx.Err() == nil && due.Err() != nil {
			l.releaseLate(ctx, o.ReleaseAfter)
		}
	})
}

// KeepWith is [Lease.Keep] with run as the way to keep. It calls run in a goroutine once the
// time after is over. stop ends the context of run, and waits for run to return.
func KeepWith(ctx context.Context, after time.Duration, run func(ctx context.Context, lose func(error))) (kept context.Context, stop func()) {
	kept, lose := context.WithCancelCause(context.WithoutCancel(ctx))
	end := proxyclient.After(context.WithoutCancel(ctx), after, func(ctx context.Context) {
		run(ctx, func(err error) { lose(lossOf(err)) })
	})
	return kept, func() {
		end()
		lose(nil)
	}
}

// keepAlive renews the lease, and returns when ctx ends. After a loss it goes on with what the proxy may
// still know: the command may go on, too.
func (l *Lease) keepAlive(ctx context.Context, margin time.Duration, lose func(error)) {
	defer func() { <-ctx.Done() }()
	if l.grant.Capabilities != proxyclient.Ours {
		return // its leases last until they are released
	}
	confirmed := false
	heartbeat := proxyclient.Heartbeat{
		Client:   l.proxy.Client,
		Leases:   l.grant.Grant.Leases,
		Deadline: l.deadline,
		TTL:      l.grant.TTL,
		Margin:   margin,
		OnRetry:  func(err error) { l.h.Reporter.Debugf("%v: trying again", err) },
		OnRenew: func(r proxyclient.Renewal) {
			confirmed = true
			l.h.Reporter.Debugf("renewed %s for %s", strings.Join(l.Names(), ", "), leaseapi.Duration(r.TTL))
		},
	}
	said := false
	for ctx.Err() == nil && len(heartbeat.Leases) > 0 {
		err := heartbeat.Run(ctx)
		if ctx.Err() != nil {
			return
		}
		lost, _ := errors.AsType[*proxyclient.LostError](err)
		denied := lost != nil && len(lost.Lost) > 0 // by the proxy, which has the last word
		if denied && mayBeReleased(lost.Lost) && (l.GivenBack() || l.putOff(margin)) {
			l.h.Reporter.Debugf("the lease was given back by its command: its renewals end")
			return
		}
		if !denied && !confirmed {
			err = UnconfirmedLoss(err, l.grant.Grant.TTL)
		}
		over := denied && lost.Deadline.IsZero() // a late release may be of one of several
		if isNew := over && l.noteLost(lost.Lost); said && isNew {
			l.h.Reporter.Failf("%v", err)
		}
		lose(err)
		said = said || over
		if lost == nil {
			return // the leases cannot be renewed at all
		}
		if err := heartbeat.Forget(ctx, lost); err != nil {
			return
		}
	}
}

// UnconfirmedLoss adds to the loss of a lease that no renewal has confirmed why it did not last for its ttl.
func UnconfirmedLoss(err error, ttl time.Duration) error {
	if ttl <= leaseapi.ProvisionalTTL {
		return err
	}
	return fmt.Errorf("%w: no renewal has confirmed the grant, so it lasts for %s only", err, leaseapi.Duration(leaseapi.ProvisionalTTL))
}

// mayBeReleased tells whether leases may have ended by a release. A lease that was broken or
// expired did not, whatever its handle says.
func mayBeReleased(lost []leaseapi.Lost) bool {
	return !slices.ContainsFunc(lost, func(l leaseapi.Lost) bool {
		return l.Reason == leaseapi.ReasonExpired || strings.HasPrefix(l.Reason, leaseapi.ReasonBroken)
	})
}

// GivenBack tells whether this process gave the lease back, or one within its command did: by releasing its
// handle, or by asking for another lease in its place. A handle that cannot be read, or was removed in
// another way, does not count, nor does any other process: to this one the lease is lost by that.
//
// A release that has begun counts: the proxy is told before the handle is removed, and the
// release may be killed in between.
func (l *Lease) GivenBack() bool {
	begun := l.h.Journal.HasRelease(l.handle, l.record.RequestID) // read first: the entry is removed after the handle
	r, err := l.handle.Read()
	given := err == nil && r.Within == l.record.RequestID && !(l.Is(r) && r.State == lockfile.HandleHeld)
	return l.over.Load() || begun || given || !l.h.Journal.Stands(l.record.RequestID)
}

// putOff tells whether a process within the command of this one has left the release of the lease to the
// proxy, and the release is due after margin. The first renewal may go out after it.
func (l *Lease) putOff(margin time.Duration) bool {
	const inexact = 10 * time.Second // the handle has the time at which the proxy's answer came
	r, err := l.handle.Read()
	return err == nil && l.Is(r) && r.Within == l.record.RequestID && !r.ReleaseAt.IsZero() && time.Until(r.ReleaseAt) < margin+inexact
}

// noteLost notes leases of which the user hears that they are lost: their release need not say so again. It
// tells whether the user has not heard of one of them.
func (l *Lease) noteLost(lost []leaseapi.Lost) (isNew bool) {
	for _, lost := range lost {
		_, noted := l.h.lost.Swap(lockfile.Lease{Name: lost.Name, Generation: lost.Generation}, true)
		isNew = isNew || !noted
	}
	return isNew
}

// releaseLate gives the lease back while its holder goes on.
func (l *Lease) releaseLate(ctx context.Context, after time.Duration) {
	released, err := l.Release(ctx)
	if err != nil {
		l.h.Reporter.Failf("%v", err)
	} else if len(released) > 0 { // else its command gave it back before
		l.h.Reporter.Notef("released %s, %s after it was acquired; the command goes on", strings.Join(released, ", "), leaseapi.Duration(after))
	}
}

// lossOf returns err as a [Loss], unless it is one.
func lossOf(err error) *Loss {
	if loss, ok := errors.AsType[*Loss](err); ok {
		return loss
	}
	loss := &Loss{Err: err}
	if l, ok := errors.AsType[*proxyclient.LostError](err); ok {
		loss.Deadline = l.Deadline
	}
	return loss
}
