package holder

import (
	"cmp"
	"fmt"
	"slices"
	"strings"

	"github.com/leasectl/leasectl/leaseapi"
	"github.com/leasectl/leasectl/lockfile"
	"github.com/leasectl/leasectl/proxyclient"
)

// owedBy returns all that is to be released for a record, oldest first: what it owes,
// and last the lease that it holds or the request that waits.
func owedBy(r lockfile.Record) []lockfile.Owed {
	owed := r.Owed
	if unreleased(r) {
		owed = append(owed, leaseOwed(r))
	}
	return owed
}

// leaseOwed is what a record holds or waits for, as something owed.
func leaseOwed(r lockfile.Record) lockfile.Owed {
	return lockfile.Owed{
		RequestID:  r.RequestID,
		Owner:      r.Owner,
		Proxy:      r.Proxy,
		Store:      r.Store,
		Leases:     r.Leases,
		SharedList: r.SharedList,
		NotAfter:   r.AcquiredAt,
		Unsent:     true,
	}
}

// releasingRecord is a record that is left with what it owes. What was asked for stays in it, for
// a reacquire.
func releasingRecord(r lockfile.Record, owed []lockfile.Owed) lockfile.Record {
	return lockfile.Record{
		State: lockfile.StateReleasing, Type: r.Type, Count: r.Count, HasItems: r.HasItems, Items: r.Items, Key: r.Key, Owed: owed,
	}
}

// owes tells whether a handle's record has the lease of a request, or has begun to
// give it back. A handle that has a newer request too is looked after by others.
func owes(r lockfile.Record, request string) bool {
	return r.RequestID == request || r.State == lockfile.StateReleasing && isOwed(r, request)
}

// isOwed tells whether a handle's record owes the lease of a request: a release has
// begun, and is not confirmed.
func isOwed(r lockfile.Record, request string) bool {
	return slices.ContainsFunc(r.Owed, func(o lockfile.Owed) bool { return o.RequestID == request })
}

// holdsNone is the error about a handle that holds no lease.
func holdsNone(handle lockfile.Handle, r lockfile.Record) error {
	if r.State == lockfile.StateQueued {
		return fmt.Errorf("handle %s holds no lease yet: it waits for one: try again when it has one", handle.Path())
	}
	return fmt.Errorf("handle %s holds no lease: a release of it failed: release it again, or use leasectl reacquire", handle.Path())
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
		return ours == lockfile.Lease{Name: l.Name, Generation: l.Generation} || ours.Name == l.Name && bare([]lockfile.Lease{ours})
	})
}

// releasedElsewhere tells whether all that a handle holds was given back without
// it: by its names, a copy or a list.
func (h *Holder) releasedElsewhere(r lockfile.Record) bool {
	return r.State == lockfile.StateHeld && len(r.Owed) == 0 && r.RequestID != "" &&
		h.history.gaveBack(leaseOwed(r), h.dialer.storeOf(r.Store, h.dialer.proxyOf(r.Proxy)))
}

// releaseRequest is the release of what is owed: by generations where there are
// any, by names and owner where a version-1 proxy or a copied handle has none,
// by request id where nothing was granted that we know of.
func (h *Holder) releaseRequest(o lockfile.Owed) leaseapi.ReleaseRequest {
	if len(o.Leases) == 0 {
		return leaseapi.ReleaseRequest{RequestIDs: []string{o.RequestID}}
	}
	req := proxyclient.Releasing(wireLeases(o.Leases), h.ownerOf(o.Owner))
	if len(req.Leases) > 0 {
		ending := h.endings.of(o.RequestID)
		req.Peak, req.ExitCode, req.Report = ending.peak, ending.exitCode, ending.outcome.report(o.RequestID)
	}
	return req
}

// describeOwed names what is owed in an error.
func describeOwed(o lockfile.Owed) string {
	if len(o.Leases) == 0 {
		return "request " + o.RequestID
	}
	return strings.Join(o.Names(), ", ")
}

// ProxyOf returns the proxy that the leases of a handle were got from, or to which it
// owes some, unless the user named another just now; "" if nothing does.
func (h *Holder) ProxyOf(r lockfile.Record) string {
	return h.dialer.proxyOf(cmp.Or(r.Proxy, proxyOwed(r)))
}

// proxyOwed is the first proxy that something of a record is to be released at.
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
		out[i] = leaseapi.Lease{Name: l.Name, Generation: l.Generation}
	}
	return out
}

// leftToKeeper is an error if a keeper is giving back what a handle owes to a
// version-1 proxy, which must be told by one process only: it knows names, so a
// second release may end somebody else's lease.
func (h *Holder) leftToKeeper(r lockfile.Record) error {
	if r.State != lockfile.StateReleasing {
		return nil
	}
	for _, o := range r.Owed {
		if bare(o.Leases) && !h.journal.covers(o) && h.keepers.tell(o.RequestID) {
			return fmt.Errorf("release %s: %w its keeper, which goes on trying", describeOwed(o), proxyclient.ErrUnreachable)
		}
	}
	return nil
}
