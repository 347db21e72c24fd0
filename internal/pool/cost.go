package pool

import (
	"errors"
	"fmt"
	"math/big"
	"strings"
)

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

// Units returns how many units an Acquire of q would ask for. It fails with
// [ErrUnknownType] or [ErrNoCost].
func (s *Set) Units(q Request) (int, error) {
	p := s.types[q.Type]
	if p == nil || p.retired {
		return 0, ErrUnknownType
	}
	return p.unitsOf(q)
}
