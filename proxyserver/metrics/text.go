package metrics

import (
	"cmp"
	"maps"
	"slices"
	"strings"

	"github.com/leasectl/leasectl/leaseapi"
	"github.com/leasectl/leasectl/pool"
	"github.com/leasectl/leasectl/proxyserver/promtext"
)

// WritePools writes how many leases are held, and how many requests wait.
func WritePools(t *promtext.Text, totals []pool.PoolStatus) {
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
	gauge("leasectl_paused", "Whether an operator has paused the pool: 1 or 0.", func(p pool.PoolStatus) float64 { return promtext.Bool(p.Paused != nil) })
	gauge("leasectl_next_grant_seconds", "How long the pace holds back the next grant.", func(p pool.PoolStatus) float64 { return p.NextGrantIn.Seconds() })
}

// Write writes all that was counted.
func (m *Counts) Write(t *promtext.Text) {
	m.mu.Lock()
	defer m.mu.Unlock()
	types := slices.Sorted(maps.Keys(m.pools))
	counter := func(name, help string, value func(*poolCounts) uint64) {
		t.Family(name, "counter", help)
		for _, typ := range types {
			t.Sample(name, promtext.Labels{"type", typ}, float64(value(m.pools[typ])))
		}
	}
	counter("leasectl_grants_total", "Leases granted.", func(p *poolCounts) uint64 { return p.grants })
	counter("leasectl_releases_total", "Leases ended by a release, except those that an operator took away.", func(p *poolCounts) uint64 { return p.releases })
	counter("leasectl_expiries_total", "Leases that nobody renewed in time.", func(p *poolCounts) uint64 { return p.expiries })
	counter("leasectl_v1_ending_total", "Leases of version-1 clients, which do not renew, nine tenths of whose TTL were over.", func(p *poolCounts) uint64 { return p.v1Ending })
	counter("leasectl_v1_expiries_total", "Leases of version-1 clients, which do not renew, that ended with their TTL.", func(p *poolCounts) uint64 { return p.v1Expiries })
	counter("leasectl_overcommits_total", "Leases granted to requests with overcommit.", func(p *poolCounts) uint64 { return p.overcommits })
	counter("leasectl_breaks_total", "Leases that an operator took away, once they have ended.", func(p *poolCounts) uint64 { return p.breaks })

	m.writeWaits(t, types)
	m.writeResizes(t, types)
	m.writeReports(t, types)
	m.writePeaks(t, types)
	m.writeRefusals(t)
	m.writeCommits(t)
	t.Family("leasectl_stalls_total", "counter", "Times in which the server stood still for more than a second.")
	t.Sample("leasectl_stalls_total", nil, float64(m.stalls))
	m.writeReloads(t)
}

// writeWaits writes how long requests waited, how long leases were held, and how waits
// ended without a lease.
func (m *Counts) writeWaits(t *promtext.Text, types []string) {
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
}

func (m *Counts) writeResizes(t *promtext.Text, types []string) {
	t.Family("leasectl_resizes_total", "counter", "Leases of counted pools that hold another number of units since.")
	for _, typ := range types {
		t.Sample("leasectl_resizes_total", promtext.Labels{"type", typ, "how", "grown"}, float64(m.pools[typ].grown))
		t.Sample("leasectl_resizes_total", promtext.Labels{"type", typ, "how", "shrunk"}, float64(m.pools[typ].shrunk))
	}
}

// writeReports writes what holders said, and what that did to the limits.
func (m *Counts) writeReports(t *promtext.Text, types []string) {
	t.Family("leasectl_reports_total", "counter", "What holders said of their leases, as far as it counts.")
	for _, typ := range types {
		t.Sample("leasectl_reports_total", promtext.Labels{"type", typ, "outcome", leaseapi.OutcomeOK}, float64(m.pools[typ].reportsOK))
		t.Sample("leasectl_reports_total", promtext.Labels{"type", typ, "outcome", leaseapi.OutcomeThrottled}, float64(m.pools[typ].reportsThrottled))
	}
	t.Family("leasectl_limit_moves_total", "counter", "Moves of the limit of a pool that adapts.")
	for _, typ := range types {
		t.Sample("leasectl_limit_moves_total", promtext.Labels{"type", typ, "how", "cut"}, float64(m.pools[typ].cuts))
		t.Sample("leasectl_limit_moves_total", promtext.Labels{"type", typ, "how", "rise"}, float64(m.pools[typ].rises))
	}
}

// writePeaks writes what the last leases of counted pools asked for, and used.
func (m *Counts) writePeaks(t *promtext.Text, types []string) {
	write := func(name, help string, of func(*peaks) recent) {
		t.Family(name, "summary", help)
		for _, typ := range types {
			if r := of(&m.pools[typ].peaks); r.count > 0 {
				q := quantiles(r.values)
				t.Sample(name, promtext.Labels{"type", typ, "quantile", "0.5"}, float64(q.P50))
				t.Sample(name, promtext.Labels{"type", typ, "quantile", "0.95"}, float64(q.P95))
				t.Sample(name, promtext.Labels{"type", typ, "quantile", "1"}, float64(q.Max))
				t.Sample(name+"_sum", promtext.Labels{"type", typ}, r.sum)
				t.Sample(name+"_count", promtext.Labels{"type", typ}, float64(r.count))
			}
		}
	}
	write("leasectl_asked_units", "Units that the last leases of a counted pool had asked for; sum and count are of all.", func(p *peaks) recent { return p.asked })
	write("leasectl_used_bytes", "Peak memory of the commands of the same leases; sum and count are of all.", func(p *peaks) recent { return p.used })
}

func (m *Counts) writeRefusals(t *promtext.Text) {
	t.Family("leasectl_refusals_total", "counter", "Calls refused; the type is empty if there is none, or no such one.")
	for _, k := range slices.SortedFunc(maps.Keys(m.refusals), func(a, b refusalKey) int {
		return cmp.Or(strings.Compare(a.typ, b.typ), strings.Compare(a.reason, b.reason))
	}) {
		t.Sample("leasectl_refusals_total", promtext.Labels{"type", k.typ, "reason", k.reason}, float64(m.refusals[k]))
	}
}

func (m *Counts) writeCommits(t *promtext.Text) {
	t.Family("leasectl_commit_seconds", "histogram", "How long it took to make changes durable.")
	t.Histogram("leasectl_commit_seconds", nil, &m.commitSeconds)
	t.Family("leasectl_commit_changes", "histogram", "Changes that became durable together.")
	t.Histogram("leasectl_commit_changes", nil, &m.commitChanges)
	t.Family("leasectl_commit_errors_total", "counter", "Commits that failed: after the first, the server ends, or stands by if its store is in etcd.")
	t.Sample("leasectl_commit_errors_total", nil, float64(m.commitErrors))
}

func (m *Counts) writeReloads(t *promtext.Text) {
	t.Family("leasectl_reloads_total", "counter", "Files that were read again, by whether they were taken up.")
	for _, k := range slices.SortedFunc(maps.Keys(m.reloads), func(a, b reloadKey) int {
		return cmp.Or(strings.Compare(a.source, b.source), cmp.Compare(promtext.Bool(a.ok), promtext.Bool(b.ok)))
	}) {
		result := "error"
		if k.ok {
			result = "ok"
		}
		t.Sample("leasectl_reloads_total", promtext.Labels{"source", k.source, "result", result}, float64(m.reloads[k]))
	}
}
