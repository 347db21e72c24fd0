package leaseapi

import (
	"net/url"
	"testing"
)

// A checksum is that of the parameters, however they are written, and of each of them.
func TestChecksum(t *testing.T) {
	for _, tt := range []struct {
		query string
		same  bool
	}{
		{"type=a%20b&count=1", true},
		{"count=1&type=a+b", true},
		{"count=11&type=a+b", false},
		{"count=1&type=a+b&type=a+b", false},
		{"count=1&type=a+b&owner=", false},
		{"countt=1&type=a+b", false},
		{"type=a+b", false},
	} {
		query, err := url.ParseQuery(tt.query)
		if err != nil {
			t.Fatal(err)
		}
		if sum := Checksum(query); (sum == "57b7d23f") != tt.same {
			t.Errorf("%s: checksum %s", tt.query, sum)
		}
	}
}
