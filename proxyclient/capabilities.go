package proxyclient

import "github.com/leasectl/leasectl/leaseapi"

// Capabilities are what a lease proxy can do. What goes beyond version 1 is
// asked of this value only: see [Client.Capabilities], [Grant] and
// [CapabilitiesOf]. The zero value stands for a proxy about which nothing is known
// yet: it promises nothing.
type Capabilities struct {
	wire int // the proxy speaks this number of the wire, or a higher one; zero: not known
}

// Numbers of the wire and what came with them. A number that is learned from
// an answer is a lower bound; [Client.Health] states the exact one.
const (
	wireNames = 1 // names, and nothing else
	wireIDs   = 2 // request ids, counts, generations, renewals, owners, late releases
	wireUnits = 3 // keys, items, overcommit, resizes
)

// CapabilitiesOf tells from leases alone what their proxy can do with all of
// them, as a record on disk must. A lease without a generation is from a
// version-1 proxy. Without leases, nothing is known.
func CapabilitiesOf(leases []leaseapi.Lease) Capabilities {
	if len(leases) == 0 {
		return Capabilities{}
	}
	for _, l := range leases {
		if l.Generation == 0 {
			return Capabilities{wire: wireNames}
		}
	}
	return Capabilities{wire: wireIDs}
}

// Known reports whether the proxy has shown what it can do.
func (c Capabilities) Known() bool { return c.wire != 0 }

// NamesOnly reports whether the proxy is known to be of version 1.
func (c Capabilities) NamesOnly() bool { return c.wire == wireNames }

// RequestIDs reports whether the proxy recognises a request by its id, so that
// an acquire may be repeated, asked about and cancelled.
func (c Capabilities) RequestIDs() bool { return c.wire >= wireIDs }

// CountsAtOnce reports whether the proxy grants several leases together or not
// at all. Others must be asked for one at a time.
func (c Capabilities) CountsAtOnce() bool { return c.wire >= wireIDs }

// Renews reports whether leases end unless they are renewed. Those of other
// proxies last until they are released.
func (c Capabilities) Renews() bool { return c.wire >= wireIDs }

// ChecksOwners reports whether a release by name ends only a lease of the
// owner that it names. Others release a name for everybody.
func (c Capabilities) ChecksOwners() bool { return c.wire >= wireIDs }

// ReleasesLate reports whether the proxy carries out a release with a delay.
// Others ignore the delay.
func (c Capabilities) ReleasesLate() bool { return c.wire >= wireIDs }

// Units reports whether the proxy knows keys, items, overcommit and resizes. Others
// ignore them: two of them would hold a key at once. A request with any of them is
// sent only once this is known.
func (c Capabilities) Units() bool { return c.wire >= wireUnits }
