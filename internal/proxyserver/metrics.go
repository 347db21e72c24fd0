package proxyserver

import (
	"net/http"
	"runtime"
	"time"

	"github.com/leasectl/leasectl/internal/pool"
	"github.com/leasectl/leasectl/internal/proxyserver/connlimit"
	"github.com/leasectl/leasectl/internal/proxyserver/metrics"
	"github.com/leasectl/leasectl/internal/proxyserver/store"
)

// serveMetrics answers even when the store has failed: an operator looks at the
// metrics then.
func (h *handler) serveMetrics(c caller, w http.ResponseWriter, _ *http.Request) {
	if err := c.mayOperateOnAll("the metrics"); err != nil {
		h.refuseCall(w, err)
		return
	}
	term := h.term()
	var totals []pool.PoolStatus
	err := term.do(func(set *pool.Set, now time.Duration) { totals = set.Totals(now) })
	var t metrics.Text
	t.Family("leasectl_build_info", "gauge", "The version of the server, and of Go; always 1.")
	t.Sample("leasectl_build_info", 1, "version", h.version, "goversion", runtime.Version())
	h.metrics.WriteProcess(&t)
	h.writeCertificate(&t)
	h.writeIssuers(&t)
	h.writeLeader(&t)
	t.One("leasectl_ready", "gauge", "Whether the server grants and releases: 1 or 0.", metrics.Bool(err == nil))
	t.One("leasectl_durable", "gauge", "Whether leases outlive the server: 1 or 0.", metrics.Bool(h.durable()))
	if err == nil {
		metrics.WritePools(&t, totals)
	}
	h.metrics.Write(&t)
	writeConnections(&t, h.connections.Stats())
	if h.droppedLines != nil {
		t.One("leasectl_log_lines_dropped_total", "counter", "Lines of the log that were lost: nobody read them, or they could not be written.", float64(h.droppedLines()))
	}
	writeWarnings(&t, h.allWarnings())
	w.Header().Set("Content-Type", metrics.ContentType)
	w.Write(t.Bytes())
}

// writeConnections writes how many connections there are, and how many were closed for lack
// of room.
func writeConnections(t *metrics.Text, stats connlimit.Stats) {
	t.One("leasectl_connections", "gauge", "Open connections.", float64(stats.Open))
	t.One("leasectl_connections_most", "gauge", "How many connections may be open.", float64(stats.Most))
	t.Family("leasectl_connections_closed_total", "counter", "Connections that were closed because there were too many: idle ones and those of strangers for others, and new ones if all had a request.")
	t.Sample("leasectl_connections_closed_total", float64(stats.ClosedIdle), "which", "idle")
	t.Sample("leasectl_connections_closed_total", float64(stats.Refused), "which", "new")
}

// writeWarnings writes the warnings that /readyz shows.
func writeWarnings(t *metrics.Text, all []warning) {
	t.Family("leasectl_warning", "gauge", "What the server works on without, by its source: 1 while it lasts.")
	for _, w := range all {
		t.Sample("leasectl_warning", 1, "source", w.source)
	}
}

func (h *handler) writeCertificate(t *metrics.Text) {
	if leaf := h.certificate(); leaf != nil {
		t.One("leasectl_certificate_expiry_seconds", "gauge", "When the certificate ends, in seconds since 1970.", float64(leaf.NotAfter.Unix()))
	}
}

// writeLeader writes whether this server leads, if servers share the store.
func (h *handler) writeLeader(t *metrics.Text) {
	l := h.leader()
	if l == nil {
		return
	}
	t.One("leasectl_leader", "gauge", "Whether this server leads: 1 or 0.", metrics.Bool(l.Leads))
	t.One("leasectl_standby", "gauge", "Servers that stand by, as far as this server knows.", float64(l.Standby))
	if m, ok := h.election.(store.Measurer); ok && l.Leads {
		total, used := m.Size()
		t.One("leasectl_store_bytes", "gauge", "Size of the database that has the leases, with what else is in it.", float64(total))
		t.One("leasectl_store_used_bytes", "gauge", "How much of that is in use.", float64(used))
	}
}
