package proxyserver

import (
	"cmp"
	"maps"
	"net/http"
	"runtime"
	"slices"
	"strings"
	"time"

	"github.com/leasectl/leasectl/leaseapi"
	"github.com/leasectl/leasectl/pool"
	"github.com/leasectl/leasectl/proxyserver/promtext"
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
	writeProcess(&t)
	h.writeCertificate(&t)
	h.writeLeader(&t)
	t.Family("leasectl_ready", "gauge", "Whether the server grants and releases: 1 or 0.")
	t.Sample("leasectl_ready", nil, oneIf(err == nil))
	t.Family("leasectl_durable", "gauge", "Whether leases outlive the server: 1 or 0.")
	t.Sample("leasectl_durable", nil, oneIf(h.durable()))
	if err == nil {
		writePools(&t, totals)
	}
	h.metrics.write(&t)
	h.connections.write(&t)
	if h.droppedLines != nil {
		t.Family("leasectl_log_lines_dropped_total", "counter", "Lines of the log that were lost, since nobody read them.")
		t.Sample("leasectl_log_lines_dropped_total", nil, float64(h.droppedLines()))
	}
	writeWarnings(&t, h.allWarnings())
	w.Header().Set("Content-Type", promtext.ContentType)
	w.Write(t.Bytes())
}

// write writes how many connections there are, and how many there was no room for.
func (c *connections) write(t *promtext.Text) {
	c.mu.Lock()
	defer c.mu.Unlock()
	t.Family("leasectl_connections", "gauge", "Open connections.")
	t.Sample("leasectl_connections", nil, float64(len(c.open)))
	t.Family("leasectl_connections_most", "gauge", "How many connections may be open.")
	t.Sample("leasectl_connections_most", nil, float64(c.most))
	t.Family("leasectl_connections_closed_total", "counter", "Connections that were closed because there were too many: idle ones for others, and new ones if all had a request.")
	t.Sample("leasectl_connections_closed_total", promtext.Labels{"which", "idle"}, float64(c.closedIdle))
	t.Sample("leasectl_connections_closed_total", promtext.Labels{"which", "new"}, float64(c.refused))
}

// writePools writes how many leases are held, and how many requests wait.
func writePools(t *promtext.Text, totals []pool.PoolStatus) {
	gauge := func(name, help string, value func(pool.PoolStatus) float64) {
		t.Family(name, "gauge", help)
		for _, p := range totals {
			t.Sample(name, promtext.Labels{"type", p.Type}, value(p))
		}
	}
	gauge("leasectl_capacity", "Units that the pool has: names, or what a counted pool is counted in.", func(p pool.PoolStatus) float64 { return float64(p.Capacity) })
	gauge("leasectl_limit", "Units that may be in use now.", func(p pool.PoolStatus) float64 { return float64(p.Limit) })
	gauge("leasectl_in_use", "Units that are held, or have a lock delay.", func(p pool.PoolStatus) float64 { return float64(p.InUse) })
	gauge("leasectl_lock_delayed", "Units that nobody holds, and that are not granted yet because of the lock delay.", func(p pool.PoolStatus) float64 { return float64(p.LockDelayed) })
	gauge("leasectl_waiting", "Requests in the queue.", func(p pool.PoolStatus) float64 { return float64(p.Waiting) })
	gauge("leasectl_following", "Requests that have joined one that waits, or runs.", func(p pool.PoolStatus) float64 { return float64(p.Following) })
	gauge("leasectl_oldest_waiting_seconds", "How long the first in the queue has waited.", func(p pool.PoolStatus) float64 { return p.OldestWaiting.Seconds() })
	gauge("leasectl_oldest_held_seconds", "How long the lease has been held that is held longest.", func(p pool.PoolStatus) float64 { return p.OldestHeld.Seconds() })
	gauge("leasectl_paused", "Whether an operator has paused the pool: 1 or 0.", func(p pool.PoolStatus) float64 { return oneIf(p.Paused != nil) })
	gauge("leasectl_next_grant_seconds", "How long the pace holds back the next grant.", func(p pool.PoolStatus) float64 { return p.NextGrantIn.Seconds() })
}

// write writes all that was counted.
func (m *metrics) write(t *promtext.Text) {
	m.mu.Lock()
	defer m.mu.Unlock()
	types := slices.Sorted(maps.Keys(m.pools))
	counter := func(name, help string, value func(*poolMetrics) uint64) {
		t.Family(name, "counter", help)
		for _, typ := range types {
			t.Sample(name, promtext.Labels{"type", typ}, float64(value(m.pools[typ])))
		}
	}
	counter("leasectl_grants_total", "Leases granted.", func(p *poolMetrics) uint64 { return p.grants })
	counter("leasectl_releases_total", "Leases ended by a release.", func(p *poolMetrics) uint64 { return p.releases })
	counter("leasectl_expiries_total", "Leases that nobody renewed in time.", func(p *poolMetrics) uint64 { return p.expiries })
	counter("leasectl_v1_ending_total", "Leases of version-1 clients, which do not renew, nine tenths of whose TTL were over.", func(p *poolMetrics) uint64 { return p.v1Ending })
	counter("leasectl_v1_expiries_total", "Leases of version-1 clients, which do not renew, that ended with their TTL.", func(p *poolMetrics) uint64 { return p.v1Expiries })
	counter("leasectl_overcommits_total", "Leases granted to requests with overcommit.", func(p *poolMetrics) uint64 { return p.overcommits })
	counter("leasectl_breaks_total", "Leases ended by an operator.", func(p *poolMetrics) uint64 { return p.breaks })

	t.Family("leasectl_wait_seconds", "histogram", "How long requests that were granted had waited.")
	for _, typ := range types {
		t.Histogram("leasectl_wait_seconds", promtext.Labels{"type", typ}, &m.pools[typ].wait)
	}
	t.Family("leasectl_hold_seconds", "histogram", "How long leases that ended had been held.")
	for _, typ := range types {
		t.Histogram("leasectl_hold_seconds", promtext.Labels{"type", typ}, &m.pools[typ].hold)
	}
	t.Family("leasectl_waits_ended_total", "counter", "Requests that left the queue without a lease.")
	for _, typ := range types {
		for _, end := range pool.WaitEnds {
			t.Sample("leasectl_waits_ended_total", promtext.Labels{"type", typ, "how", string(end)}, float64(m.pools[typ].waitsEnded[end]))
		}
	}
	t.Family("leasectl_resizes_total", "counter", "Leases of counted pools that hold another number of units since.")
	for _, typ := range types {
		t.Sample("leasectl_resizes_total", promtext.Labels{"type", typ, "how", "grown"}, float64(m.pools[typ].grown))
		t.Sample("leasectl_resizes_total", promtext.Labels{"type", typ, "how", "shrunk"}, float64(m.pools[typ].shrunk))
	}
	m.writeReports(t, types)
	m.writePeaks(t, types)
	t.Family("leasectl_refusals_total", "counter", "Calls refused; the type is empty if there is none, or no such one.")
	for _, k := range slices.SortedFunc(maps.Keys(m.refusals), func(a, b refusalKey) int {
		return cmp.Or(strings.Compare(a.typ, b.typ), strings.Compare(a.reason, b.reason))
	}) {
		t.Sample("leasectl_refusals_total", promtext.Labels{"type", k.typ, "reason", k.reason}, float64(m.refusals[k]))
	}
	t.Family("leasectl_commit_seconds", "histogram", "How long it took to make changes durable.")
	t.Histogram("leasectl_commit_seconds", nil, &m.commitSeconds)
	t.Family("leasectl_commit_changes", "histogram", "Changes that became durable together.")
	t.Histogram("leasectl_commit_changes", nil, &m.commitChanges)
	t.Family("leasectl_commit_errors_total", "counter", "Commits that failed: after the first, the server waits for a restart.")
	t.Sample("leasectl_commit_errors_total", nil, float64(m.commitErrors))
	t.Family("leasectl_stalls_total", "counter", "Times in which the server stood still for more than a second.")
	t.Sample("leasectl_stalls_total", nil, float64(m.stalls))
	m.writeReloads(t)
}

// writePeaks writes what the last leases of counted pools asked for, and used.
func (m *metrics) writePeaks(t *promtext.Text, types []string) {
	write := func(name, help string, of func(*leaseapi.Peaks) leaseapi.Quantiles) {
		t.Family(name, "gauge", help)
		for _, typ := range types {
			if p := m.pools[typ].peaks.summary(); p != nil {
				q := of(p)
				t.Sample(name, promtext.Labels{"type", typ, "quantile", "0.5"}, float64(q.P50))
				t.Sample(name, promtext.Labels{"type", typ, "quantile", "0.95"}, float64(q.P95))
				t.Sample(name, promtext.Labels{"type", typ, "quantile", "1"}, float64(q.Max))
			}
		}
	}
	write("leasectl_asked_units", "Units that the last leases of a counted pool had asked for.", func(p *leaseapi.Peaks) leaseapi.Quantiles { return p.Asked })
	write("leasectl_used_bytes", "Peak memory of the commands of the same leases.", func(p *leaseapi.Peaks) leaseapi.Quantiles { return p.Used })
}

func (m *metrics) writeReloads(t *promtext.Text) {
	t.Family("leasectl_reloads_total", "counter", "Files that were read again, by whether they were taken up.")
	for _, k := range slices.SortedFunc(maps.Keys(m.reloads), func(a, b reloadKey) int {
		return cmp.Or(strings.Compare(a.source, b.source), cmp.Compare(oneIf(a.ok), oneIf(b.ok)))
	}) {
		result := "error"
		if k.ok {
			result = "ok"
		}
		t.Sample("leasectl_reloads_total", promtext.Labels{"source", k.source, "result", result}, float64(m.reloads[k]))
	}
}

// writeWarnings writes the warnings that /readyz shows.
func writeWarnings(t *promtext.Text, all []warning) {
	t.Family("leasectl_warning", "gauge", "What the server works on without, by its source: 1 while it lasts.")
	for _, w := range all {
		t.Sample("leasectl_warning", promtext.Labels{"source", w.source}, 1)
	}
}
