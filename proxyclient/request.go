package proxyclient

import (
	"cmp"
	"errors"
	"fmt"
	"slices"
	"time"

	"github.com/leasectl/leasectl/leaseapi"
)

// Request says what to acquire.
type Request struct {
	leaseapi.Ask
	Owner     string        // holder of the leases; may be empty
	RequestID string        // empty: Acquire makes a random one
	TTL       time.Duration // requested TTL; zero: the default of the pool
	Wait      time.Duration // how long to queue; zero: take what is free, or fail
	// Replaces are leases of Owner that end when the proxy takes the request into its queue. A
	// request that is refused ends none.
	Replaces []leaseapi.Lease

	// OnQueued is called whenever the proxy reports the request's place in the
	// queue, OnRetry before a failed attempt is repeated. OnTrouble is called
	// with the last failure and the time since which there was no good answer,
	// and with a nil error when there is a good answer again. All may be nil. No two
	// are called at the same time, and Acquire waits for them.
	OnQueued  func(leaseapi.Queued)
	OnRetry   func(error)
	OnTrouble func(err error, since time.Time)
	// OnTaken is called once the proxy may have taken the request into its queue, and so may have
	// ended the leases of Replaces: unless it refuses the request, or is not reached at all.
	OnTaken func()
}

func (r *Request) check() error {
	if r.Wait < 0 || r.TTL < 0 {
		return errors.New("wait and ttl must not be negative")
	}
	return cmp.Or(leaseapi.CheckAsk(&r.Ask), leaseapi.CheckOwner(r.Owner), leaseapi.CheckRequestID(r.RequestID))
}

// count returns how many leases to ask for from a proxy that knows no units.
func (r *Request) count() int { return max(r.Count, 1) }

// needs names a part of the request that a version-1 proxy would ignore; empty: there is none.
func (r *Request) needs() (what string) {
	if len(r.Replaces) > 0 {
		return "a lease in the place of another"
	}
	return leaseapi.BeyondVersion1(&r.Ask)
}

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
	Caller       leaseapi.Caller  // who took them; zero: the proxy asks for no tokens
}

// Deadline returns the earliest end of the grant if it is not renewed, or the zero
// Instant if it does not end by itself. The time counts from Asked, not from the
// answer, since the proxy may have made the grant that early.
func (g *Grant) Deadline() Instant {
	if g.Capabilities != Ours {
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
	switch {
	case len(r.Also) > 0:
		if units, count, err = checkTypes(r, reply.Leases); err != nil {
			return nil, err
		}
	case units > 0:
		count = 1
	}
	if err := checkGranted(reply.Names, count); err != nil {
		return nil, err
	}
	if r.Name != "" && reply.Names[0] != r.Name {
		return nil, fmt.Errorf("the proxy granted %q instead of %q", reply.Names[0], r.Name)
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
	if !slices.EqualFunc(reply.Names, reply.Leases, same) || g.Capabilities == NamesOnly {
		return nil, errors.New("the names and the leases that the proxy granted differ")
	}
	g.TTL, g.Unit, g.Stale = atMost(reply.TTL, r.TTL), reply.Unit, reply.Stale
	g.Caller = callerOf(reply.Caller.Name, reply.Caller.Issuer)
	if g.TTL <= 0 {
		return nil, fmt.Errorf("the proxy granted leases for %s", g.TTL)
	}
	g.RenewEvery = renewEvery(reply.RenewEvery, g.TTL)
	return g, nil
}

// unitsOf returns how many units of a counted pool a reply grants in one lease;
// zero if the pool is a listed one.
func unitsOf(r *Request, reply leaseapi.AcquireReply) (int, error) {
	if what := r.needs(); what != "" && reply.RequestID == "" {
		return 0, fmt.Errorf("%w, and has taken the place of the one that was asked: it granted without %s", ErrVersion1, what)
	}
	if len(reply.Leases) != 1 || reply.Leases[0].Units == 0 || len(r.Also) > 0 {
		return 0, nil
	}
	units := reply.Leases[0].Units
	if units < 0 || r.Count > 0 && units != r.Count {
		return 0, fmt.Errorf("the proxy granted %d units instead of %d", units, r.Count)
	}
	return units, nil
}

// checkTypes refuses leases of a request of several types that are not all that it asked for, or not
// in the order of the types. It returns how many units of a counted pool the lease of the first type
// holds, and how many leases they are.
func checkTypes(r *Request, leases []leaseapi.Lease) (units, count int, err error) {
	rest := leases
	for _, a := range append([]leaseapi.Also{{Type: r.Type, Count: r.Count}}, r.Also...) {
		n := 0
		for n < len(rest) && rest[n].Type == a.Type {
			n++
		}
		of := rest[:n]
		rest = rest[n:]
		switch {
		case n == 1 && of[0].Units > 0 && (a.Count == 0 || of[0].Units == a.Count): // of a counted pool
			if a.Type == r.Type {
				units = of[0].Units
			}
		case n == max(a.Count, 1) && of[0].Units <= 1: // of a listed pool, which may have become a counted one since
		default:
			return 0, 0, fmt.Errorf("the proxy granted %d leases of type %q instead of %d", n, a.Type, max(a.Count, 1))
		}
	}
	if len(rest) > 0 {
		return 0, 0, fmt.Errorf("the proxy granted leases of type %q, which were not asked for", rest[0].Type)
	}
	return units, len(leases), nil
}

// withoutUnits returns leases without their units, as requests name them.
func withoutUnits(leases []leaseapi.Lease) []leaseapi.Lease {
	leases = slices.Clone(leases)
	for i := range leases {
		leases[i].Units = 0
	}
	return leases
}

// renewEvery returns the interval at which to renew leases that end after ttl: the one that the
// proxy said, if it is no longer than our servers say. So one false answer does not end the renewals.
func renewEvery(said leaseapi.Duration, ttl time.Duration) time.Duration {
	longest := min(ttl/3, leaseapi.MaxRenewEvery)
	if d := time.Duration(said); d > 0 && d < longest {
		return d
	}
	return longest
}

// atMost returns the TTL that the proxy said, or ttl if that is known and shorter: nobody asked for more.
func atMost(said leaseapi.Duration, ttl time.Duration) time.Duration {
	if d := time.Duration(said); ttl <= 0 || d < ttl {
		return d
	}
	return ttl
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
