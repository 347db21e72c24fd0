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
	// MaxCapacity is the most names one pool may have, and the most leases that one
	// request gets: beyond it a typing error is likelier than a wish.
	MaxCapacity = 100_000
)

// Config is one pool. Only Type is required, and either Names or Units: a pool is
// listed, and a unit is a name; or it is counted, and makes up a name for each
// lease.
type Config struct {
	Type  string   // what requests ask for
	Names []string // the resources, in the order in which they are first granted

	// The rest of this paragraph is for counted pools alone.
	Units   int    // how many there are
	Unit    string // what a unit is, for people: "1Mi"; may be empty
	Cost    *Cost  // what the items of a request come to; nil: requests say units
	Unknown int    // the units of a request that says neither units nor items; zero: 1, if there is no Cost
	// Overcommit is by how many units a request that asks for it may exceed the
	// limit; zero: no request may ask for it.
	Overcommit int

	DefaultTTL time.Duration // of a request that names none; zero: [DefaultTTL], or MaxTTL if that is less
	MaxTTL     time.Duration // the most a lease may ask for; zero: no bound
	// V1TTL is of a request that names none and that nobody can renew, as of
	// clients of version 1: how long such a client may work, release or not; zero:
	// that of any other request that names none.
	V1TTL      time.Duration
	MaxWaiters int // the most requests that wait at once; zero: [DefaultMaxWaiters]

	// Pace is the least time between two grants, so that jobs that come
	// together do not start together; a grant of N names counts as N. Zero:
	// whatever is free is granted at once. See [AutoPace].
	Pace time.Duration

	// Adapt makes the pool find its limit; nil: the limit is the capacity. With it and
	// with Hold, how long a lease is held as a rule, the pace follows the limit, as
	// [AutoPace] has it, and Pace is not used.
	Adapt *Adapt
	Hold  time.Duration

	// LockDelay is for how long a name is not granted again whose lease expired,
	// or was broken and not released: what its last holder still has under way
	// has time to land. Until then the name counts as in use.
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
