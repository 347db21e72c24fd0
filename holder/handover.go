package holder

import (
	"context"
	"fmt"
	"time"

	"github.com/leasectl/leasectl/leaseapi"
	"github.com/leasectl/leasectl/lockfile"
	"github.com/leasectl/leasectl/proxyclient"
)

// HandOver says who looks after a lease that outlives the process that took it.
type HandOver struct {
	ReleaseAfter time.Duration // from now on; zero: when somebody releases it
	// OwnerPID is a process: as long as it lives the lease is renewed, and when it
	// ends the lease is released. Zero: nobody renews it.
	OwnerPID int
}

// HandOver leaves the lease to the readers of its handle. First deliver tells the user
// where the handle is: without that, nobody would release it. Then the lease is confirmed,
// and left to the proxy or a keeper as o says. If any step fails, the lease is given back.
func (l *Lease) HandOver(ctx context.Context, o HandOver, deliver func() error) error {
	err := deliver()
	if err == nil {
		failpoint("handle-printed")
		err = l.leaveTo(ctx, o)
	}
	if err != nil {
		return l.rollback(ctx, err)
	}
	failpoint("lease-firm")
	l.h.journal.settle(l.record.RequestID)
	return nil
}

// CanKeep returns [ErrInvalid] if no keeper could keep a lease of this run, and why.
// Callers ask before they wait for the lease.
func (h *Holder) CanKeep() error { return h.keepers.checkFiles() }

// leaveTo confirms the lease. The proxy gives it back late if o wants that and the proxy
// can; a keeper does so otherwise, and renews the lease of an owner process.
func (l *Lease) leaveTo(ctx context.Context, o HandOver) error {
	if o.ReleaseAfter > 0 && !l.grant.Capabilities.ReleasesLate() {
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
	failpoint("keeper-unstarted")
	return l.h.keepers.start(ctx, l.handle, l.record.RequestID, o.OwnerPID)
}

// delayRelease is [delayByProxy] for a lease that was just acquired: it is lost if it
// is over already.
func (l *Lease) delayRelease(ctx context.Context, delay time.Duration) error {
	over, err := delayByProxy(ctx, l.client, l.handle, l.grant.Leases, l.record.Owner, delay)
	if err == nil && len(over) > 0 {
		err = fmt.Errorf("put the release off by %s: %s: %w (%s)", leaseapi.Duration(delay), over[0].Name, proxyclient.ErrLost, over[0].Reason)
	}
	return err
}

// NoticeKeeper tells the user if the keeper of what a handle holds was killed.
func (h *Holder) NoticeKeeper(handle lockfile.Handle, r lockfile.Record) {
	if r.State != lockfile.StateHeld || h.keepers.state(r.RequestID) != keeperKilled {
		return
	}
	if !namesOnly(r.Leases) {
		h.report.Failf("the keeper of handle %s (process %d) was killed: nobody renews its lease, which ends %s after its last renewal",
			handle.Path(), r.KeeperPID, leaseapi.Duration(r.TTL))
		return
	}
	then := "when its owner process ends"
	if !r.ReleaseAt.IsZero() {
		then = "at " + r.ReleaseAt.Format(time.RFC3339)
	}
	h.report.Failf("the keeper of handle %s (process %d) was killed: nobody releases its lease %s: release it",
		handle.Path(), r.KeeperPID, then)
}
