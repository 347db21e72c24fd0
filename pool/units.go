package pool

import (
	"errors"
	"fmt"
	"strconv"
	"strings"

	"github.com/leasectl/leasectl/leaseapi"
)

// Capacity returns how many units the pool has.
func (c Config) Capacity() int {
	if c.counted() {
		return c.Units
	}
	return len(c.Names)
}

// counted reports whether the pool makes up names, and has none of its own.
func (c Config) counted() bool { return c.Units != 0 }

// unitsOf returns how many units q asks for: as many as it says, or as its items
// cost, or as the pool takes for what is unknown.
func (c Config) unitsOf(q Request) (int, error) {
	switch {
	case q.Count > 0:
		return q.Count, nil
	case q.HasItems && c.Cost == nil:
		return 0, ErrNoCost
	case q.HasItems:
		return c.Cost.Units(q.Items), nil
	case q.Weighted:
		return max(c.Unknown, 1), nil
	}
	return 1, nil
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

// lastMadeUp is the last K of the names TYPE-K of a counted pool; the next is 1
// again. A lease is over and forgotten long before its name comes again.
const lastMadeUp = 1_000_000

// madeUp returns the name of a lease of a counted pool.
func madeUp(typ string, k int) string { return typ + "-" + strconv.Itoa(k) }

// madeUpFor returns the type of the counted pool whose name this would be; false if
// no counted pool makes up such a name.
func madeUpFor(name string) (typ string, ok bool) {
	i := strings.LastIndexByte(name, '-')
	if i < 0 || i == len(name)-1 || strings.Trim(name[i+1:], "0123456789") != "" {
		return "", false
	}
	return name[:i], true
}
