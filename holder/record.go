package holder

import (
	"fmt"
	"slices"

	v1 "github.com/leasectl/leasectl/holder/v1"
	"github.com/leasectl/leasectl/leaseapi"
	"github.com/leasectl/leasectl/lockfile"
	"github.com/leasectl/leasectl/proxyclient"
)

// What can be told from a record alone.

// bareHandle tells whether a record is of a handle that is only a file of names.
func bareHandle(r lockfile.Record) bool {
	return r.State == lockfile.StateHeld && r.RequestID == ""
}

// certain tells whether leases may be released twice: each has a generation, of its proxy or of the
// adapter.
func certain(leases []lockfile.Lease) bool {
	return len(leases) > 0 && !slices.ContainsFunc(leases, func(l lockfile.Lease) bool { return l.Generation == 0 })
}

// lasts tells whether leases are of a version-1 proxy: they last until they are released, and
// nobody but a keeper releases them late. adapter is that of their record.
func lasts(leases []lockfile.Lease, adapter string) bool {
	return len(leases) > 0 && (adapter != "" || !certain(leases))
}

// unreleased tells whether a record still holds a lease or has a request that waits: nobody has
// begun to give it back.
func unreleased(r lockfile.Record) bool {
	return r.State == lockfile.StateQueued || r.State == lockfile.StateHeld
}

// replacedIn tells whether r waits for a lease in the place of those of held.
func replacedIn(r, held lockfile.Record) bool {
	return r.State == lockfile.StateQueued && len(r.Replaces) > 0 && slices.Equal(r.Replaces, held.Leases)
}

// sameGrant tells whether two records are of one grant. A bare handle has no request id: then
// the names decide.
func sameGrant(a, b lockfile.Record) bool {
	return a.RequestID == b.RequestID && slices.Equal(a.Names(), b.Names())
}

// Holds tells whether l, as a proxy reports it, is a lease of r. If r does not know the generation
// that the proxy gave, every lease of that name matches.
func Holds(r lockfile.Record, l leaseapi.Lease) bool {
	return slices.ContainsFunc(r.Leases, func(ours lockfile.Lease) bool {
		return ours.Name == l.Name && (ours.Generation == l.Generation || ours.Generation == 0 || r.Adapter != "")
	})
}

// ProxyOf returns the proxy to ask about what a handle holds or waits for: the recorded one, unless
// the user named another just now; "" if neither is known.
func (h *Holder) ProxyOf(r lockfile.Record) string { return h.dialer.proxyOf(proxyIn(r)) }

// proxyIn returns the proxy that a record names; "" is none.
func proxyIn(r lockfile.Record) string {
	if r.Proxy != "" || len(r.Earlier) == 0 {
		return r.Proxy
	}
	return r.Earlier[0].Proxy
}

// Redacted returns r as it may be printed: without the passwords of proxies.
func Redacted(r lockfile.Record) lockfile.Record {
	hide := func(proxy, store *string) {
		*proxy = proxyclient.Redacted(*proxy)
		if *store != "" && !isStoreID(*store) {
			*store = proxyclient.Redacted(*store)
		}
	}
	hide(&r.Proxy, &r.Store)
	r.Earlier = slices.Clone(r.Earlier)
	for i := range r.Earlier {
		hide(&r.Earlier[i].Proxy, &r.Earlier[i].Store)
	}
	return r
}

// wireLeases returns a handle's leases as the proxy knows them.
func wireLeases(leases []lockfile.Lease) []leaseapi.Lease {
	out := make([]leaseapi.Lease, len(leases))
	for i, l := range leases {
		out[i] = leaseapi.Lease{Name: l.Name, Generation: l.Generation}
	}
	return out
}

// grantOf returns what the proxy granted, from what a record has of it.
func grantOf(leases []lockfile.Lease, adapter string) *v1.Grant {
	wire := wireLeases(leases)
	if adapter != "" {
		for i := range wire {
			wire[i].Generation = 0
		}
	}
	return &v1.Grant{
		Grant:  &proxyclient.Grant{Leases: wire, Capabilities: proxyclient.CapabilitiesOf(wire)},
		Leases: leases, Adapter: adapter,
	}
}

// notHeldError is the error about a handle that holds no lease.
func notHeldError(handle lockfile.Handle, r lockfile.Record) error {
	if r.State == lockfile.StateQueued {
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
	case r.State != lockfile.StateHeld:
		return notHeldError(handle, r)
	case bareHandle(r):
		return fmt.Errorf("handle %s has names and nothing else, as a copy has: %s the handle that acquire wrote", handle.Path(), verb)
	}
	return nil
}
