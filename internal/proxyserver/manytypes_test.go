package proxyserver

import (
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/leasectl/leasectl/internal/proxyserver/config"
)

// A deployment has hundreds of types and thousands of names, some of them addresses, or slices
// of a region. All are served, and a restart keeps them.
func TestManyTypes(t *testing.T) {
	const types, each = 400, 25
	file := func(from int) []byte {
		var b strings.Builder
		b.WriteString("resources:\n")
		for i := from; i < types; i++ {
			fmt.Fprintf(&b, "- type: type-%d-quota-slice\n", i)
			switch i % 3 {
			case 0:
				fmt.Fprintf(&b, "  min-count: %d\n  max-count: %d\n", each, each)
				continue
			case 1:
				fmt.Fprintf(&b, "  state: free\n  names:\n")
				for n := range each {
					fmt.Fprintf(&b, "  - 10.%d.%d.%d\n", i/256, i%256, n)
				}
			default:
				fmt.Fprintf(&b, "  state: free\n  names:\n")
				for n := range each {
					fmt.Fprintf(&b, "  - us-east-1--type-%d-quota-slice-%02d\n", i, n)
				}
			}
		}
		return []byte(b.String())
	}
	pools, warnings, err := config.ParsePools("c", file(0))
	if err != nil || len(warnings) > 0 {
		t.Fatalf("%v, %v", warnings, err)
	}
	p := start(t, Options{Pools: pools, Store: openStore(t, t.TempDir())})
	p.http.Timeout = time.Minute
	for i := range types {
		got := p.granted(fmt.Sprintf("type=type-%d-quota-slice&count=%d&owner=me", i, each))
		if len(got.Leases) != each {
			t.Fatalf("type %d got %+v", i, got)
		}
	}
	if served := p.pools(); len(served) != types || served[1].Leases[0].Name != "10.0.1.0" || served[2].Leases[each-1].Name != "us-east-1--type-2-quota-slice-24" {
		t.Errorf("%d pools, of which the second has %+v", len(served), served[1].Leases)
	}
	// The first ten are removed while they are held.
	if pools, _, err = config.ParsePools("c", file(10)); err != nil {
		t.Fatal(err)
	}
	if err := p.server.SetPools(pools); err != nil {
		t.Fatal(err)
	}
	text := p.do("GET", "/metrics", "").body
	if n := strings.Count(text, "\nleasectl_in_use{"); n != types {
		t.Errorf("metrics of %d pools, want also those that drain", n)
	}
	if r := p.acquire("type=type-9-quota-slice"); r.status != 404 {
		t.Errorf("a type that was taken out: %d %s", r.status, r.body)
	}
}
