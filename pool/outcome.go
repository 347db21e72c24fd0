package pool

import (
	"time"

	"github.com/leasectl/leasectl/leaseapi"
)

// Outcome is what the holder of a lease says the account said.
type Outcome uint8

// The outcomes. A lease without a report has none, and moves no limit.
const (
	NoOutcome        Outcome = iota
	OutcomeOK                // nothing was throttled; it counts when the lease has ended
	OutcomeThrottled         // it counts at once, and beats OutcomeOK
)

// String returns the word of an outcome; none has an empty one.
func (o Outcome) String() string {
	switch o {
	case OutcomeOK:
		return leaseapi.OutcomeOK
	case OutcomeThrottled:
		return leaseapi.OutcomeThrottled
	}
	return ""
}

// OutcomeOf returns the outcome of a word; [NoOutcome] if it is of none.
func OutcomeOf(word string) Outcome {
	switch word {
	case leaseapi.OutcomeOK:
		return OutcomeOK
	case leaseapi.OutcomeThrottled:
		return OutcomeThrottled
	}
	return NoOutcome
}

// Report is what a holder says of the leases of one request. They count as one:
// they ran together, and one holder saw what became of them.
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

// EndedLease is what a report has to know of a lease that has ended.
type EndedLease struct {
	Type, Owner string
	Generation  uint64
	Units       int
	Limit       int     // of the pool when the lease ended
	Full        bool    // it was released, unbroken, and ended while the pool was in full use
	Outcome     Outcome // what was said of it so far
}

// reported is said of l.
func (l EndedLease) reported(said Report) *Reported {
	return &Reported{Report: said, Type: l.Type, Owner: l.Owner, Generation: l.Generation, Limit: l.Limit}
}

// Reports is what was reported of the leases of a pool, and what came of it.
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

// MaxTally is how many limits a pool counts reports for. Beyond it the limit goes
// that is furthest from the one that is reported.
const MaxTally = 64
