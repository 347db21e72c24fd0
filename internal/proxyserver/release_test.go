package proxyserver

import (
	"fmt"
	"testing"
	"time"

	"github.com/leasectl/leasectl/internal/pool"
	"github.com/leasectl/leasectl/leaseapi"
)

// A release is put off by the max_ttl of the pool at the most, or by a day: nobody renews the lease
// meanwhile. A refused call does nothing.
func TestLongestDelay(t *testing.T) {
	short := quota(4)
	short.MaxTTL, short.DefaultTTL = time.Minute, time.Minute
	p := start(t, Options{Pools: []pool.Config{short, {Type: "r", Names: []string{"r"}}}})
	l := p.granted("type=q&owner=me&request_id=a").Leases[0]
	r := p.granted("type=r&owner=me&request_id=b").Leases[0]
	for _, test := range []struct {
		body   string
		status int
	}{
		{fmt.Sprintf(`{"leases":[{"name":%q,"generation":%d}],"delay":"61s"}`, l.Name, l.Generation), 400},
		{fmt.Sprintf(`{"names":[%q],"owner":"me","delay":"20000h"}`, l.Name), 400},
		{fmt.Sprintf(`{"names":["r",%q],"owner":"me","delay":"2m"}`, l.Name), 400},
		{fmt.Sprintf(`{"leases":[{"name":"r","generation":%d}],"delay":"24h1s"}`, r.Generation), 400},
		{fmt.Sprintf(`{"leases":[{"name":"r","generation":%d}],"delay":"48h"}`, r.Generation+100), 200}, // stale
		{fmt.Sprintf(`{"leases":[{"name":%q,"generation":%d}],"delay":"1m"}`, l.Name, l.Generation), 200},
		{fmt.Sprintf(`{"leases":[{"name":"r","generation":%d}],"delay":"24h"}`, r.Generation), 200},
	} {
		got := p.do("POST", leaseapi.PathRelease, test.body)
		if got.status != test.status {
			t.Errorf("%s: %d, want %d: %s", test.body, got.status, test.status, got.body)
		}
		for _, pl := range p.pools() {
			for _, held := range pl.Leases {
				if test.status == 400 && !held.ReleaseAt.IsZero() {
					t.Errorf("%s: refused, and %s is put off", test.body, held.Name)
				}
			}
		}
	}
}
