package page

import (
	"strconv"

	"github.com/leasectl/leasectl/leaseapi"
	"github.com/leasectl/leasectl/proxyserver/page/markup"
)

// peaks shows what leases of a counted pool asked for, and what their commands used. An
// operator sets the cost and the capacity by these numbers.
func peaks(b *markup.Builder, p Pool) {
	if p.Peaks == nil {
		return
	}
	b.Put(`<h2>Asked and used</h2><p class="count">In {}, from {} with a known peak</p>`,
		unitsOf(p.PoolStatus), many(p.Peaks.Leases, "lease", "leases"))
	t := newTable(b, "What leases of "+p.Type+" asked for and used", "Leases", "p50", "p95", "Max")
	row := func(head string, q leaseapi.Quantiles, text func(int64) string) {
		t.row("")
		t.text("name", head)
		for _, n := range []int64{q.P50, q.P95, q.Max} {
			t.text("num", text(n))
		}
	}
	row("asked", p.Peaks.Asked, func(n int64) string { return strconv.FormatInt(n, 10) })
	row("used", p.Peaks.Used, func(n int64) string { return leaseapi.InUnits(n, p.Unit) })
	t.end()
}
