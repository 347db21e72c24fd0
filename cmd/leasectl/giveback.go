package main

import (
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"strings"
	"time"

	"github.com/leasectl/leasectl/leaseapi"
	"github.com/leasectl/leasectl/lockfile"
	"github.com/leasectl/leasectl/proxyclient"
)

// Giving back a lease first moves it, in the handle, from what is held to what
// is owed; then the proxy is told; then it is forgotten. A process that is
// killed in between leaves a handle that says what is owed, and the next
// release of it, whoever does it, settles that.

const (
	// releaseTimeout bounds a release against a proxy that does not answer. It
	// is a little less than the ten seconds that are promised.
	releaseTimeout = 9500 * time.Millisecond
	// releaseAfterSignal bounds it once a signal has asked us to end: CI
	// systems send KILL as early as 5 s after TERM.
	releaseAfterSignal = 3 * time.Second
)

// releaseContext is a context for clean-up: it does not end with ctx, but
// within a short time of it.
func releaseContext(ctx context.Context) (context.Context, context.CancelFunc) {
	return boundRelease(ctx, releaseTimeout)
}

// boundRelease is releaseContext with another bound.
func boundRelease(ctx context.Context, most time.Duration) (context.Context, context.CancelFunc) {
	out, cancel := context.WithTimeout(context.WithoutCancel(ctx), most)
	hurry := time.AfterFunc(most, cancel)
	stop := context.AfterFunc(ctx, func() { hurry.Reset(releaseAfterSignal) })
	return deadlineContext{out}, func() {
		stop()
		hurry.Stop()
		cancel()
	}
}

// deadlineContext ends by a deadline, whichever of its bounds it was: a proxy
// that did not answer until then does not answer.
type deadlineContext struct{ context.Context }

func (c deadlineContext) Err() error {
	if c.Context.Err() != nil {
		return context.DeadlineExceeded
	}
	return nil
}

// giveBack releases what a handle holds or waits for, and removes the handle,
// if same says so of its record. A handle that is gone, or another's by now,
// is success with no names: releasing twice is releasing once.
func (a *app) giveBack(ctx context.Context, handle lockfile.Handle, same func(lockfile.Record) bool) (released []string, err error) {
	ctx, cancel := releaseContext(ctx)
	defer cancel()
	return a.giveBackNow(ctx, handle, same)
}

// giveBackNow is giveBack, as long as ctx lasts.
func (a *app) giveBackNow(ctx context.Context, handle lockfile.Handle, same func(lockfile.Record) bool) (released []string, err error) {
	var owed []lockfile.Owed
	intent := ""
	err = handle.Update(ctx, func(tx *lockfile.Tx) error {
		if tx.Record.State == "" || !same(tx.Record) {
			return nil
		}
		if err := a.leftToKeeper(tx.Record); err != nil {
			return err
		}
		owed = debts(tx.Record)
		intent = a.beginRelease(ctx, handle, tx.Record)
		failpoint("release-in-journal")
		tx.Record = lockfile.Record{State: lockfile.StateReleasing, Owed: owed}
		if err := tx.Save(); err != nil {
			return err
		}
		failpoint("release-unsent")
		released, err = a.settle(ctx, &tx.Record)
		failpoint("release-answered")
		if err != nil {
			return errors.Join(fmt.Errorf("%w: handle %s keeps what is owed: release it again, or run leasectl recover", err, handle.Path()), tx.Save())
		}
		tx.Record = lockfile.Record{}
		return nil
	})
	if err != nil {
		a.journal.leave(intent)
		return released, err
	}
	failpoint("handle-removed")
	a.paid(owed)
	a.journal.settle(intent)
	return released, nil
}

// anyRecord is for who means whatever the handle holds.
func anyRecord(lockfile.Record) bool { return true }

// debts is all that a record makes its handle owe to a proxy.
func debts(r lockfile.Record) []lockfile.Owed {
	owed := r.Owed
	if r.State == lockfile.StateQueued || r.State == lockfile.StateHeld {
		owed = append(owed, lockfile.Owed{
			RequestID:  r.RequestID,
			Owner:      r.Owner,
			Proxy:      r.Proxy,
			Leases:     r.Leases,
			SharedList: r.SharedList,
		})
	}
	return owed
}

// paid follows debts that are paid: their journal entries go, and so do the
// keepers of what was given back.
func (a *app) paid(owed []lockfile.Owed) {
	for _, d := range owed {
		a.journal.settle(d.RequestID)
		dismissKeeper(d.RequestID)
	}
}

// settle pays the debts of a record, and takes each off as it is paid. It
// returns the names that were released.
func (a *app) settle(ctx context.Context, r *lockfile.Record) (released []string, err error) {
	for len(r.Owed) > 0 {
		names, err := a.pay(ctx, r.Owed[0])
		if err != nil {
			return released, err
		}
		released = append(released, names...)
		r.Owed = r.Owed[1:]
	}
	return released, nil
}

// pay settles one debt with the proxy it is owed to.
func (a *app) pay(ctx context.Context, d lockfile.Owed) ([]string, error) {
	proxy := a.proxyOf(lockfile.Record{Proxy: d.Proxy})
	if proxy == "" {
		return nil, fmt.Errorf("release %s: the handle does not say which proxy it is from: name it with --proxy", strings.Join(d.Names(), ", "))
	}
	return a.payAt(ctx, proxy, d)
}

// payAt settles one debt with a proxy.
func (a *app) payAt(ctx context.Context, proxy string, d lockfile.Owed) ([]string, error) {
	client, err := a.dial(ctx, proxy)
	if err != nil {
		return nil, err
	}
	reply, err := client.Release(ctx, a.releaseRequest(d))
	if err != nil {
		// A version-1 proxy knows no request ids: what waits there notices
		// by itself that its handle was released, and gives back.
		if len(d.Leases) > 0 || !errors.Is(err, errors.ErrUnsupported) {
			return nil, fmt.Errorf("release %s: %w", describeDebt(d), err)
		}
	}
	for _, lost := range reply.Stale {
		a.notef("%s was not this handle's any more: %s", lost.Name, lost.Reason)
	}
	if d.SharedList != "" {
		if err := lockfile.List(d.SharedList).Remove(ctx, d.Names()); err != nil {
			a.failf("%v", err) // the lease is back; a line too many in a list is no reason to keep the handle
		}
	}
	return reply.Released, nil
}

// releaseRequest is the release of a debt: by generations where there are
// any, by names and owner where a version-1 proxy or a copied handle has none,
// by request id where nothing was granted that we know of.
func (a *app) releaseRequest(d lockfile.Owed) leaseapi.ReleaseRequest {
	if len(d.Leases) == 0 {
		return leaseapi.ReleaseRequest{RequestIDs: []string{d.RequestID}}
	}
	owner := d.Owner
	if owner == "" {
		owner = a.ownerName()
	}
	return proxyclient.Releasing(wireLeases(d.Leases), owner)
}

// describeDebt names a debt in an error.
func describeDebt(d lockfile.Owed) string {
	if len(d.Leases) == 0 {
		return "request " + d.RequestID
	}
	return strings.Join(d.Names(), ", ")
}

// delayRelease asks the proxy to end leases by itself after delay, and notes
// in the handle when that will be.
func (a *app) delayRelease(ctx context.Context, client *proxyclient.Client, handle lockfile.Handle, leases []leaseapi.Lease, owner string, delay time.Duration) error {
	request := proxyclient.Releasing(leases, owner)
	request.Delay = leaseapi.Duration(delay)
	reply, err := client.Release(ctx, request)
	if err != nil {
		return fmt.Errorf("put the release off by %s: %w", shortDuration(delay), err)
	}
	if len(reply.Stale) > 0 {
		return fmt.Errorf("put the release off by %s: %s: %w (%s)", shortDuration(delay), reply.Stale[0].Name, proxyclient.ErrLost, reply.Stale[0].Reason)
	}
	at := time.Now().Add(delay).Round(time.Second)
	return handle.Update(ctx, func(tx *lockfile.Tx) error {
		if tx.Record.State == lockfile.StateHeld {
			tx.Record.ReleaseAt = at
		}
		return nil
	})
}

// delayByKeeper has a keeper release a handle's lease after delay, which a
// version-1 proxy cannot do. owner is the process that the keeper is to watch,
// or 0. An earlier keeper of the same lease does it, if there is one.
func (a *app) delayByKeeper(ctx context.Context, handle lockfile.Handle, r lockfile.Record, owner int, delay time.Duration) error {
	at := time.Now().Add(delay).Round(time.Millisecond)
	request := r.RequestID
	if request == "" {
		request = rand.Text() // of a copied handle: a keeper knows its lease by an id
	}
	err := handle.Update(ctx, func(tx *lockfile.Tx) error {
		if tx.State != lockfile.StateHeld || !sameGrant(tx.Record, r) {
			return errSuperseded
		}
		tx.ReleaseAt, tx.RequestID = at, request
		if tx.Proxy == "" {
			tx.Proxy = a.proxyOf(r)
		}
		return nil
	})
	if err == nil && (owner != 0 || !tellKeeper(request)) {
		failpoint("keeper-unstarted")
		err = a.startKeeper(ctx, handle, request, owner)
	}
	if err != nil {
		return fmt.Errorf("put the release off by %s: %w", shortDuration(delay), err)
	}
	return nil
}

// wireLeases are a handle's leases as the proxy knows them.
func wireLeases(leases []lockfile.Lease) []leaseapi.Lease {
	out := make([]leaseapi.Lease, len(leases))
	for i, l := range leases {
		out[i] = leaseapi.Lease(l)
	}
	return out
}
