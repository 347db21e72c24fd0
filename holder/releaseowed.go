package holder

import (
	"context"
	"errors"
	"fmt"
	"slices"

	"github.com/leasectl/leasectl/lockfile"
	"github.com/leasectl/leasectl/proxyclient"
)

// Giving back a lease first moves it, in the handle, from what is held to what
// is owed; then the proxy is told; then it is forgotten. A process that is
// killed in between leaves a handle that says what is owed, and the next
// release of that handle settles it.

// decision says where to send the releases of what is owed, oldest first, up to
// the first that cannot be sent, and why that one cannot.
type decision func(ctx context.Context, owed []lockfile.Owed) ([]delivery, error)

// toTheirProxies sends each release to the proxy that the lease is from.
func (h *Holder) toTheirProxies(_ context.Context, owed []lockfile.Owed) (deliveries []delivery, err error) {
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
// takes each off the record when it is answered. What the proxy does not confirm,
// nor ever will, stays as unconfirmed, and is not sent again. The caller writes the
// record.
func (h *Holder) releaseOwed(ctx context.Context, tx *lockfile.Tx, decide decision) (released []string, err error) {
	sendable, unconfirmed := splitUnconfirmed(tx.Owed)
	deliveries, failed := decide(ctx, sendable)
	tx.Owed = slices.Concat(unconfirmed, sendable)
	if err := noteSending(tx, deliveries); err != nil {
		return nil, err
	}
	failpoint("release-unsent")
	for len(deliveries) > 0 {
		d := deliveries[0]
		var names []string
		var forgotten *proxyclient.UnconfirmedReleaseError
		names, err = h.send(ctx, tx.Path(), &d)
		released = append(released, names...)
		if errors.As(err, &forgotten) {
			d.owed.Leases = slices.DeleteFunc(d.owed.Leases, func(l lockfile.Lease) bool { return !slices.Contains(forgotten.Names, l.Name) })
			d.owed.Unconfirmed = true
			unconfirmed = append(unconfirmed, d.owed)
		} else if err != nil {
			failed = err
			sendable[0] = d.owed
			break
		}
		deliveries, sendable = deliveries[1:], sendable[1:]
	}
	tx.Owed = slices.Concat(unconfirmed, sendable)
	if len(unconfirmed) > 0 {
		failed = errors.Join(&proxyclient.UnconfirmedReleaseError{Names: namesOf(unconfirmed)}, failed)
	}
	return released, failed
}

// splitUnconfirmed returns what may be sent, and what may not.
func splitUnconfirmed(owed []lockfile.Owed) (sendable, unconfirmed []lockfile.Owed) {
	for _, o := range owed {
		if o.Unconfirmed {
			unconfirmed = append(unconfirmed, o)
		} else {
			sendable = append(sendable, o)
		}
	}
	return sendable, unconfirmed
}

// noteSending writes into tx's record that the releases of bare names are about to
// be sent: whoever finds it later cannot know whether they were.
func noteSending(tx *lockfile.Tx, deliveries []delivery) error {
	changed := false
	for _, d := range deliveries {
		for i, o := range tx.Owed {
			if o.RequestID == d.owed.RequestID && o.Unsent && bare(o.Leases) {
				tx.Owed[i].Unsent, changed = false, true
			}
		}
	}
	if !changed {
		return nil
	}
	return tx.Save()
}

// releaseAll gives back what tx's handle owes, and with all also what it holds
// or waits for. The record says so before the first release is sent, and is
// written if one fails; a handle that is left with nothing is to be removed.
func (h *Holder) releaseAll(ctx context.Context, tx *lockfile.Tx, all bool, decide decision) (released []string, err error) {
	if all && unreleased(tx.Record) {
		tx.Record = lockfile.Record{State: lockfile.StateReleasing, Owed: owedBy(tx.Record)}
		if err := tx.Save(); err != nil {
			return nil, err
		}
	}
	released, err = h.releaseOwed(ctx, tx, decide)
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
