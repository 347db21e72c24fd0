package page_test

import (
	"regexp"
	"strings"
	"testing"

	"github.com/leasectl/leasectl/leaseapi"
	"github.com/leasectl/leasectl/pool"
	"github.com/leasectl/leasectl/proxyserver/page"
)

// cells are the texts in the body of a table without markup in its cells, by row.
func cells(html string) string {
	_, body, _ := strings.Cut(html, "<tbody")
	body = strings.ReplaceAll(body, "</tr>", ";")
	return strings.Join(strings.Fields(regexp.MustCompile(`<[^>]*>|^[^>]*>`).ReplaceAllString(body, " ")), " ")
}

// The page shows what leases asked for, and below it what commands used, in the pool's unit.
func TestPeaks(t *testing.T) {
	asked := leaseapi.Quantiles{P50: 20, P95: 30, Max: 40}
	used := leaseapi.Quantiles{P50: 10 << 20, P95: 20<<20 + 1, Max: 50 << 20}
	for unit, want := range map[string]string{
		"1Mi": "asked 20 30 40 ; used 10 21 50 ;", "2Mi": "asked 20 30 40 ; used 5 11 25 ;",
	} {
		p := page.Pool{PoolStatus: pool.PoolStatus{Type: "mem", Counted: true, Unit: unit}, Peaks: &leaseapi.Peaks{Leases: 3, Asked: asked, Used: used}}
		if got := cells(text(view(false).Pool(p, pool.Part{}, page.Day{}), "peaks")); got != want {
			t.Errorf("in units of %q: %s, want %s", unit, got, want)
		}
	}
}
