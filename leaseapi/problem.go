package leaseapi

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
	ProblemNotFound       = "urn:leasectl:problem:not-found" // 404: no such path
)

// Problem is the body of an error, after RFC 9457.
type Problem struct {
	Type   string `json:"type"`
	Title  string `json:"title"`
	Status int    `json:"status"`
	Detail string `json:"detail,omitempty"`

	Lost []Lost `json:"lost,omitempty"` // with ProblemLost
}

// Texts that clients of version 1 look for; each stands between the prefix
// `Failed to acquire lease "T": ` and the end of the line.
const (
	// TextUnknownType ends the text of a 404.
	TextUnknownType = "resource type not found"
	// TextExhausted begins the text of the 5xx of an exhausted pool. Some
	// clients look for the plural, some for the singular.
	TextExhausted = "resources not found"
	// TextNoName is how a deployed server refuses a name that is free already,
	// and ours one that it has never had.
	TextNoName = "no resource name"
)

// Reasons in [Lost].
const (
	ReasonExpired  = "expired"       // its TTL ended
	ReasonReleased = "released"      // by a release, a delayed one included
	ReasonOther    = "held-by-other" // held under another generation or by another owner
	ReasonUnknown  = "unknown"       // the server has no such name
)
