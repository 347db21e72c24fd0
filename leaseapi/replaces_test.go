package leaseapi

import (
	"slices"
	"strings"
	"testing"
)

func TestReplaces(t *testing.T) {
	for _, leases := range [][]Lease{
		{{Name: "q-0", Generation: 1}},
		{{Name: "q-0", Generation: 18446744073709551615}, {Name: "us-east-1--a", Generation: 7}},
		{{Name: "a:b", Generation: 4}, {Name: "a:5:x", Generation: 5}},
	} {
		got, err := ParseReplaces(FormatReplaces(leases))
		if err != nil || !slices.Equal(got, leases) {
			t.Errorf("%s is %v, %v", FormatReplaces(leases), got, err)
		}
	}
	for _, bad := range []string{"", "q-0", "q-0:", "q-0:0", "q-0:-1", ":7", "q-0:7,", "a,b:7", "q/0:7", "q-0:18446744073709551616",
		strings.TrimSuffix(strings.Repeat("q:1,", MaxReplaces+1), ",")} {
		if got, err := ParseReplaces(bad); err == nil {
			t.Errorf("%q is %v", Shorten(bad), got)
		}
	}
}
