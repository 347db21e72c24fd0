package leaseapi

import "time"

// Paths for operators. PathReady and PathMetrics are GETs, the others POSTs that need
// a token marked admin. With tokens in use, only [PathHealth] and PathReady need no
// token, for probes.
const (
	PathBreak   = "/lease/break"
	PathRemove  = "/lease/remove"
	PathMove    = "/lease/move" // of wire 4
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
	Reason    string `json:"reason"` // must not be empty
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
	Priority  int    `json:"priority"` // see [CheckPriority]
	Reason    string `json:"reason"`   // for the log; must not be empty
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
	ProblemUnknownName  = "urn:leasectl:problem:unknown-name" // 404: the server has never had this name
	ProblemNotHeld      = "urn:leasectl:problem:not-held"     // 409: nobody holds the name, or not under this generation
	ProblemUnknownType  = "urn:leasectl:problem:unknown-type" // 404: there is no pool of this type; to an acquire the answer is plain text
	ProblemRemoved      = "urn:leasectl:problem:removed"      // 410, to an acquire: an operator took the request off the queue
	ProblemNotQueued    = "urn:leasectl:problem:not-queued"   // 409: the request does not wait
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
