package pool

import (
	"errors"
	"fmt"
	"math/big"
	"slices"
	"strconv"
	"strings"
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

// MaxUnits is the most units that one counted pool may have: a higher number is more likely a
// typing error.
const MaxUnits = 1_000_000_000

// decimals is how many digits after the point a [Decimal] has.
const decimals = 9

// Decimal is a number from 0 to 1e9 with at most nine digits after the point, as
// people write it: 0.2 is two tenths exactly.
type Decimal struct{ billionths int64 }

// ParseDecimal reads digits with at most one decimal point among them.
func ParseDecimal(text string) (Decimal, error) {
	whole, fraction, _ := strings.Cut(text, ".")
	digits := whole + fraction
	if digits == "" || strings.Trim(digits, "0123456789") != "" {
		return Decimal{}, fmt.Errorf("%q is not a decimal number such as 0.2", text)
	}
	fraction = strings.TrimRight(fraction, "0")
	if len(fraction) > decimals {
		return Decimal{}, fmt.Errorf("%q has more than %d digits after the point", text, decimals)
	}
	digits = whole + fraction + strings.Repeat("0", decimals-len(fraction))
	n, _ := new(big.Int).SetString(digits, 10)
	if n.Cmp(big.NewInt(MaxUnits*billion)) > 0 {
		return Decimal{}, fmt.Errorf("%q is above %d", text, MaxUnits)
	}
	return Decimal{n.Int64()}, nil
}

const billion = 1_000_000_000

// String returns d as [ParseDecimal] reads it.
func (d Decimal) String() string {
	text := fmt.Sprintf("%d.%09d", d.billionths/billion, d.billionths%billion)
	return strings.TrimRight(strings.TrimRight(text, "0"), ".")
}

// Cost turns the items of a request into units.
type Cost struct {
	Base    Decimal
	PerItem Decimal
	RoundTo int // units are a multiple of it, or Min; zero: 1
	Min     int // the least result; zero: 1
}

// Units returns max(base + items × per item, rounded up to a multiple of RoundTo,
// Min), exactly. It is at least 1, and at most MaxUnits + 1, which no pool has.
func (c Cost) Units(items int) int {
	sum := new(big.Int).Mul(big.NewInt(c.PerItem.billionths), big.NewInt(int64(max(items, 0))))
	sum.Add(sum, big.NewInt(c.Base.billionths))
	step := big.NewInt(int64(max(c.RoundTo, 1)))
	inStep := new(big.Int).Mul(step, big.NewInt(billion))
	sum.Add(sum, inStep).Sub(sum, big.NewInt(1)).Div(sum, inStep).Mul(sum, step)
	if sum.Cmp(big.NewInt(MaxUnits)) > 0 {
		return MaxUnits + 1
	}
	return max(int(sum.Int64()), c.Min, 1)
}

// check reports what is wrong with c in a pool of units.
func (c Cost) check(units int) error {
	switch {
	case c.RoundTo < 0 || c.Min < 0:
		return errors.New("the cost has a negative number")
	case c.Units(0) > units:
		return fmt.Errorf("no items cost %d units, and the pool has %d", c.Units(0), units)
	}
	return nil
}

// Reconfigure makes configs the configuration from now on. If it returns the error of [Check],
// nothing has changed.
//
//   - Free names, waiters and leases stay, under the new settings. A new pace counts from the
//     last grant. A new MaxTTL holds for a lease from its next renewal on.
//   - A name that is removed while it is held drains: it is in use until its lease ends, and is
//     not granted again. Releasing it is no error. If it is put into another pool meanwhile, it
//     is granted there when it is free.
//   - The reports on the leases of a pool, and the limit that they led to, stay if its type is
//     removed and put back.
//   - The units that a pool computed for a waiter stay. But a waiter that says no count wants one name
//     if its pool has names now.
//   - Waiters that their pool can no longer serve are dropped: with [ErrUnknownType] if the pool
//     is gone, with [ErrTooMany] if they want more units than it has now, with [ErrNoCost] if they
//     say a number of items and it has names now, with [ErrNotInPool] if they want a name that it no
//     longer has, and with [ErrNoOvercommit] if they may exceed the limit and the pool no longer has
//     an overcommit. Those that have joined a run wait for its result first.
func (s *Set) Reconfigure(now time.Duration, configs []Config) error {
	if err := Check(configs); err != nil {
		return err
	}
	s.Advance(now)
	s.configure(configs)
	s.serve()
	return nil
}

// configure applies configs, which are valid.
func (g *ledger) configure(configs []Config) {
	before := g.pools
	var names []string // that were configured
	var reserved []*slot
	for _, p := range before {
		reserved = append(reserved, p.reserved...)
		names = append(names, p.Names...)
		for _, r := range p.queue {
			if r.slot != nil && r.slot.pool == nil && r.key.queue[0] == r {
				names = append(names, r.Name) // of a snapshot, and perhaps no longer configured
			}
		}
		p.reserved = nil
		for _, name := range p.Names {
			g.slots[name].pool = nil
		}
		p.Config, p.retired = Config{Type: p.Type}, true
		p.limit.configure(p.Config)
	}
	var pools []*pool // those of configs come first
	for _, c := range configs {
		p := g.pool(c.Type)
		p.Config, p.retired = c.withDefaults(), false
		p.Names = slices.Clone(c.Names) // the next configure reads them
		p.limit.configure(p.Config)
		pools = append(pools, p)
		for _, name := range p.Names {
			g.slot(name).pool = p
		}
		p.findReserved(g)
	}
	for _, p := range before {
		if p.retired {
			pools = append(pools, p)
		}
	}
	g.pools = pools
	g.noteOutOfPools(reserved)
	for _, p := range g.pools {
		for _, r := range p.waiters() {
			g.recount(r)
		}
	}
	for _, p := range g.pools {
		g.refill(p)
		for _, r := range slices.Clone(p.queue) {
			g.dismiss(r)
		}
		g.reopen(p)
		g.touch(p)
	}
	for _, name := range names { // no stock has those that were removed
		if sl := g.slots[name]; sl != nil && sl.pool == nil && sl.free() {
			g.recall(sl)
		}
	}
	g.pools = slices.DeleteFunc(g.pools, func(p *pool) bool {
		if !p.over() || p.limit.reports.Type != "" {
			return false
		}
		delete(g.types, p.Type)
		if p.pacing.Count > 0 {
			g.note(Paced).Pacing = &Pacing{Type: p.Type}
		}
		return true
	})
}

// recount makes r, which waits and says no count, want one name of each of its pools that is a listed
// one now: a counted pool may have computed more units for it, which a client does not expect to be
// names.
func (g *ledger) recount(r *request) {
	changed := false
	for seat := range r.allSeats {
		p := seat.pool
		if p.retired || p.counted() || seat.saysCount() || seat.units == 1 {
			continue
		}
		if r.leader == nil { // it stands in the queue
			p.wanted += 1 - seat.units
		}
		seat.units, changed = 1, true
	}
	if changed {
		g.noteWaiter(Recounted, r)
	}
}

// refill sets the stock of p to those of p's names that are free. Names that were free before
// stay first.
func (g *ledger) refill(p *pool) {
	p.stock = slices.DeleteFunc(p.stock, func(name string) bool { return g.slots[name].pool != p })
	free := make(map[string]bool, len(p.stock))
	for _, name := range p.stock {
		free[name] = true
	}
	for _, name := range p.Names {
		if g.slots[name].free() && !free[name] {
			p.stock = append(p.stock, name)
		}
	}
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

// Numbered returns the names of a pool whose n resources have none of their own:
// typ-0 to typ-(n-1).
func Numbered(typ string, n int) []string {
	names := make([]string, n)
	for i := range names {
		names[i] = madeUp(typ, i)
	}
	return names
}

// lastMadeUp is the last K of the names TYPE-K of a counted pool; the next is 1
// again. A lease is over and forgotten long before its name comes again.
const lastMadeUp = 1_000_000

// madeUp returns the name typ-k.
func madeUp(typ string, k int) string { return typ + "-" + strconv.Itoa(k) }

// MadeUpFor returns the type of the counted pool that would make up this name; "" if none
// would.
func MadeUpFor(name string) (typ string) {
	i := strings.LastIndexByte(name, '-')
	if i < 0 || i == len(name)-1 || strings.Trim(name[i+1:], "0123456789") != "" {
		return ""
	}
	return name[:i]
}

// unitsOf returns how many units q asks for: its count, or the cost of its items, or else the
// Unknown of the pool. It fails with [ErrNoCost].
func (c Config) unitsOf(q Request) (int, error) {
	switch {
	case q.saysCount():
		return q.Count, nil
	case q.HasItems && c.Cost == nil:
		return 0, ErrNoCost
	case q.HasItems:
		return c.Cost.Units(q.Items), nil
	}
	return max(c.Unknown, 1), nil
}

// hasNoCost reports whether the pool has names, and q is for as many as a number of items costs.
func (c Config) hasNoCost(q Request) bool { return !c.counted() && q.HasItems && !q.saysCount() }
