package pool

import (
	"errors"
	"fmt"
	"strconv"
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
	// MaxCapacity is the most names one pool may have: beyond it a typing error is
	// likelier than a wish.
	MaxCapacity = 100_000
	// MaxUnits is the most units one counted pool may have, likewise.
	MaxUnits = 1_000_000_000
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

	// LockDelay is for how long a name is not granted again whose lease expired,
	// or was broken and not released: what its last holder still has under way
	// has time to land. Until then the name counts as in use.
	LockDelay time.Duration
}

// Check reports what is wrong with the pool taken alone: types and names that
// are not valid or not unique, and numbers out of range.
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
	if c.LockDelay < 0 {
		errs = append(errs, errors.New("the lock delay is negative"))
	}
	return errors.Join(errs...)
}

// checkAll reports what is wrong with configs, each alone and all together.
func checkAll(configs []Config) error {
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
				if typ, _ := madeUpFor(name); counted[typ] {
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

// Numbered returns the names of a pool whose n resources have none of their own:
// typ-0 to typ-(n-1).
func Numbered(typ string, n int) []string {
	names := make([]string, n)
	for i := range names {
		names[i] = typ + "-" + strconv.Itoa(i)
	}
	return names
}
