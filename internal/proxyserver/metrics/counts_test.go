package metrics

import (
	"strings"
	"testing"
	"time"

	"github.com/leasectl/leasectl/internal/pool"
)

// Each lease that ends counts once, by how it ended. So grants are the ends plus the leases in
// use. A lease that an operator took away counts as broken, even if its holder then released
// it or its TTL ended.
func TestEndsAreCountedOnce(t *testing.T) {
	const all = "leasectl_releases_total leasectl_expiries_total leasectl_breaks_total leasectl_v1_expiries_total"
	of := func(broken string) pool.Lease { return pool.Lease{Type: "t", RequestID: "r", Broken: broken} }
	for _, tt := range []struct {
		name   string
		lease  pool.Lease
		reason pool.Reason
		counts string
	}{
		{"released", of(""), pool.Released, "leasectl_releases_total"},
		{"expired", of(""), pool.Expired, "leasectl_expiries_total"},
		{"broken now", of("drill"), "broken: drill", "leasectl_breaks_total"},
		{"broken, then released", of("drill"), pool.Released, "leasectl_breaks_total"},
		{"broken, then expired", of("drill"), pool.Expired, "leasectl_breaks_total"},
	} {
		t.Run(tt.name, func(t *testing.T) {
			m := New()
			m.Configured([]pool.Config{{Type: "t"}})
			m.Changed([]pool.Change{{Kind: pool.Done, Lease: tt.lease, Reason: tt.reason, Took: time.Minute}})
			text := written(m)
			for _, name := range strings.Fields(all) {
				want := name + `{type="t"} 0`
				if name == tt.counts {
					want = name + `{type="t"} 1`
				}
				if !strings.Contains(text, "\n"+want+"\n") {
					t.Errorf("no %s in\n%s", want, text)
				}
			}
		})
	}
}

// written returns the text of all that m has counted.
func written(m *Counts) string {
	var text Text
	m.Write(&text)
	return string(text.Bytes())
}

// A label may be any text, of a gauge, a counter, and a histogram.
func TestAnyLabel(t *testing.T) {
	const label, want = "a\\b\"c\nd{}=,", `{type="a\\b\"c\nd{}=,"} 1`
	m := New()
	m.Configured([]pool.Config{{Type: label}})
	m.Changed([]pool.Change{{Kind: pool.Done, Lease: pool.Lease{Type: label}, Reason: pool.Released}})
	var text Text
	text.Sample("x", 1, "type", label)
	m.Write(&text)
	for _, name := range []string{"x", "leasectl_releases_total", "leasectl_hold_seconds_count"} {
		if !strings.Contains("\n"+string(text.Bytes()), "\n"+name+want+"\n") {
			t.Errorf("no %s%s in\n%s", name, want, text.Bytes())
		}
	}
}
