package holder

import (
	"context"
	"errors"
	"fmt"

	"github.com/leasectl/leasectl/lockfile"
)

// Giving back a lease first moves it, in the handle, from what is held to what
// is owed; then the proxy is told; then it is forgotten. A process that is
// killed in between leaves a handle that says what is owed, and the next
// release of that handle settles it.

// decision says where to send the releases of what is owed, oldest first, up to
// the first that cannot be sent, and why that one cannot. fresh says that nobody
// can have sent the last one's release before.
type decision func(ctx context.Context, owed []lockfile.Owed, fresh bool) ([]delivery, error)

// toTheirProxies sends each release to the proxy that the lease is from.
func (h *Holder) toTheirProxies(_ context.Context, owed []lockfile.Owed, _ bool) (deliveries []delivery, err error) {
	for _, o := range owed {
		proxy := h.dialer.of(o.Proxy)
		if proxy == "" {
			return deliveries, fmt.Errorf("release %s: the handle does not say which proxy it is from: name it with --proxy", describeOwed(o))
		}
		deliveries = append(deliveries, delivery{o, proxy})
	}
	return deliveries, nil
}

// releaseOwed sends the releases of what tx's record owes, as decide says, and
// takes each off the record when it is answered. The caller writes the record.
func (h *Holder) releaseOwed(ctx context.Context, tx *lockfile.Tx, fresh bool, decide decision) (released []string, err error) {
	deliveries, undecided := decide(ctx, tx.Owed, fresh)
	for _, d := range deliveries {
		names, err := h.send(ctx, tx.Path(), d)
		released = append(released, names...)
		if err != nil {
			return released, err
		}
		tx.Owed = tx.Owed[1:]
	}
	return released, undecided
}

// releaseAll gives back what tx's handle owes, and with all also what it holds
// or waits for. The record says so before the first release is sent, and is
// written if one fails; a handle that is left with nothing is to be removed.
func (h *Holder) releaseAll(ctx context.Context, tx *lockfile.Tx, all bool, decide decision) (released []string, err error) {
	fresh := all && unreleased(tx.Record)
	if fresh {
		tx.Record = lockfile.Record{State: lockfile.StateReleasing, Owed: owedBy(tx.Record)}
		if err := tx.Save(); err != nil {
			return nil, err
		}
	}
	failpoint("release-unsent")
	released, err = h.releaseOwed(ctx, tx, fresh, decide)
	failpoint("release-answered")
	if err != nil {
		return released, errors.Join(err, tx.Save())
	}
	if tx.State == lockfile.StateReleasing {
		tx.Record = lockfile.Record{}
	}
	return released, nil
}

// settle follows what was given back: its journal entries go, and so do its
// keepers.
func (h *Holder) settle(owed []lockfile.Owed) {
	for _, o := range owed {
		h.journal.settle(o.RequestID)
		h.keepers.dismiss(o.RequestID)
	}
}
