package holder

import (
	"context"
	"errors"
	"fmt"
	"slices"

	"github.com/leasectl/leasectl/lockfile"
	"github.com/leasectl/leasectl/proxyclient"
)

// releaseHandle gives back the leases that tx's handle owes; with all, also the lease that it
// holds or the request that waits. The record on disk says so before the first release is sent,
// unless a journal entry says it, and again if a release fails. After success a record that
// only owed leases is empty, so that its handle is removed.
//
// If the record cannot be written, as on a full disk, a lease with a generation is released all
// the same: a process that finds the old record releases the lease again, which does nothing.
func (h *Holder) releaseHandle(ctx context.Context, tx *lockfile.Tx, all bool, decide decision) (released []string, err error) {
	if all && unreleased(tx.Record) {
		journaled, again := h.releasedIfKilled(tx), safeToReleaseAgain(tx.Record)
		tx.Record = releasingRecord(tx.Record, owedBy(tx.Record))
		if !journaled {
			err := tx.Save()
			if err != nil && !again {
				return nil, err
			}
			if err != nil {
				h.report.Debugf("%v: releasing all the same", err)
			}
		}
	}
	released, err = h.releaseOwed(ctx, tx, decide)
	failpoint.Here("release-answered")
	if err != nil {
		return released, errors.Join(err, tx.Save())
	}
	if tx.State == lockfile.StateReleasing {
		tx.Record = lockfile.Record{}
	}
	return released, nil
}

// releasedIfKilled tells whether recover would release all that a handle holds if this
// process were killed now. That may be a second release, so the leases must have
// generations. The journal entry names a request, so the record on disk must be of that
// request.
func (h *Holder) releasedIfKilled(tx *lockfile.Tx) bool {
	return safeToReleaseAgain(tx.Record) && len(tx.Owed) == 0 &&
		tx.RequestOnDisk() == tx.RequestID && h.journal.releasedByRecover(tx.RequestID)
}

// safeToReleaseAgain tells whether the leases that a handle holds may be released twice: they have
// generations.
func safeToReleaseAgain(r lockfile.Record) bool {
	return r.State == lockfile.StateHeld && len(r.Leases) > 0 && !namesOnly(r.Leases)
}

// releaseOwed sends the releases of all that tx's record owes, one proxy after the other. It
// takes each off the record when the proxy has answered. A proxy that fails uses up only its
// own share of the time. The caller writes the record.
func (h *Holder) releaseOwed(ctx context.Context, tx *lockfile.Tx, decide decision) (released []string, failed error) {
	var proxies []string // the recorded ones, oldest first
	for _, o := range tx.Owed {
		if !slices.Contains(proxies, o.Proxy) {
			proxies = append(proxies, o.Proxy)
		}
	}
	var errs []error
	for i, proxy := range proxies {
		ctx, cancel := shareOfTime(ctx, len(proxies)-i)
		names, err := h.releaseOwedTo(ctx, tx, proxy, decide)
		cancel()
		released, errs = append(released, names...), append(errs, err)
	}
	return released, errors.Join(errs...)
}

// releaseOwedTo is releaseOwed for one recorded proxy. It sends the oldest release first, and
// stops at the first that decide refuses or that fails. It asks decide about all before it
// sends the first, so that one write of the record notes which may have been sent. A release
// that the proxy will never confirm stays in the record as unconfirmed, and is not sent again.
func (h *Holder) releaseOwedTo(ctx context.Context, tx *lockfile.Tx, recorded string, decide decision) (released []string, failed error) {
	others, owed := splitOwed(tx.Owed, func(o lockfile.Owed) bool { return o.Proxy != recorded })
	sendable, unconfirmed := splitUnconfirmed(owed)
	var proxies []string // proxies[i] is that of sendable[i]
	for _, o := range sendable {
		var proxy string
		if proxy, failed = decide(ctx, o); failed != nil {
			break
		}
		proxies = append(proxies, proxy)
	}
	tx.Owed = slices.Concat(others, unconfirmed, sendable)
	if err := noteSending(tx, sendable[:len(proxies)]); err != nil {
		return nil, err
	}
	failpoint.Here("release-unsent")
	for _, proxy := range proxies {
		o := &sendable[0]
		names, err := h.send(ctx, tx.Path(), proxy, o)
		released = append(released, names...)
		if forgotten, ok := errors.AsType[*proxyclient.UnconfirmedReleaseError](err); ok {
			o.Leases = slices.DeleteFunc(o.Leases, func(l lockfile.Lease) bool { return !slices.Contains(forgotten.Names, l.Name) })
			o.Unconfirmed = true
			unconfirmed = append(unconfirmed, *o)
		} else if err != nil {
			failed = err
			break
		}
		sendable = sendable[1:]
	}
	tx.Owed = slices.Concat(others, unconfirmed, sendable)
	if len(unconfirmed) > 0 {
		failed = errors.Join(&proxyclient.UnconfirmedReleaseError{Names: namesOf(unconfirmed)}, failed)
	}
	return released, failed
}

// noteSending notes in tx's record that releases of bare names are about to be sent: after a
// kill nobody can know whether they were sent.
func noteSending(tx *lockfile.Tx, sending []lockfile.Owed) error {
	changed := false
	for _, s := range sending {
		for i, o := range tx.Owed {
			if o.RequestID == s.RequestID && o.Unsent && namesOnly(o.Leases) {
				tx.Owed[i].Unsent, changed = false, true
			}
		}
	}
	if !changed {
		return nil
	}
	return tx.Save()
}

// splitUnconfirmed returns the leases whose release may be sent, and the unconfirmed ones.
func splitUnconfirmed(owed []lockfile.Owed) (sendable, unconfirmed []lockfile.Owed) {
	return splitOwed(owed, func(o lockfile.Owed) bool { return !o.Unconfirmed })
}

// splitOwed returns the entries of owed for which is returns true, and the rest.
func splitOwed(owed []lockfile.Owed, is func(lockfile.Owed) bool) (those, rest []lockfile.Owed) {
	for _, o := range owed {
		if is(o) {
			those = append(those, o)
		} else {
			rest = append(rest, o)
		}
	}
	return those, rest
}

// decision returns the proxy to which the release of o is sent, or an error that says why the
// release cannot be sent.
type decision func(ctx context.Context, o lockfile.Owed) (proxy string, err error)

// toItsProxy is the [decision] to send a release to the proxy that granted the lease, or to the
// proxy that the user named in its place.
func (h *Holder) toItsProxy(_ context.Context, o lockfile.Owed) (proxy string, err error) {
	if proxy = h.dialer.proxyOf(o.Proxy); proxy == "" {
		return "", fmt.Errorf("release %s: the handle does not say which proxy it is from: name it with --proxy", describeOwed(o))
	}
	return proxy, nil
}

// releaseCertainOwed is releaseOwed for a caller that needs the handle for another request. It
// does not send a release that may end somebody else's lease: that release stays as
// unconfirmed. Each release goes to the recorded proxy, even if the user named another proxy
// for the request.
func (h *Holder) releaseCertainOwed(ctx context.Context, tx *lockfile.Tx) (released []string, err error) {
	for i, o := range tx.Owed {
		if o.Unconfirmed {
			continue
		}
		anothers, err := h.mayEndAnothersLease(ctx, o, o.Proxy)
		if err != nil {
			return nil, fmt.Errorf("release %s: %w", describeOwed(o), err)
		}
		tx.Owed[i].Unconfirmed = anothers
	}
	return h.releaseOwed(ctx, tx, func(_ context.Context, o lockfile.Owed) (string, error) { return o.Proxy, nil })
}

// readdress writes the proxy that the user named into the entries of owed that have no proxy,
// or whose proxy is proven to be the named one at an older address. A named proxy that cannot
// say which store it has replaces no other: the leases could be lost there.
func (h *Holder) readdress(ctx context.Context, owed []lockfile.Owed) error {
	for i, o := range owed {
		if o.Unconfirmed {
			continue
		}
		proxy, err := h.toItsProxy(ctx, o)
		if err != nil {
			return err
		}
		name, err := h.dialer.name(proxy)
		if err != nil {
			return err
		}
		from := originOf(o)
		client, err := h.dialer.dialFor(ctx, proxy, from)
		if _, other := errors.AsType[otherStoreError](err); other {
			continue
		}
		if err == nil && (o.Proxy == "" || sameProxy(o.Proxy, name) || from.provenBy(client)) {
			owed[i].Proxy = name
		}
		if err != nil {
			return fmt.Errorf("release %s: %w", describeOwed(o), err)
		}
	}
	return nil
}

// mayEndAnothersLease tells whether a release of o could end somebody else's lease: an earlier
// release may have arrived, and the proxy is of version 1, which releases a name no matter who
// holds it.
func (h *Holder) mayEndAnothersLease(ctx context.Context, o lockfile.Owed, proxy string) (bool, error) {
	if !namesOnly(o.Leases) || o.Unsent {
		return false, nil
	}
	client, err := h.dialer.dial(ctx, proxy)
	if err != nil {
		return false, err
	}
	can, err := client.Capabilities(ctx)
	return err == nil && !can.ChecksOwners(), err
}
