package leaseapi

import (
	"fmt"
	"strings"
	"time"
)

// Paths for operators. PathReady and PathMetrics are GETs, the others POSTs that need
// a token marked admin. With tokens in use, only [PathHealth] and PathReady need no
// token, for probes.
const (
	PathBreak   = "/lease/break"
	PathRemove  = "/lease/remove"
	PathMove    = "/lease/move"
	PathReserve = "/lease/reserve"
	PathPause   = "/pools/pause"
	PathResume  = "/pools/resume"
	PathBackup  = "/backup" // no body; the answer 200 is the store's file as it is now
	PathReady   = "/readyz"
	PathMetrics = "/metrics" // Prometheus text format 0.0.4
)

// BreakRequest is the body of a POST to [PathBreak]: an operator takes a lease
// away from its holder. The holder learns this from its next renewal, which is
// due after a third of the TTL, and after [MaxRenewEvery] at the latest.
type BreakRequest struct {
	Name string `json:"name"`
	// Generation is the generation of the lease to break, so that a second copy of
	// the request does not hit the next holder. Zero: whichever lease has the name.
	Generation uint64 `json:"generation,omitempty"`
	Reason     string `json:"reason"`        // the answer to renewals; must not be empty
	Now        bool   `json:"now,omitempty"` // free the name at once, without time for the holder to stop
}

// RemoveRequest is the body of a POST to [PathRemove]: an operator takes a waiter
// off the queue. The waiter's client is told the reason (410, [ProblemRemoved]), also if
// it comes back later.
type RemoveRequest struct {
	RequestID string `json:"request_id"`
	Caller    string `json:"caller,omitempty"` // the name of the caller, if several have a request with the id
	Reason    string `json:"reason"`           // must not be empty
}

// RemoveReply is the answer 200 to a remove. The answer to a second copy of the request
// has only the id.
type RemoveReply struct {
	RequestID string `json:"request_id"`
	Type      string `json:"type,omitempty"`
	Owner     string `json:"owner,omitempty"`
	Token     string `json:"token,omitempty"`
	Count     int    `json:"count,omitempty"`
}

// MoveRequest is the body of a POST to [PathMove]: an operator gives a waiter another priority. It
// counts as if the waiter had asked for it, also after a restart.
type MoveRequest struct {
	RequestID string `json:"request_id"`
	Caller    string `json:"caller,omitempty"` // as in [RemoveRequest]
	Priority  int    `json:"priority"`         // see [CheckPriority]
	Reason    string `json:"reason"`           // for the log; must not be empty
}

// MoveReply is the answer 200 to a move.
type MoveReply struct {
	RequestID string `json:"request_id"`
	Type      string `json:"type"`
	Owner     string `json:"owner,omitempty"`
	Token     string `json:"token,omitempty"`
	Priority  int    `json:"priority"`
	Before    int    `json:"before"` // the priority that counted before
	// Place and Length are those of the queue as it is now; zero: the request was granted, or has
	// joined a run.
	Place  int `json:"place,omitempty"`
	Length int `json:"length,omitempty"`
}

// ReserveRequest is the body of a POST to [PathReserve]: a person takes a name out of its pool, at
// once if it is free, else when its holder ends, ahead of all that wait. The name counts as in use,
// also after restarts, until a [ReleaseRequest] with Names and the same Owner gives it back, or For is
// over. The owner may reserve a name again, which changes For and Reason.
type ReserveRequest struct {
	Name   string   `json:"name"`
	Owner  string   `json:"owner,omitempty"`
	For    Duration `json:"for,omitempty"` // from now on; zero: until it is given back
	Reason string   `json:"reason"`        // for those who want the name; must not be empty
}

// ReserveReply is the answer 200 to a reserve.
type ReserveReply struct {
	Type        string      `json:"type"` // of the pool of the name
	Reservation Reservation `json:"reservation"`
}

// PauseRequest is the body of a POST to [PathPause]: an operator stops a pool. The pool
// grants nothing until it is resumed, even after restarts. Leases are renewed and
// released as before. Waiters are told the reason; pausing again changes the reason.
type PauseRequest struct {
	Type   string `json:"type"`
	Reason string `json:"reason"` // must not be empty
}

// ResumeRequest is the body of a POST to [PathResume].
type ResumeRequest struct {
	Type string `json:"type"`
}

// PauseReply is the answer 200 to a pause, or to a resume, and describes the pause that
// began or ended. Since is zero if the pool was not paused.
type PauseReply struct {
	Type   string    `json:"type"`
	Reason string    `json:"reason,omitempty"`
	For    Duration  `json:"for,omitempty"`
	Since  time.Time `json:"since,omitzero"` // the same, by the server's clock
}

// BreakReply is the answer 200 to a break.
type BreakReply struct {
	Lease PoolLease `json:"lease"` // as it is now, or was when it ended
	Ended bool      `json:"ended"` // the lease has ended; otherwise it ends when its holder releases it, or at ExpiresAt
	// FreeIn and FreeAt are set if the lease has ended and the pool's lock delay keeps
	// the name from being granted: for how long, and until when.
	FreeIn Duration  `json:"free_in,omitempty"`
	FreeAt time.Time `json:"free_at,omitzero"`
}

// MaxReason is the maximum length of a reason, in bytes.
const MaxReason = 512

// ReasonBroken begins the reason in the [Lost] of a broken lease; the operator's
// reason follows.
const ReasonBroken = "broken: "

// Types of problems of the operators' calls, of tokens and of origins.
const (
	ProblemUnauthorized = "urn:leasectl:problem:unauthorized" // 401: no token, or an unknown one
	ProblemForbidden    = "urn:leasectl:problem:forbidden"    // 403: this token may not do it, or a page of another origin sent it; nothing was changed
	ProblemUnknownName  = "urn:leasectl:problem:unknown-name" // 404: the server has never had this name; to an acquire and a reserve: the pool, or no pool, has it now
	ProblemReserved     = "urn:leasectl:problem:reserved"     // 409: another owner has reserved the name
	ProblemNotHeld      = "urn:leasectl:problem:not-held"     // 409: nobody holds the name, or not under this generation
	ProblemUnknownType  = "urn:leasectl:problem:unknown-type" // 404: there is no pool of this type; to an acquire the answer is plain text
	ProblemRemoved      = "urn:leasectl:problem:removed"      // 410, to an acquire: an operator took the request off the queue
	ProblemNotQueued    = "urn:leasectl:problem:not-queued"   // 409: the request does not wait
	ProblemSeveral      = "urn:leasectl:problem:several"      // 409: several callers have a request with the id
	ProblemNoStore      = "urn:leasectl:problem:no-store"     // 409: the server's state is in memory only
)

// States in [Ready].
const (
	ReadyOK       = "ok"
	ReadyDegraded = "degraded" // the server serves; Warnings say what is wrong
)

// Ready is the answer 200 to GET [PathReady]: the server grants and releases. Otherwise
// the answer is 503 with a [Problem].
type Ready struct {
	Status string `json:"status"`
	// Warnings are omitted for a caller without a valid token if tokens are in use.
	Warnings []string `json:"warnings,omitempty"`
}

// Order says where the order of the queue puts a request that waits, and why.
type Order struct {
	// Priority is the priority by which the request stands where it stands: the one that it asked
	// for, unless an operator moved it, a request of a better rank joined it, or it superseded one.
	Priority int `json:"priority,omitempty"`
	Higher   int `json:"higher,omitempty"` // waiters ahead of it that stand there by a higher priority
	// Overtaken is how many units went ahead of the request while it did not fit, and MayOvertake
	// how many may in all; both are zero as long as none did.
	Overtaken   int `json:"overtaken,omitempty"`
	MayOvertake int `json:"may_overtake,omitempty"`
}

// Words says it in words, such as "priority 5, behind 3 of higher priority, 288 of 1024 units went
// ahead of it"; empty if there is nothing to say.
func (o Order) Words() string {
	var words []string
	if o.Priority != 0 {
		words = append(words, fmt.Sprintf("priority %d", o.Priority))
	}
	if o.Higher > 0 {
		words = append(words, fmt.Sprintf("behind %d of higher priority", o.Higher))
	}
	if o.Overtaken > 0 {
		words = append(words, fmt.Sprintf("%d of %d units went ahead of it", o.Overtaken, max(o.Overtaken, o.MayOvertake)))
	}
	return strings.Join(words, ", ")
}

// ResizeRequest is the body of a POST to [PathResize]: it makes a lease of a counted pool
// hold Count units, or the units that Items cost. A shrink never fails. A growth is
// granted at once or refused; it never waits.
type ResizeRequest struct {
	Name       string `json:"name"`
	Generation uint64 `json:"generation"`
	RequestID  string `json:"request_id,omitempty"` // as in [Lease]
	// From is how many units the caller believes that the lease holds. If the lease holds
	// another number, nothing is changed: 409, [ProblemStale].
	From int `json:"from"`
	// After is the last Resizes of this lease that the caller was told; 0 if none. If
	// the lease was resized since, nothing is changed: 409, [ProblemStale]. So a late
	// copy of a request does nothing, and a repeat of the last resize succeeds. Without
	// After a late copy is carried out if the lease holds exactly From units again.
	After *int `json:"after,omitempty"`

	Count int  `json:"count,omitempty"`
	Items *int `json:"items,omitempty"` // instead of Count
}

// ResizeReply is the answer 200 to a resize.
type ResizeReply struct {
	Units int `json:"units"` // that the lease holds now
	// Resizes is how many resizes of this lease were decided, refusals for want of room
	// included; 0: the server does not count them. The next request sends it as After.
	Resizes int `json:"resizes,omitempty"`
}

// Peak is the most memory that a command and its descendants used.
type Peak struct {
	Bytes  int64  `json:"bytes"`
	Source string `json:"source"` // see the constants
}

// Sources of a [Peak].
const (
	PeakOfCgroup  = "cgroup"  // memory.peak of a cgroup v2 that the command had to itself
	PeakOfProcess = "process" // the resident memory of the largest process of its tree
)

// Peaks compare the units that leases asked for with the memory that their commands used.
type Peaks struct {
	Leases int       `json:"leases"` // number of leases in the comparison
	Asked  Quantiles `json:"asked"`  // units
	Used   Quantiles `json:"used"`   // bytes
}

// Quantiles are the median, the 95th percentile and the maximum of some values.
type Quantiles struct {
	P50 int64 `json:"p50"`
	P95 int64 `json:"p95"`
	Max int64 `json:"max"`
}

// PathReport takes a POST with a [ReportRequest].
const PathReport = "/lease/report"

// Outcomes of a lease, reported by its holder: how the account treated its calls.
const (
	OutcomeOK        = "ok"        // nothing was throttled; counts when the lease has ended
	OutcomeThrottled = "throttled" // counts at once, and overrides OutcomeOK
)

// MaxDetail is the maximum length of a report's detail, in bytes.
const MaxDetail = 512

// ReportRequest is the body of a POST to [PathReport], in which the holder of a lease
// reports its outcome. A lease that has ended can be reported on for [EndedKept]. With
// tokens in use, the report needs the token of the acquire.
type ReportRequest struct {
	// RequestID is the id of the acquire that got the lease. All leases of a request
	// count as one.
	RequestID string `json:"request_id"`
	Outcome   string `json:"outcome"`
	Detail    string `json:"detail,omitempty"` // for people, such as the line of a log
}

// ReportReply is the answer 200 to a report.
type ReportReply struct {
	// Counts is false if the same outcome, or OutcomeThrottled, was reported before.
	Counts bool `json:"counts"`
}

// Tally counts the leases that were reported as ok, and as throttled, while the pool had
// the given limit.
type Tally struct {
	Limit     int `json:"limit"`
	OK        int `json:"ok"`
	Throttled int `json:"throttled"`
}
