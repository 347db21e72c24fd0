package proxyserver

import (
	"net/http"
	"runtime"
	"time"

	"github.com/leasectl/leasectl/pool"
	"github.com/leasectl/leasectl/proxyserver/connlimit"
	"github.com/leasectl/leasectl/proxyserver/metrics"
	"github.com/leasectl/leasectl/proxyserver/promtext"
	"github.com/leasectl/leasectl/proxyserver/store"
)

// serveMetrics answers even when the store has failed: an operator looks at the
// metrics then.
func (h *handler) serveMetrics(_ caller, w http.ResponseWriter, _ *http.Request) {
	term := h.term()
	var totals []pool.PoolStatus
	err := term.do(func(set *pool.Set, now time.Duration) { totals = set.Totals(now) })
	var t promtext.Text
	t.Family("leasectl_build_info", "gauge", "The version of the server, and of Go; always 1.")
	t.Sample("leasectl_build_info", promtext.Labels{"version", h.version, "goversion", runtime.Version()}, 1)
	h.metrics.WriteProcess(&t)
	h.writeCertificate(&t)
	h.writeLeader(&t)
	gauge(&t, "leasectl_ready", "Whether the server grants and releases: 1 or 0.", promtext.Bool(err == nil))
	gauge(&t, "leasectl_durable", "Whether leases outlive the server: 1 or 0.", promtext.Bool(h.durable()))
	if err == nil {
		metrics.WritePools(&t, totals)
	}
	h.metrics.Write(&t)
	writeConnections(&t, h.connections.Stats())
	if h.droppedLines != nil {
		t.Family("leasectl_log_lines_dropped_total", "counter", "Lines of the log that were lost: nobody read them, or they could not be written.")
		t.Sample("leasectl_log_lines_dropped_total", nil, float64(h.droppedLines()))
	}
	writeWarnings(&t, h.allWarnings())
	w.Header().Set("Content-Type", promtext.ContentType)
	w.Write(t.Bytes())
}

// gauge writes a metric that has one sample, without labels.
func gauge(t *promtext.Text, name, help string, value float64) {
	t.Family(name, "gauge", help)
	t.Sample(name, nil, value)
}

// writeConnections writes how many connections there are, and how many were closed for lack
// of room.
func writeConnections(t *promtext.Text, stats connlimit.Stats) {
	gauge(t, "leasectl_connections", "Open connections.", float64(stats.Open))
	gauge(t, "leasectl_connections_most", "How many connections may be open.", float64(stats.Most))
	t.Family("leasectl_connections_closed_total", "counter", "Connections that were closed because there were too many: idle ones for others, and new ones if all had a request.")
	t.Sample("leasectl_connections_closed_total", promtext.Labels{"which", "idle"}, float64(stats.ClosedIdle))
	t.Sample("leasectl_connections_closed_total", promtext.Labels{"which", "new"}, float64(stats.Refused))
}

// writeWarnings writes the warnings that /readyz shows.
func writeWarnings(t *promtext.Text, all []warning) {
	t.Family("leasectl_warning", "gauge", "What the server works on without, by its source: 1 while it lasts.")
	for _, w := range all {
		t.Sample("leasectl_warning", promtext.Labels{"source", w.source}, 1)
	}
}

func (h *handler) writeCertificate(t *promtext.Text) {
	if leaf := h.certificate(); leaf != nil {
		gauge(t, "leasectl_certificate_expiry_seconds", "When the certificate ends, in seconds since 1970.", float64(leaf.NotAfter.Unix()))
	}
}

// writeLeader writes whether this server leads, if servers share the store.
func (h *handler) writeLeader(t *promtext.Text) {
	l := h.leader()
	if l == nil {
		return
	}
	gauge(t, "leasectl_leader", "Whether this server leads: 1 or 0.", promtext.Bool(l.Leads))
	gauge(t, "leasectl_standby", "Servers that stand by, as far as this server knows.", float64(l.Standby))
	if m, ok := h.election.(store.Measurer); ok && l.Leads {
		total, used := m.Size()
		gauge(t, "leasectl_store_bytes", "Size of the database that has the leases, with what else is in it.", float64(total))
		gauge(t, "leasectl_store_used_bytes", "How much of that is in use.", float64(used))
	}
}
