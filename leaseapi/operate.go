package leaseapi

import "time"

// Paths for those who operate a server. PathReady and PathMetrics are GETs, the
// others POSTs, which take a token that is marked admin. With tokens in use,
// [PathHealth] and PathReady alone need none, for probes.
const (
	PathBreak   = "/lease/break"
	PathRemove  = "/lease/remove"
	PathPause   = "/pools/pause"
	PathResume  = "/pools/resume"
	PathBackup  = "/backup" // no body; the answer 200 is the store's file as it is now
	PathReady   = "/readyz"
	PathMetrics = "/metrics" // Prometheus text format 0.0.4
)

// BreakRequest is the body of a POST to [PathBreak]: an operator takes a lease
// away from its holder. The holder hears of it with its next renewal, which is
// due after a third of the TTL, and after [MaxRenewEvery] at the latest.
type BreakRequest struct {
	Name string `json:"name"`
	// Generation is that of the lease that is meant, so that a second copy of
	// the request does not hit the next holder. Zero: the lease of that name.
	Generation uint64 `json:"generation,omitempty"`
	Reason     string `json:"reason"`        // what renewals are told; must not be empty
	Now        bool   `json:"now,omitempty"` // free the name at once, instead of leaving its holder time to stop
}

// RemoveRequest is the body of a POST to [PathRemove]: an operator takes a waiter
// off the queue. Its client is told the reason (410, [ProblemRemoved]), also if it
// comes back later.
type RemoveRequest struct {
	RequestID string `json:"request_id"`
	Reason    string `json:"reason"` // must not be empty
}

// RemoveReply is the answer 200 to a remove. After a second copy of the request it
// has the id only.
type RemoveReply struct {
	RequestID string `json:"request_id"`
	Type      string `json:"type,omitempty"`
	Owner     string `json:"owner,omitempty"`
	Token     string `json:"token,omitempty"`
	Count     int    `json:"count,omitempty"`
}

// PauseRequest is the body of a POST to [PathPause]: an operator stops a pool. It
// grants nothing until it is resumed, restarts included; leases are renewed and
// released as ever. Those who wait are told the reason. Pausing again changes it.
type PauseRequest struct {
	Type   string `json:"type"`
	Reason string `json:"reason"` // must not be empty
}

// ResumeRequest is the body of a POST to [PathResume].
type ResumeRequest struct {
	Type string `json:"type"`
}

// PauseReply is the answer 200 to a pause, and to a resume: the pause that it
// ended. Since is zero if the pool was not paused.
type PauseReply struct {
	Type   string    `json:"type"`
	Reason string    `json:"reason,omitempty"`
	For    Duration  `json:"for,omitempty"`
	Since  time.Time `json:"since,omitzero"` // the same, by the server's clock
}

// BreakReply is the answer 200 to a break.
type BreakReply struct {
	Lease PoolLease `json:"lease"` // as it is now, or was when it ended
	Ended bool      `json:"ended"` // nobody holds the name any longer; otherwise that is when its holder releases it, or at ExpiresAt
	// Ended, and the lock delay of the pool keeps the name from being granted: for
	// how long, and until when.
	FreeIn Duration  `json:"free_in,omitempty"`
	FreeAt time.Time `json:"free_at,omitzero"`
}

// MaxReason is the most bytes of a reason.
const MaxReason = 512

// ReasonBroken begins the reason in a [Lost] of a lease that was broken; the
// operator's reason follows.
const ReasonBroken = "broken: "

// Types of problems of what is above.
const (
	ProblemUnauthorized = "urn:leasectl:problem:unauthorized" // 401: no token, or one that is not known
	ProblemForbidden    = "urn:leasectl:problem:forbidden"    // 403: not with this token, or not from a page of another origin; nothing was changed
	ProblemUnknownName  = "urn:leasectl:problem:unknown-name" // 404: the server has never had this name
	ProblemNotHeld      = "urn:leasectl:problem:not-held"     // 409: nobody holds it, or not under this generation
	ProblemUnknownType  = "urn:leasectl:problem:unknown-type" // 404: there is no pool of this type; an acquire says it as text
	ProblemRemoved      = "urn:leasectl:problem:removed"      // 410, to an acquire: an operator took the request off the queue
	ProblemNotQueued    = "urn:leasectl:problem:not-queued"   // 409: the request does not wait
	ProblemNoStore      = "urn:leasectl:problem:no-store"     // 409: the server's state is in memory only
)

// States in [Ready].
const (
	ReadyOK       = "ok"
	ReadyDegraded = "degraded" // it serves; Warnings say what is wrong
)

// Ready is the answer 200 to GET [PathReady]: the server grants and releases. A
// server that does not answers 503, a [Problem].
type Ready struct {
	Status string `json:"status"`
	// Warnings are left out for a caller without a token if tokens are in use.
	Warnings []string `json:"warnings,omitempty"`
}
