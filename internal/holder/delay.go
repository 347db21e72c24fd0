package holder

import (
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/leasectl/leasectl/internal/holder/cleanup"
	"github.com/leasectl/leasectl/internal/holder/failpoint"
	v1 "github.com/leasectl/leasectl/internal/holder/v1"
	"github.com/leasectl/leasectl/internal/process"
	"github.com/leasectl/leasectl/leaseapi"
	"github.com/leasectl/leasectl/lockfile"
	"github.com/leasectl/leasectl/proxyclient"
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

// ReleaseDetached leaves a release after delay to the proxy, which needs no client for it, or
// to a keeper if the proxy is of version 1. r is the handle's record as read. ReleaseDetached
// takes at most [cleanup.Timeout], and at most 3 s once ctx has ended.
func (h *Holder) ReleaseDetached(ctx context.Context, handle lockfile.Handle, r lockfile.Record, delay time.Duration) error {
	if r.State != lockfile.HandleHeld {
		return notHeldError(handle, r)
	}
	ctx, cancel := cleanup.Context(ctx)
	defer cancel()
	if r.Bare() {
		n := Named{grants: r.Grants(), learned: handle.Modified()}
		err := h.ReleaseNamedDetached(ctx, n, delay)
		if !errors.Is(err, errors.ErrUnsupported) {
			return err
		}
		if r, err = h.adopt(ctx, handle, r); err != nil {
			return err
		}
	}
	p, err := h.Dialer.DialRecorded(ctx, r)
	if err != nil {
		return err
	}
	who := "the proxy"
	gone, err := h.delayByProxy(ctx, p, handle, r, delay)
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

// adopt makes a bare handle, which a keeper cannot look after, the handle of the leases that this
// machine has of its names. It is an error if this machine has no such leases: a name that
// somebody else got must not be released later.
func (h *Holder) adopt(ctx context.Context, handle lockfile.Handle, r lockfile.Record) (lockfile.Record, error) {
	p, err := h.Dialer.Dial(ctx, h.Dialer.URL)
	if err != nil {
		return r, err
	}
	adopted := lockfile.Record{
		State: lockfile.HandleHeld, RequestID: rand.Text(), Owner: h.owner(), Proxy: p.Address, Adapter: h.Dialer.Adapter.ID(), AcquiredAt: handle.Modified().UTC(),
	}
	for _, l := range r.Leases {
		held, found := h.Dialer.Adapter.Find(p.Address, l.Name)
		if !found || held.At.After(handle.Modified().Add(v1.Tolerance)) {
			return r, fmt.Errorf("handle %s: this machine has no lease %s, and a version-1 proxy cannot release one later: leave out --detach", handle.Path(), l.Name)
		}
		adopted.Owner = held.Owner
		adopted.Leases = append(adopted.Leases, lockfile.Lease{Name: l.Name, Generation: held.Generation})
	}
	adopted = h.Dialer.Seal(adopted)
	err = handle.Update(ctx, func(tx *lockfile.Tx) error {
		if !tx.Record.SameGrant(r) {
			return ErrReplaced
		}
		tx.Record = adopted
		return nil
	})
	return adopted, err
}

// sayPutOff says who releases the names later, and which of their leases are over already.
func (h *Holder) sayPutOff(who string, names []string, over []leaseapi.Lost, delay time.Duration) {
	names = slices.Clone(names)
	for _, l := range over {
		h.Reporter.Notef("the lease of %s is over already (%s): nothing to release", l.Name, leaseapi.Printable(l.Reason))
		names = slices.DeleteFunc(names, func(name string) bool { return name == l.Name })
	}
	if len(names) > 0 {
		h.Reporter.Notef("%s releases %s in %s", who, strings.Join(names, ", "), leaseapi.Duration(delay))
	}
}

// delayByProxy asks the proxy to end the leases of a handle's record by itself after delay, and
// notes in the handle when that will be. It returns the leases that are over already, and why. The
// error is [errors.ErrUnsupported] with a version-1 proxy.
func (h *Holder) delayByProxy(ctx context.Context, p *v1.Proxy, handle lockfile.Handle, r lockfile.Record, delay time.Duration) (over []leaseapi.Lost, err error) {
	if r.Lasts() {
		return nil, fmt.Errorf("put the release off by %s: %w by a version-1 proxy", leaseapi.Duration(delay), errors.ErrUnsupported)
	}
	begun := time.Now()
	reply, err := p.Client.Release(ctx, leaseapi.ReleaseRequest{Leases: r.Wire(), Delay: leaseapi.Duration(delay)})
	if err != nil {
		return nil, fmt.Errorf("put the release off by %s: %w", leaseapi.Duration(delay), err)
	}
	failpoint.Here("delay-answered")
	if err := h.notHere(p, r); err != nil {
		return nil, fmt.Errorf("put the release off by %s: %w", leaseapi.Duration(delay), err)
	}
	if err := h.checkShown(ctx, p, r, &reply); err != nil {
		return nil, fmt.Errorf("put the release off by %s: %s: %w", leaseapi.Duration(delay), r.Describe(), err)
	}
	over = slices.Concat(reply.Over, reply.Stale)
	if len(over) > 0 && time.Since(begun) >= delay {
		// The answer to an earlier attempt was lost, and the lease has ended when it was due.
		return nil, nil
	}
	if len(over) == len(r.Leases) {
		return over, nil
	}
	at := time.Now().Add(delay).Round(time.Second)
	return over, handle.Update(ctx, func(tx *lockfile.Tx) error {
		if tx.State == lockfile.HandleHeld && slices.Equal(tx.Leases, r.Leases) {
			tx.ReleaseAt, tx.Within = at, h.Journal.Within
		}
		return nil
	})
}

// delayByKeeper has a keeper release a handle's lease after delay, which a version-1 proxy
// cannot do. ownerPID is the process that the keeper is to watch. If ownerPID is zero, an
// earlier keeper of the same lease does it, if there is one.
func (h *Holder) delayByKeeper(ctx context.Context, handle lockfile.Handle, r lockfile.Record, ownerPID int, delay time.Duration) error {
	at := time.Now().Add(delay).Round(time.Millisecond)
	err := handle.Update(ctx, func(tx *lockfile.Tx) error {
		if tx.State != lockfile.HandleHeld || !tx.Record.SameGrant(r) {
			return ErrReplaced
		}
		tx.ReleaseAt = at
		return nil
	})
	if err == nil && (ownerPID != 0 || !h.Keepers.Wake(r.RequestID)) {
		failpoint.Here("keeper-unstarted")
		err = h.Keepers.Start(ctx, handle, r.RequestID, ownerPID)
	}
	if err != nil {
		return fmt.Errorf("put the release off by %s: %w", leaseapi.Duration(delay), err)
	}
	return nil
}
