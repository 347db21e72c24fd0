package proxyclient

import "github.com/leasectl/leasectl/leaseapi"

// Capabilities tell what a lease proxy can do beyond version 1. Callers ask this value
// only, never the number of the wire: see [Client.Capabilities], [Grant] and
// [CapabilitiesOf]. The zero value stands for a proxy about which nothing is known
// yet, and promises nothing.
type Capabilities struct {
	// wire is one of leaseapi's: the proxy speaks it or a later one; zero: not known. What is learned
	// from an answer is a lower bound; [Client.Health] states the exact one.
	wire int
}

// CapabilitiesOf derives from leases alone what their proxy can do with all of
// them. A record on disk has nothing else to tell it. A lease without a generation is
// from a version-1 proxy. Without leases, nothing is known.
func CapabilitiesOf(leases []leaseapi.Lease) Capabilities {
	if len(leases) == 0 {
		return Capabilities{}
	}
	for _, l := range leases {
		if l.Generation == 0 {
			return Capabilities{wire: leaseapi.WireNames}
		}
	}
	return Capabilities{wire: leaseapi.WireIDs}
}

// Known reports whether the proxy has shown what it can do.
func (c Capabilities) Known() bool { return c.wire != 0 }

// NamesOnly reports whether the proxy is known to be of version 1.
func (c Capabilities) NamesOnly() bool { return c.wire == leaseapi.WireNames }

// RequestIDs reports whether the proxy recognises a request by its id, so that
// an acquire may be repeated, asked about and cancelled.
func (c Capabilities) RequestIDs() bool { return c.wire >= leaseapi.WireIDs }

// CountsAtOnce reports whether the proxy grants several leases together or not
// at all. Other proxies must be asked for one lease at a time.
func (c Capabilities) CountsAtOnce() bool { return c.wire >= leaseapi.WireIDs }

// Renews reports whether leases end unless they are renewed. The leases of other
// proxies last until they are released.
func (c Capabilities) Renews() bool { return c.wire >= leaseapi.WireIDs }

// ChecksOwners reports whether a release by name ends only a lease of the
// owner that it names. Other proxies release a name whoever holds it.
func (c Capabilities) ChecksOwners() bool { return c.wire >= leaseapi.WireIDs }

// ReleasesLate reports whether the proxy carries out a release with a delay.
// Other proxies ignore the delay.
func (c Capabilities) ReleasesLate() bool { return c.wire >= leaseapi.WireIDs }

// Units reports whether the proxy knows keys, items, overcommit and resizes. Other
// proxies ignore them, so two holders could have the same key. A request that needs any
// of them is sent only to a proxy that is known to have Units.
func (c Capabilities) Units() bool { return c.wire >= leaseapi.WireUnits }
