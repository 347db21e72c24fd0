package holder

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"

	"github.com/leasectl/leasectl/leaseapi"
	"github.com/leasectl/leasectl/lockfile"
	"github.com/leasectl/leasectl/proxyclient"
)

// Giving back a lease first moves it, in the handle, from what is held to what
// is owed; then the proxy is told; then it is forgotten. A process that is
// killed in between leaves a handle that says what is owed, and the next
// release of that handle settles it.

// owedBy returns all that a record makes its handle owe to proxies, oldest
// first. The lease that it holds, or the request that waits, is last.
func owedBy(r lockfile.Record) []lockfile.Owed {
	owed := r.Owed
	if unreleased(r) {
		owed = append(owed, lockfile.Owed{
			RequestID:  r.RequestID,
			Owner:      r.Owner,
			Proxy:      r.Proxy,
			Leases:     r.Leases,
			SharedList: r.SharedList,
			Unsent:     true,
		})
	}
	return owed
}

// unreleased tells whether a record has something that nobody has begun to give
// back.
func unreleased(r lockfile.Record) bool {
	return r.State == lockfile.StateQueued || r.State == lockfile.StateHeld
}

// bare tells whether leases are known by name only, as those of a version-1
// proxy are: it neither renews nor releases late.
func bare(leases []lockfile.Lease) bool {
	return proxyclient.CapabilitiesOf(wireLeases(leases)).NamesOnly()
}

// Holds tells whether a lease that a proxy knows is one of a record's. A
// lease that the record knows by name only is the lease of that name.
func Holds(r lockfile.Record, l leaseapi.Lease) bool {
	return slices.ContainsFunc(r.Leases, func(ours lockfile.Lease) bool {
		return ours == lockfile.Lease(l) || ours.Name == l.Name && bare([]lockfile.Lease{ours})
	})
}

// delivery is something owed, and the proxy to which its release is to be sent.
type delivery struct {
	owed  lockfile.Owed
	proxy string
}

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
		names, err = h.send(ctx, &d)
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

// send releases what is owed to a proxy, and notes in d whether that may have
// reached it.
func (h *Holder) send(ctx context.Context, d *delivery) ([]string, error) {
	client, err := h.dialer.dial(ctx, d.proxy)
	if err != nil {
		return nil, err
	}
	if !d.owed.Unsent && bare(d.owed.Leases) {
		client.ReleaseAttempted(d.owed.Names())
	}
	reply, err := client.Release(ctx, h.releaseRequest(d.owed))
	d.owed.Unsent = d.owed.Unsent && !client.MayHaveReached(d.owed.Names())
	// A version-1 proxy knows no request ids: what waits there notices by itself
	// that its handle was released, and gives back.
	if err != nil && (len(d.owed.Leases) > 0 || !errors.Is(err, errors.ErrUnsupported)) {
		return reply.Released, fmt.Errorf("release %s: %w", describeOwed(d.owed), err)
	}
	for _, lost := range reply.Stale {
		h.report.Notef("%s was no longer this handle's: %s", lost.Name, lost.Reason)
	}
	if d.owed.SharedList != "" {
		if err := lockfile.List(d.owed.SharedList).Remove(ctx, d.owed.Names()); err != nil {
			h.report.Failf("%v", err) // the lease is back; a line too many in a list is no reason to keep the handle
		}
	}
	return reply.Released, nil
}

// settle follows what was given back: its journal entries go, and so do its
// keepers.
func (h *Holder) settle(owed []lockfile.Owed) {
	for _, o := range owed {
		h.journal.settle(o.RequestID)
		h.keepers.dismiss(o.RequestID)
	}
}

// releaseRequest is the release of what is owed: by generations where there are
// any, by names and owner where a version-1 proxy or a copied handle has none,
// by request id where nothing was granted that we know of.
func (h *Holder) releaseRequest(o lockfile.Owed) leaseapi.ReleaseRequest {
	if len(o.Leases) == 0 {
		return leaseapi.ReleaseRequest{RequestIDs: []string{o.RequestID}}
	}
	owner := o.Owner
	if owner == "" {
		owner = h.owner()
	}
	return proxyclient.Releasing(wireLeases(o.Leases), owner)
}

// describeOwed names what is owed in an error.
func describeOwed(o lockfile.Owed) string {
	if len(o.Leases) == 0 {
		return "request " + o.RequestID
	}
	return strings.Join(o.Names(), ", ")
}

// proxyOwed is a proxy that a record makes its handle owe to.
func proxyOwed(r lockfile.Record) string {
	for _, o := range owedBy(r) {
		if o.Proxy != "" {
			return o.Proxy
		}
	}
	return ""
}

// namesOf are the names of what is owed.
func namesOf(owed []lockfile.Owed) (names []string) {
	for _, o := range owed {
		names = append(names, o.Names()...)
	}
	return names
}

// wireLeases are a handle's leases as the proxy knows them.
func wireLeases(leases []lockfile.Lease) []leaseapi.Lease {
	out := make([]leaseapi.Lease, len(leases))
	for i, l := range leases {
		out[i] = leaseapi.Lease(l)
	}
	return out
}
