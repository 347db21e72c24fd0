package pool

import (
	"strings"
	"testing"
)

func decimal(t testing.TB, text string) Decimal {
	t.Helper()
	d, err := ParseDecimal(text)
	if err != nil {
		t.Fatal(err)
	}
	return d
}

func TestParseDecimal(t *testing.T) {
	for _, c := range []struct{ text, want string }{
		{"0", "0"}, {"0.2", "0.2"}, {"128", "128"}, {".5", "0.5"}, {"7.", "7"}, {"1.50", "1.5"},
		{"0.000000001", "0.000000001"}, {"1000000000", "1000000000"}, {"0.10000000000", "0.1"}, {"007", "7"},
	} {
		if got := decimal(t, c.text).String(); got != c.want {
			t.Errorf("%q is %s, want %s", c.text, got, c.want)
		}
	}
	for _, text := range []string{"", ".", "-1", "+1", "1e3", "0x1", "1,5", "1.2.3", " 1", "one", "1000000000.1", "0.0000000001", "1/3", strings.Repeat("9", 400)} {
		if d, err := ParseDecimal(text); err == nil {
			t.Errorf("%q is %s, want an error", text, d)
		}
	}
}

// Units are computed in decimals: in floats 0.1 × 3 is a little more than 0.3, and a
// request would cost a step more.
func TestCostIsExact(t *testing.T) {
	mem := Cost{Base: decimal(t, "128"), PerItem: decimal(t, "0.2"), RoundTo: 32, Min: 128}
	tenths := Cost{PerItem: decimal(t, "0.1"), Base: decimal(t, "0.7")}
	for _, c := range []struct {
		cost        Cost
		items, want int
	}{
		{mem, 0, 128}, {mem, 1, 160}, {mem, 160, 160}, {mem, 161, 192}, {mem, 200, 192}, {mem, 3000, 736}, {mem, -5, 128},
		{tenths, 3, 1}, {tenths, 4, 2}, {tenths, 13, 2}, {tenths, 14, 3},
		{Cost{}, 9, 1},
		{Cost{RoundTo: 8}, 0, 1},
		{Cost{PerItem: decimal(t, "1"), RoundTo: 10, Min: 15}, 1, 15}, // Min need not be a multiple
		{Cost{PerItem: decimal(t, "1")}, MaxUnits, MaxUnits},
		{Cost{PerItem: decimal(t, "1")}, MaxUnits + 1, MaxUnits + 1},
		{Cost{PerItem: decimal(t, "1000000000")}, 1 << 62, MaxUnits + 1},
	} {
		if got := c.cost.Units(c.items); got != c.want {
			t.Errorf("%+v: %d items are %d units, want %d", c.cost, c.items, got, c.want)
		}
	}
}
