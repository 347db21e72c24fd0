// Package metrics counts what a server does, and writes it for scrapers. It knows
// nothing of HTTP, nor of how the server decides.
//
//   - Grants and ends of leases count when they are durable.
//   - The series of a pool begin at zero, so that a first event is an increase. They
//     stay when the pool has gone. Clients cannot make up series: a type that does not
//     exist counts as the empty type.
//   - Counts are in memory, and begin at zero with each process.
//
// [Counts] is safe for concurrent use. The numbers are its own: a library that counts makes tables,
// and reads files of the machine, at the start of each command, and no command but serve counts.
package metrics

import (
	"sync"
	"time"

	"github.com/leasectl/leasectl/internal/pool"
	"github.com/leasectl/leasectl/leaseapi"
)

// Counts are the counts of a server since it started. [New] makes them.
type Counts struct {
	started time.Time

	mu       sync.Mutex // held while a change is counted, so that a scrape sees it whole
	families []*family  // in the order in which they are written

	// Most families have a series for each pool.
	grants, releases, expiries, breaks *family
	v1Ending, v1Expiries               *family
	overcommits, resizes, reports      *family
	overtakes, moves, limitMoves       *family
	wait, hold, waitsEnded             *family
	refusals, notAdmitted, reloads     *family // their series begin with the first event
	commitSeconds, commitChanges       *series
	commitErrors, stalls               *series

	pools map[string]*poolCounts // by type
}

// poolCounts counts leases: a grant of three counts three times, so that grants
// equal the ends plus the leases in use. Only waits are counted by request.
type poolCounts struct {
	grants, releases, expiries, breaks *series
	v1Ending, v1Expiries               *series // of leases that version-1 clients hold
	overcommits, grown, shrunk         *series
	reportsOK, reportsThrottled        *series
	cuts, rises                        *series
	overtakes, moves                   *series
	wait, hold                         *series
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
	m.wait = m.family("leasectl_wait_seconds", "histogram", "How long requests that were granted had waited.", waitBounds...)
	m.hold = m.family("leasectl_hold_seconds", "histogram", "How long leases that ended had been held.", holdBounds...)
	m.waitsEnded = m.family("leasectl_waits_ended_total", "counter", "Requests that left the queue without a lease.")
	m.resizes = m.family("leasectl_resizes_total", "counter", "Leases of counted pools that hold another number of units since.")
	m.reports = m.family("leasectl_reports_total", "counter", "What holders said of their leases, as far as it counts.")
	m.limitMoves = m.family("leasectl_limit_moves_total", "counter", "Moves of the limit of a pool that adapts.")
	m.refusals = m.family("leasectl_refusals_total", "counter", "Calls refused; the type is empty if there is none, or no such one.")
	m.notAdmitted = m.family("leasectl_not_admitted_total", "counter", "Calls whose sender was not let in, by why; the issuer is empty if the token names none of the server's file.")
	m.commitSeconds = m.family("leasectl_commit_seconds", "histogram", "How long it took to make changes durable.", commitBounds...).with()
	m.commitChanges = m.family("leasectl_commit_changes", "histogram", "Changes that became durable together.", changesBounds...).with()
	m.commitErrors = m.family("leasectl_commit_errors_total", "counter", "Commits that failed: after the first, the server ends, or stands by if several servers share the store.").with()
	m.stalls = m.family("leasectl_stalls_total", "counter", "Times in which the server stood still for more than a second.").with()
	m.reloads = m.family("leasectl_reloads_total", "counter", "Files that were read again, by whether they were taken up.")
	return m
}

func (m *Counts) family(name, kind, help string, bounds ...float64) *family {
	f := &family{name: name, kind: kind, help: help, bounds: bounds, series: make(map[string]*series)}
	m.families = append(m.families, f)
	return f
}

// pool returns the counts of a type, and makes them if there are none. The caller holds m.mu.
func (m *Counts) pool(typ string) *poolCounts {
	p := m.pools[typ]
	if p == nil {
		p = &poolCounts{
			grants: m.grants.with("type", typ), releases: m.releases.with("type", typ),
			expiries: m.expiries.with("type", typ), breaks: m.breaks.with("type", typ),
			v1Ending: m.v1Ending.with("type", typ), v1Expiries: m.v1Expiries.with("type", typ),
			overcommits: m.overcommits.with("type", typ),
			grown:       m.resizes.with("type", typ, "how", "grown"), shrunk: m.resizes.with("type", typ, "how", "shrunk"),
			reportsOK:        m.reports.with("type", typ, "outcome", leaseapi.OutcomeOK),
			reportsThrottled: m.reports.with("type", typ, "outcome", leaseapi.OutcomeThrottled),
			cuts:             m.limitMoves.with("type", typ, "how", "cut"), rises: m.limitMoves.with("type", typ, "how", "rise"),
			overtakes: m.overtakes.with("type", typ), moves: m.moves.with("type", typ),
			wait: m.wait.with("type", typ), hold: m.hold.with("type", typ),
		}
		for _, end := range pool.WaitEnds {
			m.waitsEnded.with("type", typ, "how", string(end))
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
			p.wait.observe(c.Took.Seconds())
			if c.Overtook > 0 {
				p.overtakes.inc()
			}
			for _, l := range c.Leases {
				p := m.pool(l.Type) // of a request of several pools: its own
				p.grants.inc()
				if l.Overcommit {
					p.overcommits.inc()
				}
			}
		case pool.Resized:
			if p := m.pool(c.Lease.Type); c.Lease.Units > c.Before {
				p.grown.inc()
			} else if c.Lease.Units < c.Before {
				p.shrunk.inc()
			}
		case pool.ReportCounted:
			if p := m.pool(c.Reported.Type); c.Reported.Outcome == pool.OutcomeThrottled {
				p.reportsThrottled.inc()
			} else {
				p.reportsOK.inc()
			}
		case pool.Adapted:
			switch p := m.pool(c.Reports.Type); {
			case !c.Moved:
			case c.Reports.Moved.Cut():
				p.cuts.inc()
			default:
				p.rises.inc()
			}
		case pool.Moved:
			m.pool(c.Waiter.Type).moves.inc()
		case pool.Dropped:
			m.waitsEnded.with("type", c.Request.Type, "how", string(c.WaitEnd())).inc()
		case pool.Done:
			p := m.pool(c.Lease.Type)
			p.hold.observe(c.Took.Seconds())
			switch {
			case c.Reason.Broken(), c.Lease.Broken != "": // however its holder then ended it
				p.breaks.inc()
			case c.Reason == pool.Expired:
				p.expiries.inc()
				if c.Lease.OfVersion1() {
					p.v1Expiries.inc()
				}
			default:
				p.releases.inc()
			}
		}
	}
}

// Version1Ending counts a lease of a version-1 client that is about to end.
func (m *Counts) Version1Ending(typ string) {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.pool(typ).v1Ending.inc()
}

// Committed counts a transaction with n changes; after an err only the failure counts.
func (m *Counts) Committed(n int, took time.Duration, err error) {
	m.mu.Lock()
	defer m.mu.Unlock()
	if err != nil {
		m.commitErrors.inc()
		return
	}
	m.commitSeconds.observe(took.Seconds())
	m.commitChanges.observe(float64(n))
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
	m.refusals.with("type", typ, "reason", reason).inc()
}

// NotAdmitted counts a call whose sender was not let in. The issuer is one that the server's file
// names, or empty.
func (m *Counts) NotAdmitted(reason, issuer string) {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.notAdmitted.with("reason", reason, "issuer", issuer).inc()
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
func (m *Counts) Stalled() {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.stalls.inc()
}

// Reloaded counts that the files of source were read again; ok says whether their settings
// are in use.
func (m *Counts) Reloaded(source string, ok bool) {
	result := "error"
	if ok {
		result = "ok"
	}
	m.mu.Lock()
	defer m.mu.Unlock()
	m.reloads.with("source", source, "result", result).inc()
}

// Write writes all that was counted.
func (m *Counts) Write(t *Text) {
	m.mu.Lock()
	defer m.mu.Unlock()
	for _, f := range m.families {
		f.write(t)
	}
	m.writePeaks(t)
}
