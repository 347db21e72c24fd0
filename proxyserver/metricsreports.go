package proxyserver

import (
	"maps"
	"slices"

	"github.com/leasectl/leasectl/leaseapi"
	"github.com/leasectl/leasectl/proxyserver/promtext"
)

// writeReports writes what holders said, and what that did to the limits.
func (m *metrics) writeReports(t *promtext.Text, types []string) {
	write := func(name, help, label string, values func(*poolMetrics) map[string]uint64) {
		t.Family(name, "counter", help)
		for _, typ := range types {
			of := values(m.pools[typ])
			for _, value := range slices.Sorted(maps.Keys(of)) {
				t.Sample(name, promtext.Labels{"type", typ, label, value}, float64(of[value]))
			}
		}
	}
	write("leasectl_reports_total", "What holders said of their leases, as far as it counts.", "outcome", func(p *poolMetrics) map[string]uint64 {
		return map[string]uint64{leaseapi.OutcomeOK: p.reportsOK, leaseapi.OutcomeThrottled: p.reportsThrottled}
	})
	write("leasectl_limit_moves_total", "Moves of the limit of a pool that adapts.", "how", func(p *poolMetrics) map[string]uint64 {
		return map[string]uint64{"cut": p.cuts, "rise": p.rises}
	})
}
