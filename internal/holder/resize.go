package holder

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"time"

	"github.com/leasectl/leasectl/internal/holder/cleanup"
	"github.com/leasectl/leasectl/internal/holder/usage"
	v1 "github.com/leasectl/leasectl/internal/holder/v1"
	"github.com/leasectl/leasectl/leaseapi"
	"github.com/leasectl/leasectl/lockfile"
	"github.com/leasectl/leasectl/proxyclient"
)

// Renew renews the leases of a handle once, and returns for how long. A zero ttl renews each
// for as long as before. r is the handle's record as read. It takes at most [cleanup.Timeout].
// The error is [proxyclient.ErrLost] if a lease is lost, and [errors.ErrUnsupported] with a
// version-1 proxy.
func (h *Holder) Renew(ctx context.Context, handle lockfile.Handle, r lockfile.Record, ttl time.Duration) (time.Duration, error) {
	if err := checkAcquired(handle, r, "renew"); err != nil {
		return 0, err
	}
	ctx, cancel := context.WithTimeout(ctx, cleanup.Timeout)
	defer cancel()
	p, err := h.Dialer.DialRecorded(ctx, r)
	if err != nil {
		return 0, err
	}
	if ttl > r.TTL { // before the proxy knows: a kill may follow
		h.noteTTL(ctx, handle, &r, ttl)
	}
	leases := v1.GrantOf(r.Leases, r.Adapter).Grant.Leases
	for i := range leases {
		leases[i].RequestID = r.RequestID
	}
	renewal, err := p.Renew(ctx, leases, ttl)
	if err := h.notHere(p, r); err != nil {
		return 0, fmt.Errorf("renew %s: %w", r.Describe(), err)
	}
	if err != nil {
		return 0, h.lostOrHidden(ctx, p, r, err) // it says what was tried, and names the lost leases
	}
	h.noteTTL(ctx, handle, &r, renewal.TTL)
	return renewal.TTL, nil
}

// noteTTL writes into the handle of a record how long its leases last after their last renewal, by which others know
// when they have ended. The lease is renewed all the same if that fails.
func (h *Holder) noteTTL(ctx context.Context, handle lockfile.Handle, r *lockfile.Record, ttl time.Duration) {
	if r.TTL == ttl || r.Lasts() {
		return
	}
	err := updateHandle(ctx, ownLockTime, handle, func(tx *lockfile.Tx) error {
		if tx.State == lockfile.HandleHeld && tx.SameGrant(*r) {
			tx.TTL = ttl
		}
		return nil
	})
	if err != nil {
		h.Reporter.Debugf("%v", err)
	}
	r.TTL = ttl
}

// Size is how many units a lease of a counted pool shall hold: Count, or the cost of Items.
type Size struct {
	Count int
	Items *int // nil: Count counts
}

// Resize changes how many units the lease of a handle holds, and returns the new number. A
// smaller number is always accepted. A larger one is tried once: the error is
// [proxyclient.ErrNoRoom] if it does not fit now. After a refusal the lease holds what it held
// before. Resize takes at most [cleanup.Timeout].
//
// The error is [usage.Err] if the lease is of a listed pool, or the pool never has that many units.
func (h *Holder) Resize(ctx context.Context, handle lockfile.Handle, to Size) (units int, err error) {
	ctx, cancel := context.WithTimeout(ctx, cleanup.Timeout)
	defer cancel()
	err = handle.Update(ctx, func(tx *lockfile.Tx) error {
		if err := checkResizable(handle, tx.Record); err != nil {
			return err
		}
		p, err := h.Dialer.DialRecorded(ctx, tx.Record)
		if err != nil {
			return err
		}
		units, err = h.resize(ctx, p.Client, tx, to)
		if err := h.notHere(p, tx.Record); err != nil {
			return fmt.Errorf("resize %s: %w", tx.Describe(), err)
		}
		return h.lostOrHidden(ctx, p, tx.Record, err)
	})
	if err != nil {
		return 0, err
	}
	return units, nil
}

// checkResizable refuses handles that hold no single lease with a generation.
func checkResizable(handle lockfile.Handle, r lockfile.Record) error {
	if err := checkAcquired(handle, r, "resize"); err != nil {
		return err
	}
	if len(r.Leases) != 1 {
		return usage.Errorf("resize %s: these are %d leases: only the one lease of a counted pool has units", strings.Join(r.Names(), ", "), len(r.Leases))
	}
	return nil
}

// maxResyncs is how often a resize begins anew because the handle was wrong. One is enough,
// unless the answer to a resize that found no room was lost.
const maxResyncs = 3

// resize asks the proxy, and sets in tx's record how many units the lease holds. If the record
// differs from what the proxy says, an earlier resize was killed before it wrote the record: no
// other resize is under way, since this one holds the lock of the handle.
func (h *Holder) resize(ctx context.Context, client *proxyclient.Client, tx *lockfile.Tx, to Size) (units int, err error) {
	lease := v1.GrantOf(tx.Leases, tx.Adapter).Grant.Leases[0]
	for resyncs := 0; ; resyncs++ {
		request := leaseapi.ResizeRequest{
			Name: lease.Name, Generation: lease.Generation, RequestID: tx.RequestID, From: tx.Units, After: new(tx.Resizes), Count: to.Count, Items: to.Items,
		}
		var now leaseapi.ResizeReply
		now, err = client.Resize(ctx, request)
		if now.Units > 0 {
			tx.Units, tx.Resizes = now.Units, now.Resizes
		}
		if _, stale := errors.AsType[*proxyclient.StaleError](err); !stale || now.Units == 0 || resyncs == maxResyncs {
			break
		}
		h.Reporter.Debugf("%s holds %d units after %d resizes, not %d after %d: resizing from there",
			lease.Name, now.Units, now.Resizes, request.From, *request.After)
	}
	switch {
	case err == nil:
		return tx.Units, nil
	case errors.Is(err, proxyclient.ErrTooMany), errors.Is(err, proxyclient.ErrNotCounted):
		err = usage.Mark(err)
	}
	return 0, errors.Join(err, tx.Save())
}

// notHere is the error for the lease of a record about which a proxy with another store was asked; nil if it has the same.
func (h *Holder) notHere(p *v1.Proxy, r lockfile.Record) error {
	fresh, err := h.Dialer.Settles(p, r.Store, r.Proxy)
	if fresh {
		err = fmt.Errorf("%w: %s", proxyclient.ErrLost, otherStore)
	}
	return err
}

// notHeldError is the error about a handle that holds no lease.
func notHeldError(handle lockfile.Handle, r lockfile.Record) error {
	if r.State == lockfile.HandleQueued {
		return fmt.Errorf("handle %s holds no lease yet: it waits for one: try again when it has one", handle.Path())
	}
	return fmt.Errorf("handle %s holds no lease: a release of it failed: release it again, or use leasectl reacquire", handle.Path())
}

// checkAcquired refuses a handle that holds no lease which was acquired into it. verb says in
// the error what the caller wants to do with the lease.
func checkAcquired(handle lockfile.Handle, r lockfile.Record, verb string) error {
	switch {
	case r.State == "":
		return fmt.Errorf("handle %s is gone: there is no lease to %s: acquire one", handle.Path(), verb)
	case r.State != lockfile.HandleHeld:
		return notHeldError(handle, r)
	case r.Bare():
		return fmt.Errorf("handle %s has names and nothing else, as a copy has: %s the handle that acquire wrote", handle.Path(), verb)
	}
	return nil
}
