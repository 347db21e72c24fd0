package holder

import (
	"context"
	"fmt"
	"time"

	"github.com/leasectl/leasectl/internal/holder/failpoint"
	"github.com/leasectl/leasectl/internal/holder/keeper"
	"github.com/leasectl/leasectl/leaseapi"
	"github.com/leasectl/leasectl/lockfile"
	"github.com/leasectl/leasectl/proxyclient"
)

// HandOver says who renews and releases a lease that outlives the process that took it.
type HandOver struct {
	ReleaseAfter time.Duration // from now on; zero: when somebody releases it
	// OwnerPID is a process: a keeper renews the lease while the process lives, and releases it
	// when the process ends. Zero: nobody renews the lease.
	OwnerPID int
}

// HandOver leaves the lease to the user of its handle. First it calls deliver, which tells the
// user where the handle is: otherwise nobody would release the lease. Then it confirms the
// lease, and leaves it to the proxy or a keeper as o says. If any step fails, it gives the
// lease back.
func (l *Lease) HandOver(ctx context.Context, o HandOver, deliver func() error) error {
	return l.Transfer(ctx, func() error {
		if err := deliver(); err != nil {
			return err
		}
		failpoint.Here("handle-printed")
		if err := l.leaveTo(ctx, o); err != nil {
			return err
		}
		if ctx.Err() != nil { // such as with the owner: its keeper may watch another process of that id
			return context.Cause(ctx)
		}
		failpoint.Here("lease-firm")
		return nil
	})
}

// Transfer ends this process's responsibility for the lease: take makes somebody else responsible. If that
// fails, Transfer gives the lease back.
func (l *Lease) Transfer(ctx context.Context, take func() error) error {
	if err := take(); err != nil {
		return l.rollback(ctx, err)
	}
	l.h.Journal.Settle(l.record.RequestID)
	return nil
}

// CanKeep returns [usage.Err], with the reason, if no keeper could keep a lease of this run.
// Callers ask before they wait for the lease.
func (h *Holder) CanKeep() error { return h.Keepers.CheckFiles() }

// leaveTo confirms the lease. It leaves a late release to the proxy if the proxy can do that,
// else to a keeper. A keeper also renews the lease of an owner process.
func (l *Lease) leaveTo(ctx context.Context, o HandOver) error {
	if o.ReleaseAfter > 0 && l.grant.Capabilities != proxyclient.Ours {
		return l.h.delayByKeeper(ctx, l.handle, l.record, o.OwnerPID, o.ReleaseAfter)
	}
	if err := l.confirm(ctx); err != nil {
		return err
	}
	if o.ReleaseAfter > 0 {
		ctx, cancel := context.WithTimeout(ctx, leaseapi.ProvisionalTTL)
		defer cancel()
		if err := l.delayRelease(ctx, o.ReleaseAfter); err != nil {
			return err
		}
	}
	if o.OwnerPID == 0 {
		return nil
	}
	failpoint.Here("keeper-unstarted")
	return l.h.Keepers.Start(ctx, l.handle, l.record.RequestID, o.OwnerPID)
}

// delayRelease is [Holder.delayByProxy] for a lease that was just acquired. If the lease is over
// already, the error is [proxyclient.ErrLost].
func (l *Lease) delayRelease(ctx context.Context, delay time.Duration) error {
	over, err := l.h.delayByProxy(ctx, l.proxy, l.handle, l.record, delay)
	if err == nil && len(over) > 0 {
		err = fmt.Errorf("put the release off by %s: %s: %w (%s)", leaseapi.Duration(delay), over[0].Name, proxyclient.ErrLost, over[0].Reason)
	}
	return err
}

// Keep is the keeper of a handle's request, in a process of its own: see [keeper.Keeper]. ownerPID is the
// process for whose life the lease is kept; zero: none.
func (h *Holder) Keep(ctx context.Context, handle lockfile.Handle, request string, ownerPID int, ready func()) error {
	k := keeper.Keeper{Keepers: h.Keepers, Journal: h.Journal, Handle: handle, Request: request, OwnerPID: ownerPID, Release: h.releaseOwn}
	return k.Run(ctx, ready)
}

// OwnerProcess returns the process for whose life a keeper keeps the lease of a handle's record; 0: there is
// none, or it cannot be known that the process of this id is still the same.
func (h *Holder) OwnerProcess(r lockfile.Record) (pid int) {
	if r.Terms.OwnerPID == 0 || r.Terms.OwnerSpace != keeper.Space() || !h.Keepers.Wake(r.RequestID) {
		return 0
	}
	return r.Terms.OwnerPID
}

// NoticeKeeper tells the user if the keeper of a handle's lease was killed. r is the handle's
// record as read.
func (h *Holder) NoticeKeeper(handle lockfile.Handle, r lockfile.Record) {
	if r.State != lockfile.HandleHeld || !h.Keepers.Killed(r.RequestID) {
		return
	}
	if !r.Lasts() {
		h.Reporter.Failf("the keeper of handle %s (process %d) was killed: nobody renews its lease, which ends %s after its last renewal",
			handle.Path(), r.KeeperPID, leaseapi.Duration(r.TTL))
		return
	}
	then := "when its owner process ends"
	if !r.ReleaseAt.IsZero() {
		then = "at " + r.ReleaseAt.Format(time.RFC3339)
	}
	h.Reporter.Failf("the keeper of handle %s (process %d) was killed: nobody releases its lease %s: release it",
		handle.Path(), r.KeeperPID, then)
}
