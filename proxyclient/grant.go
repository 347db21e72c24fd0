package proxyclient

import (
	"errors"
	"fmt"
	"slices"
	"time"

	"github.com/leasectl/leasectl/leaseapi"
)

// Grant is the result of an acquire.
type Grant struct {
	RequestID    string
	Leases       []leaseapi.Lease // with generation 0 from a version-1 proxy; without units
	Units        int              // units of the one lease of a counted pool; zero: a listed pool
	Unit         string           // what one unit is; empty: the proxy does not say
	TTL          time.Duration    // from the first renewal on; zero: until released
	RenewEvery   time.Duration    // zero: needs no renewal
	Asked        Instant          // when the attempt began that was answered with the grant
	Capabilities Capabilities     // what the proxy can do with these leases
	Stale        []leaseapi.Lost  // of Request.Replaces: leases that had ended before
}

// Deadline returns the earliest end of the grant if it is not renewed, or the zero
// Instant if it does not end by itself. The time counts from Asked, not from the
// answer, since the proxy may have made the grant that early.
func (g *Grant) Deadline() Instant {
	if !g.Capabilities.Renews() {
		return Instant{}
	}
	return g.Asked.Add(min(leaseapi.ProvisionalTTL, g.TTL))
}

// newGrant turns a reply into a grant of count leases: all leases of r, or one if they are
// asked for one by one. The error says what is wrong with the reply.
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
	g.TTL, g.Unit, g.Stale = time.Duration(reply.TTL), reply.Unit, reply.Stale
	if g.TTL <= 0 {
		return nil, fmt.Errorf("the proxy granted leases for %s", g.TTL)
	}
	g.RenewEvery = renewEvery(reply.RenewEvery, g.TTL)
	return g, nil
}

// unitsOf returns how many units of a counted pool a reply grants in one lease;
// zero if the pool is a listed one.
func unitsOf(r *Request, reply leaseapi.AcquireReply) (int, error) {
	if needs, what := r.needs(); reply.Wire < needs {
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

// withoutUnits returns leases without their units, as requests name them.
func withoutUnits(leases []leaseapi.Lease) []leaseapi.Lease {
	leases = slices.Clone(leases)
	for i := range leases {
		leases[i].Units = 0
	}
	return leases
}

// renewEvery returns the interval at which to renew leases that end after ttl: the one
// that the proxy gave if it is below ttl, else a third of ttl.
func renewEvery(said leaseapi.Duration, ttl time.Duration) time.Duration {
	if d := time.Duration(said); d > 0 && d < ttl {
		return d
	}
	return ttl / 3
}

// checkGranted refuses names that must not get into a handle, a shell or a terminal,
// repeated names, and another number of names than count.
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
