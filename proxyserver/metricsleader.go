package proxyserver

import (
	"github.com/leasectl/leasectl/proxyserver/promtext"
	"github.com/leasectl/leasectl/proxyserver/store"
)

// writeLeader writes who leads, of servers that share a store.
func (h *handler) writeLeader(t *promtext.Text) {
	l := h.leader()
	if l == nil {
		return
	}
	one := func(name, help string, value float64) {
		t.Family(name, "gauge", help)
		t.Sample(name, nil, value)
	}
	one("leasectl_leader", "Whether this server leads: 1 or 0.", oneIf(l.Leads))
	one("leasectl_standby", "Servers that stand by, as far as this server knows.", float64(l.Standby))
	if m, ok := h.election.(store.Measurer); ok && l.Leads {
		total, used := m.Size()
		one("leasectl_store_bytes", "Size of the database that has the leases, with what else is in it.", float64(total))
		one("leasectl_store_used_bytes", "How much of that is in use.", float64(used))
	}
}
