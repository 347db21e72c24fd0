package holder

import (
	"cmp"
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/leasectl/leasectl/lockfile"
)

// Named are names that a user gave: on a command line, in a copy of a handle or in a list. They
// mean leases that were granted before the command began, and never later ones.
type Named struct {
	grants  []lockfile.Grant            // with all that a list says of each, or the name only
	history map[string][]lockfile.Grant // the newest grants of each name, one per store, when the command began
	began   time.Time
	written time.Time // when the file with the names was written; zero: there is no file
	list    lockfile.List
}

// Named returns what names mean now.
func (h *Holder) Named(names []string) Named {
	leases := make([]lockfile.Lease, len(names))
	for i, name := range names {
		leases[i].Name = name
	}
	return h.named(grantsOf(leases, "", ""), time.Time{})
}

// Listed returns what the entries of a list mean now. It is an error if the list cannot be
// written, because released entries would stay. That does not matter if all entries have
// generations: releasing those again does nothing.
func (h *Holder) Listed(ctx context.Context, list lockfile.List) (Named, error) {
	unwritable := checkList(ctx, list)
	grants, written, err := list.Read()
	switch {
	case unwritable != nil && (err != nil || len(grants) == 0 || slices.ContainsFunc(grants, namesOnlyGrant)):
		return Named{}, unwritable
	case err != nil:
		return Named{}, err
	}
	n := h.named(grants, written)
	n.list = list
	return n, nil
}

// namedIn returns what the names of a bare handle mean now.
func (h *Holder) namedIn(handle lockfile.Handle, r lockfile.Record) Named {
	return h.named(grantsOf(r.Leases, "", ""), handle.Modified())
}

func (h *Holder) named(grants []lockfile.Grant, written time.Time) Named {
	n := Named{grants: grants, history: make(map[string][]lockfile.Grant), began: lockfile.FileTime(), written: written}
	for _, g := range grants {
		n.history[g.Name] = h.history.all(g.Name)
	}
	return n
}

// Names returns the names.
func (n Named) Names() []string {
	names := make([]string, len(n.grants))
	for i, g := range n.grants {
		names[i] = g.Name
	}
	return names
}

// ended is a name whose lease is known to be over, and why.
type ended struct {
	name, why string
}

// owed returns the leases to release for these names at a store, one entry for each request, in
// the order of the names. It also returns the names whose leases are over.
func (n Named) owed(store, owner string) (owed []lockfile.Owed, over []ended) {
	type request struct{ store, id string }
	place := make(map[request]int) // in owed
	for _, given := range n.grants {
		g, why := n.meaning(given, store, owner)
		if why != "" {
			over = append(over, ended{given.Name, why})
			continue
		}
		of := request{cmp.Or(g.Store, store), g.RequestID}
		at, ok := place[of]
		if !ok {
			at = len(owed)
			place[of] = at
			owed = append(owed, lockfile.Owed{
				RequestID: g.RequestID, Owner: g.Owner, Store: of.store, SharedList: cmp.Or(string(n.list), g.SharedList), NotAfter: g.At, Unsent: true,
			})
		}
		owed[at].Leases = append(owed[at].Leases, g.Lease)
	}
	return owed, over
}

// meaning returns the grant that a name stands for, or why its lease is over. For a name
// without a generation, the history of this machine decides whether the lease is over. With a
// generation the proxy decides: a generation never means a later lease.
func (n Named) meaning(given lockfile.Grant, store, owner string) (g lockfile.Grant, why string) {
	newest, known := grantAt(store, n.history[given.Name])
	if given.RequestID != "" { // an entry of a list
		return given, entryOver(given, newest)
	}
	byName := lockfile.Grant{Lease: lockfile.Lease{Name: given.Name}, Owner: owner, At: n.notAfter()}
	nameOnly, givenBack := namesOnlyGrant(newest), !newest.GivenBack.IsZero()
	switch {
	case !known:
		return byName, ""
	case !n.written.IsZero() && newest.At.After(n.written):
		return g, "the file that names it is older than the lease, " + grantedAgain(newest)
	case newest.Owner != owner && nameOnly && !givenBack:
		return g, "it is held by " + newest.Owner
	case newest.Owner != owner:
		return byName, ""
	case nameOnly && givenBack:
		return g, "it was given back before"
	}
	return newest, ""
}

// entryOver returns why the lease of a list's entry is over; "" if it is not known to be over.
// newest is the newest grant of its name, or the zero Grant.
func entryOver(entry, newest lockfile.Grant) (why string) {
	switch {
	case !namesOnlyGrant(entry): // the proxy knows
	case entry.RequestID == newest.RequestID && !newest.GivenBack.IsZero():
		return "it was given back before"
	case entry.RequestID != newest.RequestID && newest.At.After(entry.At):
		return grantedAgain(newest)
	}
	return ""
}

func grantedAgain(g lockfile.Grant) string {
	return "it was granted again at " + g.At.Format(time.RFC3339)
}

// namesOnlyGrant tells whether a grant has no generation, as from a version-1 proxy.
func namesOnlyGrant(g lockfile.Grant) bool { return namesOnly([]lockfile.Lease{g.Lease}) }

// notAfter returns the latest time at which the lease of a bare name can have been granted.
func (n Named) notAfter() time.Time {
	if !n.written.IsZero() && n.written.Before(n.began) {
		return n.written
	}
	return n.began
}

// bareHandle tells whether a record is of a handle that is only a file of names.
func bareHandle(r lockfile.Record) bool {
	return r.State == lockfile.StateHeld && r.RequestID == ""
}

// owedOf is [Named.owed] at the store of the proxy that the user named.
//
// If this machine remembers one of the names from a store with an id, owedOf asks the proxy for
// the id of its store: without the id, a stale name would look like an unknown one.
func (h *Holder) owedOf(ctx context.Context, n Named) (owed []lockfile.Owed, over []ended, err error) {
	proxy, err := h.dialer.name(h.dialer.URL)
	if err != nil {
		return nil, nil, err
	}
	client, err := h.dialer.dial(ctx, h.dialer.URL)
	if err != nil {
		return nil, nil, err
	}
	if client.Store() == "" && n.anyStoreID() {
		if _, err := client.Health(ctx); err != nil && client.Store() == "" && !errors.Is(err, errors.ErrUnsupported) {
			return nil, nil, fmt.Errorf("release %s: %w", strings.Join(n.Names(), ", "), err)
		}
	}
	store := h.dialer.storeOf("", h.dialer.URL)
	owed, over = n.owed(store, h.owner())
	for i := range owed {
		if owed[i].Store == store {
			owed[i].Proxy = proxy // a list does not say the proxies of other stores
		}
	}
	return owed, over, nil
}

// anyStoreID tells whether some of the names are known from a store with an id.
func (n Named) anyStoreID() bool {
	for _, grants := range n.history {
		if slices.ContainsFunc(grants, func(g lockfile.Grant) bool { return isStoreID(g.Store) }) {
			return true
		}
	}
	return slices.ContainsFunc(n.grants, func(g lockfile.Grant) bool { return isStoreID(g.Store) })
}

// identify returns the record that a bare handle would have if its leases had been acquired
// into it; the zero Record if all of them are over. It tells the user which leases are over.
func (h *Holder) identify(ctx context.Context, n Named) (lockfile.Record, error) {
	owed, over, err := h.owedOf(ctx, n)
	h.sayEnded(over)
	if len(owed) == 0 {
		return lockfile.Record{}, err
	}
	for i := range owed {
		owed[i].RequestID = cmp.Or(owed[i].RequestID, rand.Text()) // each owed entry has an id
	}
	last := owed[len(owed)-1]
	return lockfile.Record{
		State:      lockfile.StateHeld,
		RequestID:  last.RequestID,
		Owner:      last.Owner,
		Proxy:      last.Proxy,
		Store:      last.Store,
		Leases:     last.Leases,
		SharedList: last.SharedList,
		AcquiredAt: last.NotAfter,
		Owed:       owed[:len(owed)-1],
	}, nil
}

func (h *Holder) sayEnded(over []ended) {
	for _, e := range over {
		h.report.Notef("%s is not released: %s", e.name, e.why)
	}
}
