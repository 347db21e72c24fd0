package pool

import "time"

// Defaults and limits of a [Config].
const (
	// DefaultTTL outlasts the longest provisioning seen in the field, since
	// nobody renews the lease of a plain acquire.
	DefaultTTL = 4 * time.Hour
	// DefaultMaxWaiters bounds memory: 10,000 waiters are more jobs than any
	// pool serves in a day.
	DefaultMaxWaiters = 10_000
	// MaxCapacity is the most names one pool may have, and the most leases that one request
	// gets: a higher number is more likely a typing error.
	MaxCapacity = 100_000
)

// Config is one pool. It needs a Type, and either Names or Units. A pool with Names is listed:
// each name is a unit. A pool with Units is counted: it makes up a name for each lease.
type Config struct {
	Type  string   // what requests ask for
	Names []string // the resources, in the order in which they are first granted

	// The fields from here to Overcommit are for counted pools only.
	Units   int    // how many there are
	Unit    string // what a unit is, for people: "1Mi"; may be empty
	Cost    *Cost  // turns the items of a request into units; nil: requests with items are refused
	Unknown int    // the units of a request that gives neither units nor items; zero: 1; required with a Cost
	// Overcommit is by how many units a request that asks for it may exceed the
	// limit; zero: no request may ask for it.
	Overcommit int

	DefaultTTL time.Duration // of a request without a TTL; zero: [DefaultTTL], or MaxTTL if that is less
	MaxTTL     time.Duration // the most a lease may ask for; zero: no bound
	// V1TTL is the TTL of an anonymous request without a TTL, as clients of version 1 send it.
	// Nobody can renew its lease, so this is how long such a client may work. Zero: as any
	// other request without a TTL.
	V1TTL      time.Duration
	MaxWaiters int // the most requests that wait at once; zero: [DefaultMaxWaiters]

	// Pace is the least time between two grants, so that jobs that arrive together do not start
	// together. A grant of N units counts as N grants. Zero: free units are granted at once.
	// See [AutoPace].
	Pace time.Duration

	// Overtake is how many times the capacity may overtake a waiter that does not fit; nil: once;
	// zero: nobody does.
	Overtake *Decimal

	// Adapt makes the pool find its limit; nil: the limit is the capacity. Hold is how long a
	// lease is usually held. With both, the pace is the [AutoPace] of Hold and the limit, and
	// Pace is not used.
	Adapt *Adapt
	Hold  time.Duration

	// LockDelay is how long a name is not granted again after its lease expired, or was broken
	// and not released: work of the last holder that is still under way gets this time to
	// finish. Meanwhile the name counts as in use.
	LockDelay time.Duration
}

// Capacity returns how many units the pool has.
func (c Config) Capacity() int {
	if c.counted() {
		return c.Units
	}
	return len(c.Names)
}

// counted reports whether the pool makes up names, and has none of its own.
func (c Config) counted() bool { return c.Units != 0 }

// withDefaults returns c with its zero values filled in.
func (c Config) withDefaults() Config {
	if c.DefaultTTL == 0 {
		c.DefaultTTL = DefaultTTL
		if c.MaxTTL > 0 {
			c.DefaultTTL = min(c.DefaultTTL, c.MaxTTL)
		}
	}
	if c.MaxWaiters == 0 {
		c.MaxWaiters = DefaultMaxWaiters
	}
	return c
}

// ttl returns the TTL that a request for want gets.
func (c Config) ttl(want time.Duration) time.Duration {
	if want <= 0 {
		want = c.DefaultTTL
	}
	if c.MaxTTL > 0 {
		want = min(want, c.MaxTTL)
	}
	return want
}
