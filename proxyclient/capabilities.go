package proxyclient

import "github.com/leasectl/leasectl/leaseapi"

// Capabilities tell what a lease proxy can do. Callers ask this value only, never the number of
// the wire: see [Client.Capabilities], [Grant] and [CapabilitiesOf].
type Capabilities int

const (
	// Unknown stands for a proxy about which nothing is known yet, and promises nothing.
	Unknown Capabilities = iota
	// NamesOnly is a version-1 proxy. It must be asked for one lease at a time, and an acquire
	// without an answer may not be repeated. Its leases last until they are released, by their
	// names, whoever holds these. It ignores all that it does not know.
	NamesOnly
	// Ours is leasectl's own server. It recognises a request by its id, grants all leases of a
	// request or none, ends leases that are not renewed, and refuses what it does not know.
	Ours
)

// CapabilitiesOf derives from leases alone what their proxy can do with all of
// them. A record on disk has nothing else to tell it. A lease without a generation is
// from a version-1 proxy. Without leases, nothing is known.
func CapabilitiesOf(leases []leaseapi.Lease) Capabilities {
	if len(leases) == 0 {
		return Unknown
	}
	for _, l := range leases {
		if l.Generation == 0 {
			return NamesOnly
		}
	}
	return Ours
}
