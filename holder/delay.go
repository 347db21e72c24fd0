package holder

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/leasectl/leasectl/leaseapi"
	"github.com/leasectl/leasectl/lockfile"
	"github.com/leasectl/leasectl/proxyclient"
	"github.com/leasectl/leasectl/trap/process"
)

// A release is put off in one of three ways: this process waits ([Delay]), the proxy
// ends the lease by itself, or, where the proxy is of version 1, a keeper waits.

// Delay says how a release is put off.
type Delay struct {
	Time time.Duration // zero: at once
	// OwnerPID is the process that wants a delayed release: when it is gone, the release is
	// done at once. Zero: the parent of this process.
	OwnerPID int
	// CallerPID is a process that cancels a delayed release if it ends before the owner
	// process; zero: none.
	CallerPID int
}

// wait blocks for the delay, or until the owner process is gone. The error is [ErrReplaced] if
// watch, which may be nil, returned first; [ErrCallerGone] if the caller process ended and the
// owner process lives; and the cause of ctx if ctx ended.
func (d Delay) wait(ctx context.Context, report Reporter, watch func(context.Context) error) error {
	waitOwner := process.WaitParent
	if d.OwnerPID != 0 {
		waitOwner = func(ctx context.Context) error { return process.WaitExit(ctx, d.OwnerPID) }
	}
	inner, cancel := context.WithCancelCause(ctx)
	var watches sync.WaitGroup
	cancelAfter := func(wait func(context.Context) error, cause error) {
		watches.Go(func() {
			if wait(inner) == nil && inner.Err() == nil {
				cancel(cause)
			}
		})
	}
	if watch != nil {
		cancelAfter(watch, ErrReplaced)
	}
	cancelAfter(waitOwner, errOwnerGone)
	if d.CallerPID != 0 {
		cancelAfter(func(ctx context.Context) error { return process.WaitExit(ctx, d.CallerPID) }, ErrCallerGone)
	}
	err := proxyclient.Sleep(inner, d.Time)
	cancel(nil)
	watches.Wait()
	if errors.Is(err, errOwnerGone) && d.CallerPID != 0 && !process.Lives(d.CallerPID) {
		// The caller waits for us as long as it lives. So it was killed, which means to cancel
		// the release.
		err = ErrCallerGone
	}
	if errors.Is(err, errOwnerGone) {
		report.Debugf("the process that wanted this release later is gone: releasing now")
		return nil
	}
	return err
}

// errOwnerGone ends the wait of a delayed release.
var errOwnerGone = errors.New("the owner process is gone")

// sameGrant tells whether two records are of one grant. A bare handle has no request id: then
// the names decide.
func sameGrant(a, b lockfile.Record) bool {
	return a.RequestID == b.RequestID && slices.Equal(a.Names(), b.Names())
}

// ReleaseDetached leaves a release after delay to the proxy, which needs no client for it, or
// to a keeper if the proxy is of version 1. r is the handle's record as read. ReleaseDetached
// takes at most [ReleaseTimeout], and at most 3 s once ctx has ended.
func (h *Holder) ReleaseDetached(ctx context.Context, handle lockfile.Handle, r lockfile.Record, delay time.Duration) error {
	if r.State != lockfile.StateHeld {
		return notHeldError(handle, r)
	}
	ctx, cancel := releaseContext(ctx)
	defer cancel()
	client, err := h.dialer.dialRecorded(ctx, r)
	if err != nil {
		return err
	}
	leases := r.Leases
	if bareHandle(r) {
		meant := h.namedIn(handle, r)
		owed, over, err := h.owedOf(ctx, meant)
		if err != nil {
			return err
		}
		if len(owed) != 1 || len(over) > 0 {
			return h.ReleaseNamedDetached(ctx, meant, delay)
		}
		leases = owed[0].Leases
	}
	who := "the proxy"
	gone, err := delayByProxy(ctx, client, handle, wireLeases(leases), h.ownerOf(r.Owner), delay)
	if errors.Is(err, errors.ErrUnsupported) {
		who = "a process in the background"
		err = h.delayByKeeper(ctx, handle, r, 0, delay)
	}
	if err != nil {
		return err
	}
	h.sayPutOff(who, r.Names(), gone, delay)
	return nil
}

// ReleaseNamedDetached leaves the release of names after delay to the proxy. It takes at most
// [ReleaseTimeout], and at most 3 s once ctx has ended. The error is [errors.ErrUnsupported]
// with a version-1 proxy.
func (h *Holder) ReleaseNamedDetached(ctx context.Context, n Named, delay time.Duration) error {
	ctx, cancel := releaseContext(ctx)
	defer cancel()
	owed, over, err := h.owedOf(ctx, n)
	if err != nil {
		return err
	}
	h.sayEnded(over)
	var errs []error
	for _, o := range owed {
		client, err := h.dialer.dialFor(ctx, h.dialer.URL, originOf(o))
		if err != nil {
			errs = append(errs, fmt.Errorf("release %s: %w", describeOwed(o), err))
			continue
		}
		request := h.releaseRequest(o)
		request.Delay = leaseapi.Duration(delay)
		reply, err := client.Release(ctx, request)
		if err != nil {
			return errors.Join(append(errs, fmt.Errorf("release %s: %w", describeOwed(o), err))...)
		}
		h.sayPutOff("the proxy", o.Names(), slices.Concat(reply.Over, reply.Stale), delay)
	}
	return errors.Join(errs...)
}

// sayPutOff says who releases the names later, and which of their leases are over already.
func (h *Holder) sayPutOff(who string, names []string, over []leaseapi.Lost, delay time.Duration) {
	names = slices.Clone(names)
	for _, l := range over {
		h.report.Notef("the lease of %s is over already (%s): nothing to release", l.Name, leaseapi.Printable(l.Reason))
		names = slices.DeleteFunc(names, func(name string) bool { return name == l.Name })
	}
	if len(names) > 0 {
		h.report.Notef("%s releases %s in %s", who, strings.Join(names, ", "), leaseapi.Duration(delay))
	}
}

// delayByProxy asks the proxy to end leases by itself after delay, and notes in the handle when
// that will be. It returns the leases that are over already, and why. The error is
// [errors.ErrUnsupported] with a version-1 proxy.
func delayByProxy(ctx context.Context, client *proxyclient.Client, handle lockfile.Handle, leases []leaseapi.Lease, owner string, delay time.Duration) (over []leaseapi.Lost, err error) {
	request := proxyclient.Releasing(leases, owner)
	request.Delay = leaseapi.Duration(delay)
	begun := time.Now()
	reply, err := client.Release(ctx, request)
	if err != nil {
		return nil, fmt.Errorf("put the release off by %s: %w", leaseapi.Duration(delay), err)
	}
	failpoint.Here("delay-answered")
	over = slices.Concat(reply.Over, reply.Stale)
	if len(over) > 0 && time.Since(begun) >= delay {
		// The answer to an earlier attempt was lost, and the lease has ended when it was due.
		return nil, nil
	}
	if len(over) == len(leases) {
		return over, nil
	}
	at := time.Now().Add(delay).Round(time.Second)
	return over, handle.Update(ctx, func(tx *lockfile.Tx) error {
		if tx.State == lockfile.StateHeld && slices.Equal(wireLeases(tx.Leases), leases) {
			tx.ReleaseAt = at
		}
		return nil
	})
}

// delayByKeeper has a keeper release a handle's lease after delay, which a version-1 proxy
// cannot do. ownerPID is the process that the keeper is to watch. If ownerPID is zero, an
// earlier keeper of the same lease does it, if there is one.
func (h *Holder) delayByKeeper(ctx context.Context, handle lockfile.Handle, r lockfile.Record, ownerPID int, delay time.Duration) error {
	at := time.Now().Add(delay).Round(time.Millisecond)
	request := ""
	err := handle.Update(ctx, func(tx *lockfile.Tx) error {
		if tx.State != lockfile.StateHeld || !sameGrant(tx.Record, r) {
			return ErrReplaced
		}
		if bareHandle(tx.Record) {
			var err error
			if tx.Record, err = h.identify(ctx, h.namedIn(handle, tx.Record)); err != nil || tx.State == "" {
				return err // nil if the leases are over
			}
		}
		request, tx.ReleaseAt = tx.RequestID, at
		return nil
	})
	if err == nil && request != "" && (ownerPID != 0 || !h.keepers.wake(request)) {
		failpoint.Here("keeper-unstarted")
		err = h.keepers.start(ctx, handle, request, ownerPID)
	}
	if err != nil {
		return fmt.Errorf("put the release off by %s: %w", leaseapi.Duration(delay), err)
	}
	return nil
}
