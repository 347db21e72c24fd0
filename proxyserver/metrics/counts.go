package metrics

import (
	"sync"
	"time"

	"github.com/leasectl/leasectl/leaseapi"
	"github.com/leasectl/leasectl/pool"
	"github.com/leasectl/leasectl/proxyserver/promtext"
)

// Counts are the counts of a server since it started. [New] makes them.
type Counts struct {
	started time.Time

	mu            sync.Mutex             // guards all that follows
	pools         map[string]*poolCounts // by type
	refusals      map[refusalKey]uint64
	commitSeconds promtext.Histogram
	commitChanges promtext.Histogram
	commitErrors  uint64
	stalls        uint64
	reloads       map[reloadKey]uint64
}

// poolCounts counts leases: a grant of three counts three times, so that grants
// equal the ends plus the leases in use. Only waits are counted by request.
type poolCounts struct {
	grants, releases, expiries, breaks uint64
	v1Ending, v1Expiries               uint64 // of leases that version-1 clients hold
	wait, hold                         promtext.Histogram
	waitsEnded                         map[pool.WaitEnd]uint64 // without a lease
	overcommits, grown, shrunk         uint64
	reportsOK, reportsThrottled        uint64
	cuts, rises                        uint64
	peaks                              peaks
}

type refusalKey struct{ typ, reason string }

type reloadKey struct {
	source string
	ok     bool
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
	return &Counts{
		started:       time.Now(),
		pools:         make(map[string]*poolCounts),
		refusals:      make(map[refusalKey]uint64),
		commitSeconds: promtext.NewHistogram(commitBounds),
		commitChanges: promtext.NewHistogram(changesBounds),
		reloads:       make(map[reloadKey]uint64),
	}
}

// pool returns the counts of a type, and makes them if there are none. The caller holds m.mu.
func (m *Counts) pool(typ string) *poolCounts {
	p := m.pools[typ]
	if p == nil {
		p = &poolCounts{
			wait: promtext.NewHistogram(waitBounds), hold: promtext.NewHistogram(holdBounds),
			waitsEnded: make(map[pool.WaitEnd]uint64),
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

func (p *poolCounts) reported(outcome pool.Outcome) {
	if outcome == pool.OutcomeThrottled {
		p.reportsThrottled++
	} else {
		p.reportsOK++
	}
}

func (p *poolCounts) moved(m pool.Move) {
	if m.Cut() {
		p.cuts++
	} else {
		p.rises++
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
			p.grants += uint64(len(c.Leases))
			p.wait.Observe(c.Took.Seconds())
			if c.Leases[0].Overcommit {
				p.overcommits += uint64(len(c.Leases))
			}
		case pool.Resized:
			if p := m.pool(c.Lease.Type); c.Lease.Units > c.Before {
				p.grown++
			} else if c.Lease.Units < c.Before {
				p.shrunk++
			}
		case pool.ReportCounted:
			m.pool(c.Reported.Type).reported(c.Reported.Outcome)
		case pool.Adapted:
			if c.Moved {
				m.pool(c.Reports.Type).moved(c.Reports.Moved)
			}
		case pool.Dropped:
			m.pool(c.Request.Type).waitsEnded[c.WaitEnd()]++
		case pool.Done:
			p := m.pool(c.Lease.Type)
			p.hold.Observe(c.Took.Seconds())
			switch {
			case c.Reason.Broken(), c.Lease.Broken != "": // however its holder then ended it
				p.breaks++
			case c.Reason == pool.Expired:
				p.expiries++
				if c.Lease.OfVersion1() {
					p.v1Expiries++
				}
			default:
				p.releases++
			}
		}
	}
}

// Version1Ending counts a lease of a version-1 client that is about to end.
func (m *Counts) Version1Ending(typ string) {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.pool(typ).v1Ending++
}

// Committed counts a transaction with n changes; after an err only the failure counts.
func (m *Counts) Committed(n int, took time.Duration, err error) {
	m.mu.Lock()
	defer m.mu.Unlock()
	if err != nil {
		m.commitErrors++
		return
	}
	m.commitSeconds.Observe(took.Seconds())
	m.commitChanges.Observe(float64(n))
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
	m.refusals[refusalKey{typ, reason}]++
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
	m.stalls++
}

// Reloaded counts that the files of source were read again; ok says whether their settings
// are in use.
func (m *Counts) Reloaded(source string, ok bool) {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.reloads[reloadKey{source, ok}]++
}
