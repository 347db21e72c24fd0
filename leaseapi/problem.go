package leaseapi

import "strings"

// ContentTypeProblem is the media type of RFC 9457, section 3. The errors of
// version 1 are plain text; the errors that we added are a [Problem].
const ContentTypeProblem = "application/problem+json"

// Types of problems. They are identifiers, not addresses to open, and never change.
const (
	ProblemBadRequest     = "urn:leasectl:problem:bad-request"
	ProblemUnknownRequest = "urn:leasectl:problem:unknown-request" // 404: no such request id
	ProblemEnded          = "urn:leasectl:problem:ended"           // 410: the request id ended or was cancelled
	ProblemLost           = "urn:leasectl:problem:lost"            // 410: the caller does not hold the lease to renew or resize
	ProblemConflict       = "urn:leasectl:problem:conflict"        // 409: the request id belongs to a different request
	ProblemQueueFull      = "urn:leasectl:problem:queue-full"      // 503
	ProblemShareUsed      = "urn:leasectl:problem:share-used"      // 503: the caller has its max_leases or max_waiters
	ProblemUnavailable    = "urn:leasectl:problem:unavailable"     // 503: stopping, or the store failed
	ProblemMethod         = "urn:leasectl:problem:method-not-allowed"
	ProblemNotFound       = "urn:leasectl:problem:not-found"   // 404: no such path
	ProblemExhausted      = "urn:leasectl:problem:exhausted"   // 503, to an acquire that does not wait: too little is free
	ProblemCoalesced      = "urn:leasectl:problem:coalesced"   // 410, to an acquire: the run that it joined has ended
	ProblemSuperseded     = "urn:leasectl:problem:superseded"  // 410, to an acquire: a newer request took its place
	ProblemNoRoom         = "urn:leasectl:problem:no-room"     // 409, to a resize: the lease cannot grow now; see Keeps
	ProblemTooMany        = "urn:leasectl:problem:too-many"    // 400, to a resize: more than the pool's capacity
	ProblemStale          = "urn:leasectl:problem:stale"       // 409, to a resize: the lease holds another number of units than From, or was resized since
	ProblemNoLease        = "urn:leasectl:problem:no-lease"    // 409, to a report: the request has no lease, and had none
	ProblemNotCounted     = "urn:leasectl:problem:not-counted" // 409, to a resize: the lease is of a listed pool, or the pool does not say what items cost
)

// Problem is the body of an error, after RFC 9457.
type Problem struct {
	Type   string `json:"type"`
	Title  string `json:"title"`
	Status int    `json:"status"`
	Detail string `json:"detail,omitempty"`

	Lost []Lost `json:"lost,omitempty"` // with ProblemLost
	// Reason, with ProblemEnded, is why the request ended: [ReasonUnconfirmed], or
	// empty for every other reason.
	Reason string `json:"reason,omitempty"`
	// Leader, with ProblemNotLeader, is the URL of the server that leads; empty if
	// no leader is known. It is a hint: a client sends its token only to servers
	// that its user named.
	Leader string `json:"leader,omitempty"`
	// Standby, with ProblemNotLeader, says that the server stood by when the call came,
	// and so did nothing. Without Standby the server may have led until a moment ago,
	// and may have carried out the call.
	Standby bool `json:"standby,omitempty"`

	// Queued, with ProblemExhausted, is the state of the queue. Its Place is the place
	// that the request would have had.
	Queued *Queued `json:"queued,omitempty"`

	// ExitCode, with ProblemCoalesced, is the exit code of the joined run.
	ExitCode *int `json:"exit_code,omitempty"`

	// Need, Free and Held are about a resize, in units. With ProblemNoRoom, Need is how
	// many more units the lease needs, and Free how many are free. Held is how many the
	// lease holds, also with ProblemStale. Resizes is as in a [ResizeReply].
	Need int `json:"need,omitempty"`
	Free int `json:"free,omitempty"`
	Held int `json:"held,omitempty"`
	// Keeps, with ProblemNoRoom, is what keeps the lease from growing; none: too few units are free.
	Keeps WaitReason `json:"keeps,omitzero"`

	Resizes int `json:"resizes,omitempty"`
}

// Texts that clients of version 1 look for.
const (
	// TextAcquireFailed begins the text of a refused acquire. The type, quoted as
	// Go's %q, a colon and the reason follow.
	TextAcquireFailed = "Failed to acquire lease "
	// TextReleaseFailed begins the text of a release that stopped at a name. The
	// name, a colon and the reason follow, and at last the names released before it.
	TextReleaseFailed = "Failed to release lease "
	// TextUnknownType is the reason in a 404 to an acquire.
	TextUnknownType = "resource type not found"
	// TextExhausted begins the reason in the 5xx of an exhausted pool. Some clients
	// look for the plural, some for the singular; our server's text has both.
	TextExhausted    = "resources not found"
	TextExhaustedOne = "resource not found"
	// TextNoName is the reason of a deployed server for a name that is free already,
	// and of our server for a name that it has never had.
	TextNoName = "no resource name"
)

// SaysExhausted reports whether a text of version 1 says that all leases are taken.
func SaysExhausted(text string) bool {
	return strings.Contains(text, TextExhausted) || strings.Contains(text, TextExhaustedOne)
}

// ReasonUnconfirmed in a [Problem] says that the request was granted, and that its leases
// ended because no renewal confirmed them in time. Nobody released them.
const ReasonUnconfirmed = "unconfirmed"

// Reasons in [Lost].
const (
	ReasonExpired  = "expired"       // its TTL ended
	ReasonReleased = "released"      // by a release, a delayed one included
	ReasonOther    = "held-by-other" // held under another generation or by another owner
	ReasonLater    = "granted-later" // the owner got the name again after the caller had learned of it
	// ReasonReserved: an operator has taken the name out of its pool, and is another than the caller.
	ReasonReserved = "reserved-by-other"
	// ReasonUnknown: the server has no such name, or no memory of such a grant. The
	// store records that a lease ended, but not why: after a restart the reason is unknown.
	ReasonUnknown = "unknown"
)
