package main

import (
	"context"
	"fmt"
	"slices"
	"time"

	"github.com/leasectl/leasectl/lockfile"
	"github.com/leasectl/leasectl/proxyclient"
)

// A keeper has more patience with its proxy than a release by hand, since nobody
// waits for it, but it must not keep others from the handle meanwhile: it tries
// for a short time under the handle's lock, and sleeps without it.
const (
	// keeperTry bounds one try. A proxy that works answers in much less, and a
	// release by hand that finds the lock taken has most of its own time left.
	keeperTry = 3 * time.Second
	// The pause doubles from the first, in which a release by hand gets its
	// turn, to the longest, after which a proxy that is back is noticed.
	keeperFirstPause   = time.Second
	keeperLongestPause = 5 * time.Second
	// keeperBareTime bounds all tries where leases do not end by themselves. A
	// version-1 proxy knows names only: the longer one is tried again, the
	// likelier it is another's by now.
	keeperBareTime = 2 * time.Minute
)

// giveBack releases the lease, if it is still the keeper's, or owed by its
// handle. A proxy that does not answer is tried until the lease has ended by
// itself. What is owed then stays in the handle and in the journal.
func (k *keeping) giveBack(ctx context.Context, held lockfile.Record) error {
	failpoint("keeper-due")
	bound := keeperBareTime
	if !versionOneLeases(held) {
		bound = max(held.TTL, keeperTry)
	}
	end := time.Now().Add(bound)
	k.beginRelease(ctx, held)
	failpoint("keeper-in-journal")
	pause := keeperFirstPause
	for {
		err := k.tryGiveBack(ctx)
		if err == nil {
			k.a.journal.settle(k.request) // if it was others who gave it back
			return nil
		}
		if ctx.Err() != nil || time.Now().Add(pause).After(end) || !k.rest(ctx, pause) {
			k.a.journal.leave(k.request)
			return err
		}
		pause = min(2*pause, keeperLongestPause)
	}
}

// beginRelease makes one journal entry for all tries. Should that fail, each has
// its own.
func (k *keeping) beginRelease(ctx context.Context, held lockfile.Record) {
	ctx, cancel := context.WithTimeout(ctx, keeperTry)
	defer cancel()
	err := k.a.journal.begin(ctx, lockfile.Intent{
		ID:      k.request, // so that it counts as the entry of what is owed
		Kind:    lockfile.KindRelease,
		Request: k.request,
		Handle:  k.handle.Path(),
		Proxy:   held.Proxy,
		Type:    held.Type,
		Count:   held.Count,
		Owner:   held.Owner,
	})
	if err != nil {
		k.a.debugf("%v", err)
	}
}

func (k *keeping) tryGiveBack(ctx context.Context) error {
	ctx, cancel := boundRelease(ctx, keeperTry)
	defer cancel()
	_, err := k.a.giveBackNow(ctx, k.handle, k.owes)
	return err
}

// owes tells whether a handle has the keeper's lease, or has begun to give it
// back. A handle that has a newer request too is looked after by others.
func (k *keeping) owes(r lockfile.Record) bool {
	return r.RequestID == k.request || r.State == lockfile.StateReleasing &&
		slices.ContainsFunc(r.Owed, func(d lockfile.Owed) bool { return d.RequestID == k.request })
}

// leftToKeeper is an error if a keeper is giving back what a handle owes to a
// version-1 proxy, which must be told by one process only: it knows names, so a
// second release may end a lease that is somebody else's by then.
func (a *app) leftToKeeper(r lockfile.Record) error {
	if r.State != lockfile.StateReleasing {
		return nil
	}
	for _, d := range r.Owed {
		if bare(d) && !a.journal.covers([]lockfile.Owed{d}) && tellKeeper(d.RequestID) {
			return fmt.Errorf("release %s: %w its keeper, which goes on trying", describeDebt(d), proxyclient.ErrUnreachable)
		}
	}
	return nil
}

// rest blocks for d, or until somebody says that the handle has changed. It
// reports false if ctx ended before.
func (k *keeping) rest(ctx context.Context, d time.Duration) bool {
	over := time.NewTimer(d)
	defer over.Stop()
	select {
	case <-over.C:
	case <-k.changed:
	case <-ctx.Done():
		return false
	}
	return true
}
