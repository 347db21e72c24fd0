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

// owedBy returns all that a release of a record's handle gives back, oldest first: the
// leases that it owes, and last the lease that it holds or the request that waits.
func owedBy(r lockfile.Record) []lockfile.Owed {
	owed := r.Owed
	if unreleased(r) {
		owed = append(owed, leaseOwed(r))
	}
	return owed
}

// leaseOwed returns the lease that a record holds, or the request that waits, as owed.
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

// releasingRecord returns a record that only owes. It keeps the request of r, for a
// reacquire.
func releasingRecord(r lockfile.Record, owed []lockfile.Owed) lockfile.Record {
	return lockfile.Record{
		State: lockfile.StateReleasing, Type: r.Type, Count: r.Count, HasItems: r.HasItems, Items: r.Items, Key: r.Key, Owed: owed,
	}
}

// holdsOrOwes tells whether a handle's record has a request, or owes the lease of it and has
// no newer request: the process of a newer one gives back both.
func holdsOrOwes(r lockfile.Record, request string) bool {
	return r.RequestID == request || r.State == lockfile.StateReleasing && owes(r, request)
}

// owes tells whether a handle's record owes the lease of a request: a release has begun
// and is not confirmed.
func owes(r lockfile.Record, request string) bool {
	return slices.ContainsFunc(r.Owed, func(o lockfile.Owed) bool { return o.RequestID == request })
}

// notHeldError is the error about a handle that holds no lease.
func notHeldError(handle lockfile.Handle, r lockfile.Record) error {
	if r.State == lockfile.StateQueued {
		return fmt.Errorf("handle %s holds no lease yet: it waits for one: try again when it has one", handle.Path())
	}
	return fmt.Errorf("handle %s holds no lease: a release of it failed: release it again, or use leasectl reacquire", handle.Path())
}

// unreleased tells whether nobody has begun to give back the lease or request of a record.
func unreleased(r lockfile.Record) bool {
	return r.State == lockfile.StateQueued || r.State == lockfile.StateHeld
}

// namesOnly tells whether leases are known by name only, as those of a version-1
// proxy are: it neither renews nor releases late.
func namesOnly(leases []lockfile.Lease) bool {
	return proxyclient.CapabilitiesOf(wireLeases(leases)).NamesOnly()
}

// Holds tells whether a lease that a proxy knows is one of a record's. A
// lease that the record knows by name only is the lease of that name.
func Holds(r lockfile.Record, l leaseapi.Lease) bool {
	return slices.ContainsFunc(r.Leases, func(ours lockfile.Lease) bool {
		return ours == lockfile.Lease{Name: l.Name, Generation: l.Generation} || ours.Name == l.Name && namesOnly([]lockfile.Lease{ours})
	})
}

// releasedElsewhere tells whether all that a handle holds was given back without
// it: by its names, a copy or a list.
func (h *Holder) releasedElsewhere(r lockfile.Record) bool {
	return r.State == lockfile.StateHeld && len(r.Owed) == 0 && r.RequestID != "" && h.knownOver(r)
}

// knownOver tells whether this machine knows that all leases of a record are over.
func (h *Holder) knownOver(r lockfile.Record) bool {
	return h.history.allOver(leaseOwed(r), h.dialer.storeOf(r.Store, h.dialer.proxyOf(r.Proxy)))
}

// releaseRequest returns the release of something owed: by generations if it has any; by
// names and owner if it has none, as of a version-1 proxy or of a copied handle; by request
// id if no grant of it is known.
func (h *Holder) releaseRequest(o lockfile.Owed) leaseapi.ReleaseRequest {
	if len(o.Leases) == 0 {
		return leaseapi.ReleaseRequest{RequestIDs: []string{o.RequestID}}
	}
	req := proxyclient.Releasing(wireLeases(o.Leases), h.ownerOf(o.Owner))
	if len(req.Leases) > 0 {
		ending := h.endings.of(o.RequestID)
		req.Peak, req.ExitCode, req.Report = ending.peak, ending.exitCode, ending.outcome.reportRequest(o.RequestID)
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

// ProxyOf returns the proxy of the leases that a handle holds or owes, unless the user
// named another just now; "" if neither is known.
func (h *Holder) ProxyOf(r lockfile.Record) string {
	return h.dialer.proxyOf(cmp.Or(r.Proxy, proxyOwed(r)))
}

// proxyOwed returns the first proxy at which a release of a record's handle gives something
// back.
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
		if namesOnly(o.Leases) && !h.journal.covers(o) && h.keepers.wake(o.RequestID) {
			return fmt.Errorf("release %s: %w its keeper, which goes on trying", describeOwed(o), proxyclient.ErrUnreachable)
		}
	}
	return nil
}
