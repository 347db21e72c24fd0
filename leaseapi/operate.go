package leaseapi

// Paths for those who operate a server. A break is a POST, the others are GETs.
// With tokens in use, [PathHealth] and PathReady alone need none, for probes.
const (
	PathBreak   = "/lease/break"
	PathReady   = "/readyz"
	PathMetrics = "/metrics" // Prometheus text format 0.0.4
)

// BreakRequest is the body of a POST to [PathBreak]: an operator takes a lease
// away from its holder.
type BreakRequest struct {
	Name string `json:"name"`
	// Generation is that of the lease that is meant, so that a second copy of
	// the request does not hit the next holder. Zero: the lease of that name.
	Generation uint64 `json:"generation,omitempty"`
	Reason     string `json:"reason"`        // what renewals are told; must not be empty
	Now        bool   `json:"now,omitempty"` // free the name at once, instead of leaving its holder time to stop
}

// BreakReply is the answer 200 to a break.
type BreakReply struct {
	Lease PoolLease `json:"lease"` // as it is now, or was when it ended
	Ended bool      `json:"ended"` // the name is free; otherwise it is when its holder releases it, or at ExpiresAt
}

// MaxReason is the most bytes of a reason.
const MaxReason = 512

// ReasonBroken begins the reason in a [Lost] of a lease that was broken; the
// operator's reason follows.
const ReasonBroken = "broken: "

// Types of problems of what is above.
const (
	ProblemUnauthorized = "urn:leasectl:problem:unauthorized" // 401: no token, or one that is not known
	ProblemForbidden    = "urn:leasectl:problem:forbidden"    // 403: not with this token; nothing was changed
	ProblemUnknownName  = "urn:leasectl:problem:unknown-name" // 404: the server has never had this name
	ProblemNotHeld      = "urn:leasectl:problem:not-held"     // 409: nobody holds it, or not under this generation
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
