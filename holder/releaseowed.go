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
// release of that handle settles it. Where a journal entry says as much, the
// handle is not written first.

// decision says to which proxy the release of something owed is sent, or why it
// cannot be sent.
type decision func(ctx context.Context, o lockfile.Owed) (proxy string, err error)

// toItsProxy is the decision to send a release to the proxy that the lease is from.
func (h *Holder) toItsProxy(_ context.Context, o lockfile.Owed) (proxy string, err error) {
	if proxy = h.dialer.proxyOf(o.Proxy); proxy == "" {
		return "", fmt.Errorf("release %s: the handle does not say which proxy it is from: name it with --proxy", describeOwed(o))
	}
	return proxy, nil
}

// releaseOwed sends the releases of what tx's record owes, oldest first, up to the first
// that decide does not let go, and takes each off the record when it is answered. What
// the proxy does not confirm, nor ever will, stays as unconfirmed, and is not sent
// again. The caller writes the record.
func (h *Holder) releaseOwed(ctx context.Context, tx *lockfile.Tx, decide decision) (released []string, failed error) {
	sendable, unconfirmed := splitUnconfirmed(tx.Owed)
	var proxies []string // to which the first of sendable go
	for _, o := range sendable {
		var proxy string
		if proxy, failed = decide(ctx, o); failed != nil {
			break
		}
		proxies = append(proxies, proxy)
	}
	tx.Owed = slices.Concat(unconfirmed, sendable)
	if err := noteSending(tx, sendable[:len(proxies)]); err != nil {
		return nil, err
	}
	failpoint("release-unsent")
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
	tx.Owed = slices.Concat(unconfirmed, sendable)
	if len(unconfirmed) > 0 {
		failed = errors.Join(&proxyclient.UnconfirmedReleaseError{Names: namesOf(unconfirmed)}, failed)
	}
	return released, failed
}

// releaseOwedOnce is releaseOwed for a caller who needs the handle for another request. It
// sends nothing that may end somebody else's lease: that stays as unconfirmed.
func (h *Holder) releaseOwedOnce(ctx context.Context, tx *lockfile.Tx) (released []string, err error) {
	for i, o := range tx.Owed {
		proxy := h.dialer.proxyOf(o.Proxy)
		if proxy == "" || o.Unconfirmed {
			continue // of no proxy: releaseOwed says so
		}
		anothers, err := h.mayBeAnothers(ctx, o, proxy)
		if err != nil {
			return nil, fmt.Errorf("release %s: %w", describeOwed(o), err)
		}
		tx.Owed[i].Unconfirmed = anothers
	}
	return h.releaseOwed(ctx, tx, h.toItsProxy)
}

// mayBeAnothers tells whether a release of what is owed could end somebody else's lease:
// an earlier release may have arrived, and the proxy, of version 1, releases a name no
// matter who holds it.
func (h *Holder) mayBeAnothers(ctx context.Context, o lockfile.Owed, proxy string) (bool, error) {
	if !bare(o.Leases) || o.Unsent {
		return false, nil
	}
	client, err := h.dialer.dial(ctx, proxy)
	if err != nil {
		return false, err
	}
	can, err := client.Capabilities(ctx)
	return err == nil && !can.ChecksOwners(), err
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
// be sent: a process that finds it after a kill cannot know whether they were.
func noteSending(tx *lockfile.Tx, sending []lockfile.Owed) error {
	changed := false
	for _, s := range sending {
		for i, o := range tx.Owed {
			if o.RequestID == s.RequestID && o.Unsent && bare(o.Leases) {
				tx.Owed[i].Unsent, changed = false, true
			}
		}
	}
	if !changed {
		return nil
	}
	return tx.Save()
}

// releaseHandle gives back what tx's handle owes, and with all also what it holds
// or waits for. The record says so before the first release is sent, unless the
// journal does, and is written if one fails; a handle that is left with nothing is
// to be removed.
//
// If the record cannot be written, as on a full disk, a lease with a generation is
// released all the same: a process that finds the old record releases it again, which
// does nothing.
func (h *Holder) releaseHandle(ctx context.Context, tx *lockfile.Tx, all bool, decide decision) (released []string, err error) {
	if all && unreleased(tx.Record) {
		journaled, again := h.releasedIfKilled(tx), safeAgain(tx.Record)
		tx.Record = lockfile.Record{State: lockfile.StateReleasing, Owed: owedBy(tx.Record)}
		if !journaled {
			if err := tx.Save(); err != nil && !again {
				return nil, err
			} else if err != nil {
				h.report.Debugf("%v: releasing all the same", err)
			}
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

// releasedIfKilled tells whether all that a handle holds would be released if this
// process were killed now, by the process that settles its journal entry. That may be a
// second release, so the leases must have generations. The entry names a request, so the
// record on disk must be of that request.
func (h *Holder) releasedIfKilled(tx *lockfile.Tx) bool {
	return safeAgain(tx.Record) && len(tx.Owed) == 0 &&
		tx.RequestOnDisk() == tx.RequestID && h.journal.releasesAfterUs(tx.RequestID)
}

// safeAgain tells whether what a handle holds may be released twice: its leases have
// generations.
func safeAgain(r lockfile.Record) bool {
	return r.State == lockfile.StateHeld && len(r.Leases) > 0 && !bare(r.Leases)
}

// tidyAfter follows what was given back: its journal entries go, and so do its
// keepers.
func (h *Holder) tidyAfter(owed []lockfile.Owed) {
	for _, o := range owed {
		h.journal.settle(o.RequestID)
		h.keepers.dismiss(o.RequestID)
	}
}

// removeReleased removes the handle that got what was owed, if all that it holds was given
// back by now, by its names or a copy: no script need release it as well. The handle of a
// command that runs stays: without it, exec would take the lease for given back, and not
// for lost. A handle that cannot be removed does no harm.
func (h *Holder) removeReleased(ctx context.Context, o lockfile.Owed) {
	handle, known := h.handleOf(o, h.dialer.storeOf(o.Store, h.dialer.proxyOf(o.Proxy)))
	if !known || h.journal.execs(o.RequestID) {
		return
	}
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), historyTime)
	defer cancel()
	removed := false
	err := handle.Update(ctx, func(tx *lockfile.Tx) error {
		if removed = tx.RequestID == o.RequestID && h.releasedElsewhere(tx.Record); removed {
			tx.Record = lockfile.Record{}
		}
		return nil
	})
	if err != nil {
		h.report.Debugf("%v", err)
	} else if removed {
		h.tidyAfter([]lockfile.Owed{o})
	}
}
