package proxyclient

import (
	"errors"
	"fmt"
	"slices"
	"time"

	"github.com/leasectl/leasectl/leaseapi"
)

// Grant is what an acquire got.
type Grant struct {
	RequestID    string
	Leases       []leaseapi.Lease // with generation 0 from a version-1 proxy; without units
	Units        int              // that the one lease of a counted pool holds; zero: of a listed pool
	Unit         string           // what one of them is, if the proxy says so
	TTL          time.Duration    // from the first renewal on; zero: until released
	RenewEvery   time.Duration    // zero: needs no renewal
	Asked        Instant          // when the request that was answered began
	Capabilities Capabilities     // what the proxy can do with these leases
}

// Deadline returns when the grant ends at the earliest unless it is renewed
// before; the zero Instant if it does not end by itself. The time counts from
// Asked, not from the answer: the lease may be as old as that.
func (g *Grant) Deadline() Instant {
	if !g.Capabilities.Renews() {
		return Instant{}
	}
	return g.Asked.Add(min(leaseapi.ProvisionalTTL, g.TTL))
}

// newGrant turns a reply with count leases into a grant: all that r wants, or one of them
// where they are asked for one by one. The error says what is wrong with the reply.
func newGrant(r *Request, count int, reply leaseapi.AcquireReply) (*Grant, error) {
	units, err := unitsOf(r, reply)
	if err != nil {
		return nil, err
	}
	if units > 0 {
		count = 1
	}
	if err := checkGranted(reply.Names, count); err != nil {
		return nil, err
	}
	g := &Grant{RequestID: r.RequestID, Units: units}
	if reply.RequestID == "" {
		for _, n := range reply.Names {
			g.Leases = append(g.Leases, leaseapi.Lease{Name: n})
		}
		g.Capabilities = CapabilitiesOf(g.Leases)
		return g, nil
	}
	if reply.RequestID != r.RequestID {
		return nil, errors.New("the proxy answered another request than the one that was sent")
	}
	g.Leases, g.Capabilities = withoutUnits(reply.Leases), CapabilitiesOf(reply.Leases)
	same := func(n string, l leaseapi.Lease) bool { return n == l.Name }
	if !slices.EqualFunc(reply.Names, reply.Leases, same) || g.Capabilities.NamesOnly() {
		return nil, errors.New("the names and the leases that the proxy granted differ")
	}
	g.TTL, g.Unit = time.Duration(reply.TTL), reply.Unit
	if g.TTL <= 0 {
		return nil, fmt.Errorf("the proxy granted leases for %s", g.TTL)
	}
	g.RenewEvery = renewEvery(reply.RenewEvery, g.TTL)
	return g, nil
}

// unitsOf returns how many units of a counted pool a reply grants in one lease;
// zero if the pool is a listed one.
func unitsOf(r *Request, reply leaseapi.AcquireReply) (int, error) {
	if what := r.needsUnits(); what != "" && reply.Wire < wireUnits {
		return 0, fmt.Errorf("%w: it granted without %s, since an older one has taken the place of the one that was asked", ErrOlder, what)
	}
	if len(reply.Leases) != 1 || reply.Leases[0].Units == 0 {
		return 0, nil
	}
	units := reply.Leases[0].Units
	if units < 0 || r.Count > 0 && units != r.Count {
		return 0, fmt.Errorf("the proxy granted %d units instead of %d", units, r.Count)
	}
	return units, nil
}

// withoutUnits returns leases as requests name them.
func withoutUnits(leases []leaseapi.Lease) []leaseapi.Lease {
	leases = slices.Clone(leases)
	for i := range leases {
		leases[i].Units = 0
	}
	return leases
}

// renewEvery is how often to renew leases that end after ttl: as the proxy
// says, if that makes sense.
func renewEvery(said leaseapi.Duration, ttl time.Duration) time.Duration {
	if d := time.Duration(said); d > 0 && d < ttl {
		return d
	}
	return ttl / 3
}

// checkGranted refuses what must not get into a handle, a shell or a terminal,
// and any number of names but count.
func checkGranted(names []string, count int) error {
	if len(names) != count {
		return fmt.Errorf("the proxy granted %d names instead of %d", len(names), count)
	}
	seen := make(map[string]bool, len(names))
	for _, n := range names {
		if err := leaseapi.CheckName(n); err != nil {
			return fmt.Errorf("the proxy granted a lease whose %w", err)
		}
		if seen[n] {
			return fmt.Errorf("the proxy granted %q twice", n)
		}
		seen[n] = true
	}
	return nil
}
