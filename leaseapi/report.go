package leaseapi

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
