package leaseapi

import (
	"math"
	"testing"
)

func TestUnitBytes(t *testing.T) {
	for unit, want := range map[string]int64{
		"1Mi": 1 << 20, "512k": 512_000, "4096": 4096, "2Gi": 2 << 30,
		"": 0, "Mi": 0, "1mi": 0, "0Mi": 0, "one call": 0, "1.5Gi": 0, "-1Mi": 0, "99999999999Ti": 0,
		"8388607Ti": 8388607 << 40, "8388608Ti": 0, "16777216Ti": 0, // 2^63 and 2^64 bytes
	} {
		if got, ok := unitBytes(unit); got != want || ok != (want > 0) {
			t.Errorf("%q is %d bytes, %v, want %d", unit, got, ok, want)
		}
	}
}

func TestInUnits(t *testing.T) {
	for _, c := range []struct {
		bytes int64
		unit  string
		want  string
	}{
		{0, "1Mi", "0"}, {1, "1Mi", "1"}, {1 << 20, "1Mi", "1"}, {1<<20 + 1, "1Mi", "2"},
		{math.MaxInt64, "1Ti", "8388608"}, {math.MaxInt64, "1", "9223372036854775807"},
		{1, "one call", "-"}, {1, "16777216Ti", "-"},
	} {
		if got := InUnits(c.bytes, c.unit); got != c.want {
			t.Errorf("%d bytes are %s units of %q, want %s", c.bytes, got, c.unit, c.want)
		}
	}
}
