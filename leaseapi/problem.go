package leaseapi

import "strings"

// ContentTypeProblem is the media type of RFC 9457, section 3. The errors of
// version 1 are plain text; all that we added answers with a [Problem].
const ContentTypeProblem = "application/problem+json"

// Types of problems. They are identifiers, not addresses, and never change.
const (
	ProblemBadRequest     = "urn:leasectl:problem:bad-request"
	ProblemUnknownRequest = "urn:leasectl:problem:unknown-request" // 404: no such request id
	ProblemEnded          = "urn:leasectl:problem:ended"           // 410: the request id ended or was cancelled
	ProblemLost           = "urn:leasectl:problem:lost"            // 410: a lease to renew is not the caller's
	ProblemConflict       = "urn:leasectl:problem:conflict"        // 409: the request id stands for another request
	ProblemQueueFull      = "urn:leasectl:problem:queue-full"      // 503
	ProblemUnavailable    = "urn:leasectl:problem:unavailable"     // 503: stopping, or the store failed
	ProblemMethod         = "urn:leasectl:problem:method-not-allowed"
	ProblemNotFound       = "urn:leasectl:problem:not-found"   // 404: no such path
	ProblemExhausted      = "urn:leasectl:problem:exhausted"   // 503, to an acquire with wire 3 and without wait: nothing fits
	ProblemCoalesced      = "urn:leasectl:problem:coalesced"   // 410, to an acquire: the run that it joined has ended
	ProblemSuperseded     = "urn:leasectl:problem:superseded"  // 410, to an acquire: a newer request took its place
	ProblemNoRoom         = "urn:leasectl:problem:no-room"     // 409, to a resize: fewer units are free than it needs
	ProblemTooMany        = "urn:leasectl:problem:too-many"    // 400, to a resize: more than the pool's capacity
	ProblemStale          = "urn:leasectl:problem:stale"       // 409, to a resize: the lease holds other units than it says, or was resized since
	ProblemNoLease        = "urn:leasectl:problem:no-lease"    // 409, to a report: the request has, and had, no lease
	ProblemNotCounted     = "urn:leasectl:problem:not-counted" // 409, to a resize: the lease is of a listed pool, or the pool does not say what items cost
)

// Problem is the body of an error, after RFC 9457.
type Problem struct {
	Type   string `json:"type"`
	Title  string `json:"title"`
	Status int    `json:"status"`
	Detail string `json:"detail,omitempty"`

	Lost []Lost `json:"lost,omitempty"` // with ProblemLost
	// Reason is why a request ended, with ProblemEnded: [ReasonUnconfirmed], or
	// empty for every other. With ProblemNoRoom it is what keeps the lease from
	// growing, if that is not the number of free units.
	Reason string `json:"reason,omitempty"`
	// Leader is the URL of the server that leads, with ProblemNotLeader; empty if
	// nobody is known to. It is a hint: a client sends its token only to servers
	// that its user named.
	Leader string `json:"leader,omitempty"`
	// Standby, with ProblemNotLeader, says that the server stood by when the call came,
	// so that it did nothing of it. Without it the server may have led until a moment
	// ago, and may have done it.
	Standby bool `json:"standby,omitempty"`

	// Queued is how the queue stands, with ProblemExhausted: Place is the one that
	// the request would have had.
	Queued *Queued `json:"queued,omitempty"`

	// ExitCode is that of the run, with ProblemCoalesced.
	ExitCode *int `json:"exit_code,omitempty"`

	// Of a resize, in units: how many more it needs and how many are free, with
	// ProblemNoRoom; and how many the lease holds, also with ProblemStale. Resizes is
	// as in a [ResizeReply].
	Need int `json:"need,omitempty"`
	Free int `json:"free,omitempty"`
	Held int `json:"held,omitempty"`

	Resizes int `json:"resizes,omitempty"`
}

// Texts that clients of version 1 look for.
const (
	// TextAcquireFailed begins every text of an acquire that was refused for
	// what it asked; the type, quoted as Go's %q, a colon and why follow.
	TextAcquireFailed = "Failed to acquire lease "
	// TextReleaseFailed begins that of a release that stopped at a name; the
	// name, a colon and why follow, and at last what was released before it.
	TextReleaseFailed = "Failed to release lease "
	// TextUnknownType is why, of a 404 to an acquire.
	TextUnknownType = "resource type not found"
	// TextExhausted begins why, of the 5xx of an exhausted pool. Some clients
	// look for the plural, some for the singular, which ours has further on.
	TextExhausted    = "resources not found"
	TextExhaustedOne = "resource not found"
	// TextNoName is how a deployed server refuses a name that is free already,
	// and ours one that it has never had.
	TextNoName = "no resource name"
)

// SaysExhausted reports whether a text of version 1 says that all leases are taken.
func SaysExhausted(text string) bool {
	return strings.Contains(text, TextExhausted) || strings.Contains(text, TextExhaustedOne)
}

// ReasonUnconfirmed in a [Problem]: the request was granted, and its leases ended
// since no renewal confirmed them in time. Nobody gave them back.
const ReasonUnconfirmed = "unconfirmed"

// Reasons in [Lost].
const (
	ReasonExpired  = "expired"       // its TTL ended
	ReasonReleased = "released"      // by a release, a delayed one included
	ReasonOther    = "held-by-other" // held under another generation or by another owner
	// ReasonUnknown: the server has no such name, or no memory of such a grant.
	// That a lease has ended is durable, but not why: after a restart it is this.
	ReasonUnknown = "unknown"
)
