package leaseapi

import "testing"

func TestUnitBytes(t *testing.T) {
	for unit, want := range map[string]int64{
		"1Mi": 1 << 20, "512k": 512_000, "4096": 4096, "2Gi": 2 << 30,
		"": 0, "Mi": 0, "1mi": 0, "0Mi": 0, "one call": 0, "1.5Gi": 0, "-1Mi": 0, "99999999999Ti": 0,
	} {
		if got, ok := unitBytes(unit); got != want || ok != (want > 0) {
			t.Errorf("%q is %d bytes, %v, want %d", unit, got, ok, want)
		}
	}
}
