package proxyserver

import (
	"cmp"
	"maps"
	"net/http"
	"runtime"
	"slices"
	"strings"
	"time"

	"github.com/leasectl/leasectl/pool"
)

// serveMetrics answers even when the store has failed: then it is what somebody
// wants to see.
func (s *Server) serveMetrics(_ caller, w http.ResponseWriter, _ *http.Request) {
	var totals []pool.PoolStatus
	err := s.do(func(now time.Duration) { totals = s.set.Totals(now) })
	var t metricsText
	t.family("leasectl_build_info", "gauge", "The version of the server, and of Go; always 1.")
	t.sample("leasectl_build_info", labels{"version", s.opts.Version, "goversion", runtime.Version()}, 1)
	t.family("process_start_time_seconds", "gauge", "When the server started, in seconds since 1970.")
	t.sample("process_start_time_seconds", nil, float64(s.metrics.started.UnixMilli())/1000)
	t.family("leasectl_ready", "gauge", "Whether the server grants and releases: 1 or 0.")
	t.sample("leasectl_ready", nil, oneIf(err == nil))
	t.family("leasectl_durable", "gauge", "Whether leases outlive the server: 1 or 0.")
	t.sample("leasectl_durable", nil, oneIf(s.store != nil))
	if err == nil {
		t.now(totals)
	}
	s.metrics.write(&t)
	t.warnings(s.warnings.all())
	w.Header().Set("Content-Type", contentTypeMetrics)
	w.Write(t.Bytes())
}

// now writes what is held, and what waits.
func (t *metricsText) now(totals []pool.PoolStatus) {
	gauge := func(name, help string, value func(pool.PoolStatus) float64) {
		t.family(name, "gauge", help)
		for _, p := range totals {
			t.sample(name, labels{"type", p.Type}, value(p))
		}
	}
	gauge("leasectl_capacity", "Leases that the pool has.", func(p pool.PoolStatus) float64 { return float64(p.Capacity) })
	gauge("leasectl_in_use", "Leases that are held.", func(p pool.PoolStatus) float64 { return float64(p.InUse) })
	gauge("leasectl_waiting", "Requests in the queue.", func(p pool.PoolStatus) float64 { return float64(p.Waiting) })
	gauge("leasectl_oldest_waiting_seconds", "How long the first in the queue has waited.", func(p pool.PoolStatus) float64 { return p.OldestWaiting.Seconds() })
	gauge("leasectl_next_grant_seconds", "How long the pace holds back the next grant.", func(p pool.PoolStatus) float64 { return p.NextGrantIn.Seconds() })
}

// write writes what was counted.
func (m *metrics) write(t *metricsText) {
	m.mu.Lock()
	defer m.mu.Unlock()
	types := slices.Sorted(maps.Keys(m.pools))
	counter := func(name, help string, value func(*poolMetrics) uint64) {
		t.family(name, "counter", help)
		for _, typ := range types {
			t.sample(name, labels{"type", typ}, float64(value(m.pools[typ])))
		}
	}
	counter("leasectl_grants_total", "Leases granted.", func(p *poolMetrics) uint64 { return p.grants })
	counter("leasectl_releases_total", "Leases ended by a release.", func(p *poolMetrics) uint64 { return p.releases })
	counter("leasectl_expiries_total", "Leases that nobody renewed in time.", func(p *poolMetrics) uint64 { return p.expiries })
	counter("leasectl_breaks_total", "Leases ended by an operator.", func(p *poolMetrics) uint64 { return p.breaks })

	t.family("leasectl_wait_seconds", "histogram", "How long requests that were granted had waited.")
	for _, typ := range types {
		t.histogram("leasectl_wait_seconds", labels{"type", typ}, &m.pools[typ].wait)
	}
	t.family("leasectl_hold_seconds", "histogram", "How long leases that ended had been held.")
	for _, typ := range types {
		t.histogram("leasectl_hold_seconds", labels{"type", typ}, &m.pools[typ].hold)
	}
	t.family("leasectl_refusals_total", "counter", "Calls refused; the type is empty if there is none, or no such one.")
	for _, k := range slices.SortedFunc(maps.Keys(m.refusals), func(a, b refusalKey) int {
		return cmp.Or(strings.Compare(a.typ, b.typ), strings.Compare(a.reason, b.reason))
	}) {
		t.sample("leasectl_refusals_total", labels{"type", k.typ, "reason", k.reason}, float64(m.refusals[k]))
	}
	t.family("leasectl_commit_seconds", "histogram", "How long it took to make changes durable.")
	t.histogram("leasectl_commit_seconds", nil, &m.commitSeconds)
	t.family("leasectl_commit_changes", "histogram", "Changes that became durable together.")
	t.histogram("leasectl_commit_changes", nil, &m.commitChanges)
	t.family("leasectl_commit_errors_total", "counter", "Commits that failed: after the first, the server waits for a restart.")
	t.sample("leasectl_commit_errors_total", nil, float64(m.commitErrors))
	m.writeReloads(t)
}

func (m *metrics) writeReloads(t *metricsText) {
	t.family("leasectl_reloads_total", "counter", "Files that were read again, by whether they were taken up.")
	for _, k := range slices.SortedFunc(maps.Keys(m.reloads), func(a, b reloadKey) int {
		return cmp.Or(strings.Compare(a.source, b.source), cmp.Compare(oneIf(a.ok), oneIf(b.ok)))
	}) {
		result := "error"
		if k.ok {
			result = "ok"
		}
		t.sample("leasectl_reloads_total", labels{"source", k.source, "result", result}, float64(m.reloads[k]))
	}
}

// warnings writes what /readyz warns of.
func (t *metricsText) warnings(all []warning) {
	t.family("leasectl_warning", "gauge", "What the server works on without, by its source: 1 while it lasts.")
	for _, w := range all {
		t.sample("leasectl_warning", labels{"source", w.source}, 1)
	}
}

func oneIf(b bool) float64 {
	if b {
		return 1
	}
	return 0
}
