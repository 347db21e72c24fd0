package pool

import (
	"time"

	"github.com/leasectl/leasectl/leaseapi"
)

// Outcome is what the holder of a lease reports about the account.
type Outcome uint8

// The outcomes. A lease without a report has NoOutcome, and moves no limit.
const (
	NoOutcome        Outcome = iota
	OutcomeOK                // nothing was throttled; it counts when the lease has ended
	OutcomeThrottled         // it counts at once, and beats OutcomeOK
)

// String returns the word of o; empty for NoOutcome.
func (o Outcome) String() string {
	switch o {
	case OutcomeOK:
		return leaseapi.OutcomeOK
	case OutcomeThrottled:
		return leaseapi.OutcomeThrottled
	}
	return ""
}

// OutcomeOf returns the outcome of a word; [NoOutcome] for any other word.
func OutcomeOf(word string) Outcome {
	switch word {
	case leaseapi.OutcomeOK:
		return OutcomeOK
	case leaseapi.OutcomeThrottled:
		return OutcomeThrottled
	}
	return NoOutcome
}

// Report is what a holder reports on the leases of one request. They count as one, since they
// ran together and one holder saw how they ended.
type Report struct {
	RequestID string
	Outcome   Outcome
	Detail    string // for people; may be empty
}

// Reported is a report that counts.
type Reported struct {
	Report
	Type       string
	Owner      string
	Generation uint64 // of a lease of the request
	Limit      int    // of the pool when it counted
}

// EndedLease is what a later report needs to know of a lease that has ended.
type EndedLease struct {
	Type, Owner string
	Generation  uint64
	Units       int
	Limit       int     // of the pool when the lease ended
	Full        bool    // its request lost no lease, and one of its leases ended while the pool was in full use
	Outcome     Outcome // reported for it so far
}

// reported returns the record of a report on l.
func (l EndedLease) reported(said Report) *Reported {
	return &Reported{Report: said, Type: l.Type, Owner: l.Owner, Generation: l.Generation, Limit: l.Limit}
}

// Reports is the state of a pool that reports change: the limit and its last move, and counts.
type Reports struct {
	Type string
	Adaptation
	Moved Move    // the last one
	Tally []Tally // by limit, ascending; at most [MaxTally]
}

// Move is one move of a limit. The zero Move says that there was none.
type Move struct {
	At       time.Duration // on the lease clock
	From, To int
	Owner    string // whose report it was
	Detail   string // of the report
}

// Cut reports whether the limit fell.
func (m Move) Cut() bool { return m.To < m.From }

// The words of [Move.What].
const LimitCut, LimitRaised = "limit cut", "limit raised"

// What says for people what happened.
func (m Move) What() string {
	if m.Cut() {
		return LimitCut
	}
	return LimitRaised
}

// Why says for people why the limit moved.
func (m Move) Why() string {
	if m.Cut() {
		return "leases were throttled"
	}
	return "as many leases as the limit ended ok"
}

// Tally is how many requests were reported to have ended ok, and to have been
// throttled, at one limit of a pool.
type Tally struct {
	Limit         int
	OK, Throttled int
}

// MaxTally is for how many limits a pool counts reports. Beyond it, the limit that is furthest
// from the reported one is dropped.
const MaxTally = 64
