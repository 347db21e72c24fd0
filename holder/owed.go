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

// releasingRecord returns a record that only owes leases. It keeps what r asked for, so that a
// reacquire can ask for the same.
func releasingRecord(r lockfile.Record, owed []lockfile.Owed) lockfile.Record {
	return lockfile.Record{
		State: lockfile.StateReleasing, Type: r.Type, Count: r.Count, HasItems: r.HasItems, Items: r.Items, Key: r.Key, Owed: owed,
	}
}

// holdsOrOwes tells whether a handle's record has a request, or owes the lease of that request
// and has no newer one: the process of a newer request gives back both.
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

// unreleased tells whether a record still holds a lease or has a request that waits: nobody has
// begun to give it back.
func unreleased(r lockfile.Record) bool {
	return r.State == lockfile.StateQueued || r.State == lockfile.StateHeld
}

// namesOnly tells whether leases are known by name only, as those of a version-1 proxy, which
// neither renews nor releases late.
func namesOnly(leases []lockfile.Lease) bool {
	return proxyclient.CapabilitiesOf(wireLeases(leases)).NamesOnly()
}

// Holds tells whether l, as a proxy reports it, is a lease of r. If r knows the name of a lease
// only, every lease of that name matches.
func Holds(r lockfile.Record, l leaseapi.Lease) bool {
	return slices.ContainsFunc(r.Leases, func(ours lockfile.Lease) bool {
		return ours == lockfile.Lease{Name: l.Name, Generation: l.Generation} || ours.Name == l.Name && namesOnly([]lockfile.Lease{ours})
	})
}

// releasedElsewhere tells whether all that a handle holds was given back without the handle: by
// names, a copy or a list.
func (h *Holder) releasedElsewhere(r lockfile.Record) bool {
	return r.State == lockfile.StateHeld && len(r.Owed) == 0 && r.RequestID != "" && h.knownOver(r)
}

// knownOver tells whether this machine knows that all leases of a record are over.
func (h *Holder) knownOver(r lockfile.Record) bool {
	return h.history.allOver(leaseOwed(r), h.dialer.storeOf(r.Store, h.dialer.proxyOf(r.Proxy)))
}

// releaseRequest returns the request that releases o: by generations; by names and owner if o
// has no generations, as from a version-1 proxy or a bare handle; by request id if o has no
// leases.
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

// describeOwed names o in an error.
func describeOwed(o lockfile.Owed) string {
	if len(o.Leases) == 0 {
		return "request " + o.RequestID
	}
	return strings.Join(o.Names(), ", ")
}

// ProxyOf returns the proxy to ask about the leases that a handle holds or owes: the recorded
// one, unless the user named another just now; "" if neither is known.
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

// namesOf returns the names of all owed leases.
func namesOf(owed []lockfile.Owed) (names []string) {
	for _, o := range owed {
		names = append(names, o.Names()...)
	}
	return names
}

// wireLeases returns a handle's leases as the proxy knows them.
func wireLeases(leases []lockfile.Lease) []leaseapi.Lease {
	out := make([]leaseapi.Lease, len(leases))
	for i, l := range leases {
		out[i] = leaseapi.Lease{Name: l.Name, Generation: l.Generation}
	}
	return out
}

// leftToKeeper returns an error if a keeper is giving back leases that a handle owes to a
// version-1 proxy. Only one process may tell such a proxy: it knows names only, so a second
// release may end somebody else's lease.
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
