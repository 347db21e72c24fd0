// Package metrics counts what a server does, and writes it for scrapers. It knows
// nothing of HTTP, nor of how the server decides.
//
//   - Grants and ends of leases count when they are durable.
//   - The series of a pool begin at zero, so that a first event is an increase. They
//     stay when the pool has gone. Clients cannot make up series: a type that does not
//     exist counts as the empty type.
//   - Counts are in memory, and begin at zero with each process.
//
// [Counts] is safe for concurrent use. VictoriaMetrics/metrics counts and writes the numbers;
// prometheus/client_golang would cost every command several times as much at its start.
package metrics

import (
	"sync"
	"time"

	vm "github.com/VictoriaMetrics/metrics"
	"github.com/leasectl/leasectl/internal/pool"
	"github.com/leasectl/leasectl/leaseapi"
)

// Counts are the counts of a server since it started. [New] makes them.
type Counts struct {
	started  time.Time
	families []*family // in the order in which they are written

	// Most families have a series for each pool.
	grants, releases, expiries, breaks *family
	v1Ending, v1Expiries               *family
	overcommits, resizes, reports      *family
	overtakes, moves, limitMoves       *family
	wait, hold, waitsEnded             *family
	refusals, notAdmitted, reloads     *family // their series begin with the first event
	commitSeconds, commitChanges       *vm.PrometheusHistogram
	commitErrors, stalls               *vm.Counter

	mu    sync.Mutex             // held while a change is counted, so that a scrape sees it whole
	pools map[string]*poolCounts // by type
}

// family is a metric with all its series.
type family struct {
	name, kind, help string
	series           *vm.Set
}

// poolCounts counts leases: a grant of three counts three times, so that grants
// equal the ends plus the leases in use. Only waits are counted by request.
type poolCounts struct {
	grants, releases, expiries, breaks *vm.Counter
	v1Ending, v1Expiries               *vm.Counter // of leases that version-1 clients hold
	overcommits, grown, shrunk         *vm.Counter
	reportsOK, reportsThrottled        *vm.Counter
	cuts, rises                        *vm.Counter
	overtakes, moves                   *vm.Counter
	wait, hold                         *vm.PrometheusHistogram
	peaks                              peaks
}

// Bounds of the histograms' buckets, in seconds except for changes. A wait lasts from a
// moment, for a hand-off, to a night. A lease is held for minutes to hours. A commit takes
// as long as an fsync, from a fast disk to one that hangs.
var (
	waitBounds    = []float64{0.01, 0.1, 1, 5, 15, 60, 300, 900, 1800, 3600, 7200, 14400}
	holdBounds    = []float64{1, 10, 60, 300, 600, 1200, 1800, 3600, 7200, 14400, 28800}
	commitBounds  = []float64{0.0001, 0.0005, 0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.5, 1, 5}
	changesBounds = []float64{1, 2, 4, 8, 16, 32, 64, 128, 256, 512, 1024}
)

// New returns counts that are all zero.
func New() *Counts {
	m := &Counts{started: time.Now(), pools: make(map[string]*poolCounts)}
	m.grants = m.family("leasectl_grants_total", "counter", "Leases granted.")
	m.releases = m.family("leasectl_releases_total", "counter", "Leases ended by a release, except those that an operator took away.")
	m.expiries = m.family("leasectl_expiries_total", "counter", "Leases that nobody renewed in time.")
	m.v1Ending = m.family("leasectl_v1_ending_total", "counter", "Leases of version-1 clients, which do not renew, nine tenths of whose TTL were over.")
	m.v1Expiries = m.family("leasectl_v1_expiries_total", "counter", "Leases of version-1 clients, which do not renew, that ended with their TTL.")
	m.overcommits = m.family("leasectl_overcommits_total", "counter", "Leases granted to requests with overcommit.")
	m.overtakes = m.family("leasectl_overtakes_total", "counter", "Requests granted ahead of waiters that did not fit.")
	m.moves = m.family("leasectl_moves_total", "counter", "Waiters that an operator gave another priority.")
	m.breaks = m.family("leasectl_breaks_total", "counter", "Leases that an operator took away, once they have ended.")
	m.wait = m.family("leasectl_wait_seconds", "histogram", "How long requests that were granted had waited.")
	m.hold = m.family("leasectl_hold_seconds", "histogram", "How long leases that ended had been held.")
	m.waitsEnded = m.family("leasectl_waits_ended_total", "counter", "Requests that left the queue without a lease.")
	m.resizes = m.family("leasectl_resizes_total", "counter", "Leases of counted pools that hold another number of units since.")
	m.reports = m.family("leasectl_reports_total", "counter", "What holders said of their leases, as far as it counts.")
	m.limitMoves = m.family("leasectl_limit_moves_total", "counter", "Moves of the limit of a pool that adapts.")
	m.refusals = m.family("leasectl_refusals_total", "counter", "Calls refused; the type is empty if there is none, or no such one.")
	m.notAdmitted = m.family("leasectl_not_admitted_total", "counter", "Calls whose sender was not let in, by why; the issuer is empty if the token names none of the server's file.")
	m.commitSeconds = m.family("leasectl_commit_seconds", "histogram", "How long it took to make changes durable.").histogram(commitBounds)
	m.commitChanges = m.family("leasectl_commit_changes", "histogram", "Changes that became durable together.").histogram(changesBounds)
	m.commitErrors = m.family("leasectl_commit_errors_total", "counter", "Commits that failed: after the first, the server ends, or stands by if several servers share the store.").counter()
	m.stalls = m.family("leasectl_stalls_total", "counter", "Times in which the server stood still for more than a second.").counter()
	m.reloads = m.family("leasectl_reloads_total", "counter", "Files that were read again, by whether they were taken up.")
	return m
}

func (m *Counts) family(name, kind, help string) *family {
	f := &family{name, kind, help, vm.NewSet()}
	m.families = append(m.families, f)
	return f
}

// counter returns the counter of some labels, and makes it if there is none.
func (f *family) counter(labels ...string) *vm.Counter {
	return f.series.GetOrCreateCounter(series(f.name, labels...))
}

func (f *family) histogram(bounds []float64, labels ...string) *vm.PrometheusHistogram {
	return f.series.NewPrometheusHistogramExt(series(f.name, labels...), bounds)
}

// pool returns the counts of a type, and makes them if there are none. The caller holds m.mu.
func (m *Counts) pool(typ string) *poolCounts {
	p := m.pools[typ]
	if p == nil {
		p = &poolCounts{
			grants: m.grants.counter("type", typ), releases: m.releases.counter("type", typ),
			expiries: m.expiries.counter("type", typ), breaks: m.breaks.counter("type", typ),
			v1Ending: m.v1Ending.counter("type", typ), v1Expiries: m.v1Expiries.counter("type", typ),
			overcommits: m.overcommits.counter("type", typ),
			grown:       m.resizes.counter("type", typ, "how", "grown"), shrunk: m.resizes.counter("type", typ, "how", "shrunk"),
			reportsOK:        m.reports.counter("type", typ, "outcome", leaseapi.OutcomeOK),
			reportsThrottled: m.reports.counter("type", typ, "outcome", leaseapi.OutcomeThrottled),
			cuts:             m.limitMoves.counter("type", typ, "how", "cut"), rises: m.limitMoves.counter("type", typ, "how", "rise"),
			overtakes: m.overtakes.counter("type", typ), moves: m.moves.counter("type", typ),
			wait: m.wait.histogram(waitBounds, "type", typ), hold: m.hold.histogram(holdBounds, "type", typ),
		}
		for _, end := range pool.WaitEnds {
			m.waitsEnded.counter("type", typ, "how", string(end))
		}
		m.pools[typ] = p
	}
	return p
}

// Configured makes the series of pools begin at zero, so that a first event is an increase.
// The series of pools that have gone stay.
func (m *Counts) Configured(pools []pool.Config) {
	m.mu.Lock()
	defer m.mu.Unlock()
	for _, c := range pools {
		m.pool(c.Type)
	}
}

// Changed counts changes, which must be durable.
func (m *Counts) Changed(changes []pool.Change) {
	m.mu.Lock()
	defer m.mu.Unlock()
	for i := range changes {
		switch c := &changes[i]; c.Kind {
		case pool.Granted:
			p := m.pool(c.Leases[0].Type)
			p.wait.Update(c.Took.Seconds())
			if c.Overtook > 0 {
				p.overtakes.Inc()
			}
			for _, l := range c.Leases {
				p := m.pool(l.Type) // of a request of several pools: its own
				p.grants.Inc()
				if l.Overcommit {
					p.overcommits.Inc()
				}
			}
		case pool.Resized:
			if p := m.pool(c.Lease.Type); c.Lease.Units > c.Before {
				p.grown.Inc()
			} else if c.Lease.Units < c.Before {
				p.shrunk.Inc()
			}
		case pool.ReportCounted:
			if p := m.pool(c.Reported.Type); c.Reported.Outcome == pool.OutcomeThrottled {
				p.reportsThrottled.Inc()
			} else {
				p.reportsOK.Inc()
			}
		case pool.Adapted:
			switch p := m.pool(c.Reports.Type); {
			case !c.Moved:
			case c.Reports.Moved.Cut():
				p.cuts.Inc()
			default:
				p.rises.Inc()
			}
		case pool.Moved:
			m.pool(c.Waiter.Type).moves.Inc()
		case pool.Dropped:
			m.waitsEnded.counter("type", c.Request.Type, "how", string(c.WaitEnd())).Inc()
		case pool.Done:
			p := m.pool(c.Lease.Type)
			p.hold.Update(c.Took.Seconds())
			switch {
			case c.Reason.Broken(), c.Lease.Broken != "": // however its holder then ended it
				p.breaks.Inc()
			case c.Reason == pool.Expired:
				p.expiries.Inc()
				if c.Lease.OfVersion1() {
					p.v1Expiries.Inc()
				}
			default:
				p.releases.Inc()
			}
		}
	}
}

// Version1Ending counts a lease of a version-1 client that is about to end.
func (m *Counts) Version1Ending(typ string) {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.pool(typ).v1Ending.Inc()
}

// Committed counts a transaction with n changes; after an err only the failure counts.
func (m *Counts) Committed(n int, took time.Duration, err error) {
	if err != nil {
		m.commitErrors.Inc()
		return
	}
	m.commitSeconds.Update(took.Seconds())
	m.commitChanges.Update(float64(n))
}

// Refused counts a call that was refused, unless the reason is empty. All types that do not
// exist count as the empty type, since clients could make up any number of types.
func (m *Counts) Refused(typ, reason string) {
	if reason == "" {
		return
	}
	m.mu.Lock()
	defer m.mu.Unlock()
	if m.pools[typ] == nil {
		typ = ""
	}
	m.refusals.counter("type", typ, "reason", reason).Inc()
}

// NotAdmitted counts a call whose sender was not let in. The issuer is one that the server's file
// names, or empty.
func (m *Counts) NotAdmitted(reason, issuer string) {
	m.notAdmitted.counter("reason", reason, "issuer", issuer).Inc()
}

// Peak counts the peak of the command of a lease, and the units that the lease held.
func (m *Counts) Peak(typ string, units int, peak leaseapi.Peak) {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.pool(typ).peaks.add(units, peak.Bytes)
}

// Peaks returns the peaks of the leases of a type; nil if there are none.
func (m *Counts) Peaks(typ string) *leaseapi.Peaks {
	m.mu.Lock()
	defer m.mu.Unlock()
	if p := m.pools[typ]; p != nil {
		return p.peaks.summary()
	}
	return nil
}

// Stalled counts one time in which the server stood still.
func (m *Counts) Stalled() { m.stalls.Inc() }

// Reloaded counts that the files of source were read again; ok says whether their settings
// are in use.
func (m *Counts) Reloaded(source string, ok bool) {
	result := "error"
	if ok {
		result = "ok"
	}
	m.reloads.counter("source", source, "result", result).Inc()
}

// Write writes all that was counted.
func (m *Counts) Write(t *Text) {
	m.mu.Lock()
	defer m.mu.Unlock()
	for _, f := range m.families {
		t.Family(f.name, f.kind, f.help)
		f.series.WritePrometheus(&t.buf)
	}
	m.writePeaks(t)
}
