package pool

import (
	"errors"
	"fmt"
	"time"

	"github.com/leasectl/leasectl/leaseapi"
)

// Defaults and limits of a [Config].
const (
	// DefaultTTL outlasts the longest provisioning seen in the field, since
	// nobody renews the lease of a plain acquire.
	DefaultTTL = 4 * time.Hour
	// DefaultMaxWaiters bounds memory: 10,000 waiters are more jobs than any
	// pool serves in a day.
	DefaultMaxWaiters = 10_000
	// MaxCapacity is the most names that a pool may have, and the most leases of a counted pool that are
	// held at once, which bounds memory.
	MaxCapacity = 100_000
	// maxMadeUp is the most leases of a counted pool that one request gets, which bounds how long a
	// grant keeps others waiting. Only clients that cannot say units of a lease ask for more than one.
	maxMadeUp = 1000
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
	// lease is usually held, for estimates until one has ended. With Adapt and Hold the pace is the
	// [AutoPace] of Hold and the limit, and Pace is not used.
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

// Check reports what is wrong with the pool taken alone: a type or name that is not valid, or a
// number out of range.
func (c Config) Check() error {
	var errs []error
	if err := leaseapi.CheckType(c.Type); err != nil {
		errs = append(errs, err)
	}
	if err := c.checkStock(); err != nil {
		errs = append(errs, err)
	}
	switch {
	case c.DefaultTTL < 0 || c.MaxTTL < 0 || c.V1TTL < 0:
		errs = append(errs, errors.New("a TTL is negative"))
	case c.MaxTTL > 0 && c.DefaultTTL > c.MaxTTL:
		errs = append(errs, fmt.Errorf("default TTL %v is above the maximum %v", c.DefaultTTL, c.MaxTTL))
	}
	if c.MaxTTL > 0 && c.V1TTL > c.MaxTTL {
		errs = append(errs, fmt.Errorf("the TTL for version 1 %v is above the maximum %v", c.V1TTL, c.MaxTTL))
	}
	if c.MaxWaiters < 0 {
		errs = append(errs, errors.New("the limit on waiters is negative"))
	}
	if c.Pace < 0 {
		errs = append(errs, errors.New("the pace is negative"))
	}
	if c.Hold < 0 {
		errs = append(errs, errors.New("the hold is negative"))
	}
	if c.Adapt != nil {
		errs = append(errs, c.Adapt.check(c.Capacity()))
	}
	if c.LockDelay < 0 {
		errs = append(errs, errors.New("the lock delay is negative"))
	}
	return errors.Join(errs...)
}

// Check reports what is wrong with configs, each alone and all together. [New] and
// [Set.Reconfigure] refuse configs with such an error.
func Check(configs []Config) error {
	var errs []error
	types := make(map[string]bool)
	pools := make(map[string]string) // by name
	counted := make(map[string]bool)
	for _, c := range configs {
		counted[c.Type] = c.counted()
	}
	for _, c := range configs {
		err := c.Check()
		switch {
		case err != nil:
		case types[c.Type]:
			err = errors.New("there are two pools of this type")
		default:
			for _, name := range c.Names {
				if other, taken := pools[name]; taken {
					err = fmt.Errorf("name %q is already in pool %q: names are unique", name, other)
					break
				}
				if typ := MadeUpFor(name); counted[typ] {
					err = fmt.Errorf("name %q looks like one of pool %q, which has units and makes up its names", name, typ)
					break
				}
				pools[name] = c.Type
			}
		}
		types[c.Type] = true
		if err != nil {
			errs = append(errs, fmt.Errorf("pool %q: %w", c.Type, err))
		}
	}
	return errors.Join(errs...)
}

// checkStock reports what is wrong with the names or units of c.
func (c Config) checkStock() error {
	if !c.counted() {
		return c.checkListed()
	}
	switch {
	case len(c.Names) > 0:
		return errors.New("a pool has names or units, not both")
	case c.Units < 1 || c.Units > MaxUnits:
		return fmt.Errorf("%d units: a pool has 1 to %d", c.Units, MaxUnits)
	case c.Unknown < 0 || c.Unknown > c.Units:
		return fmt.Errorf("an unknown request takes %d units, and the pool has %d", c.Unknown, c.Units)
	case c.Cost != nil && c.Unknown == 0:
		return errors.New("the pool has a cost: say how many units a request takes whose items are unknown")
	case c.Overcommit < 0 || c.Overcommit > MaxUnits:
		return fmt.Errorf("an overcommit of %d units: it may be 0 to %d", c.Overcommit, MaxUnits)
	}
	if c.Unit != "" {
		if err := leaseapi.CheckUnit(c.Unit); err != nil {
			return err
		}
	}
	if c.Cost != nil {
		if err := c.Cost.check(c.Units); err != nil {
			return err
		}
	}
	return leaseapi.CheckName(madeUp(c.Type, lastMadeUp)) // a type may have a slash, a name may not
}

// checkListed is checkStock of a listed pool.
func (c Config) checkListed() error {
	if n := len(c.Names); n < 1 || n > MaxCapacity {
		return fmt.Errorf("%d names: a pool has 1 to %d", n, MaxCapacity)
	}
	if c.Unit != "" || c.Cost != nil || c.Unknown != 0 || c.Overcommit != 0 {
		return errors.New("unit, cost, unknown and overcommit are for pools that have units, not names")
	}
	for _, name := range c.Names {
		if err := leaseapi.CheckName(name); err != nil {
			return err // one is enough to find the cause; the list may be long
		}
	}
	return nil
}
