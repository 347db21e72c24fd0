package leaseapi

// PathReport takes a POST with a [ReportRequest].
const PathReport = "/lease/report"

// Outcomes of a lease: what its holder says that the account said.
const (
	OutcomeOK        = "ok"        // nothing was throttled; it counts when the lease has ended
	OutcomeThrottled = "throttled" // it counts at once, and beats OutcomeOK
)

// MaxDetail is how many bytes the detail of a report may have.
const MaxDetail = 512

// ReportRequest is the body of a POST to [PathReport]: what the holder of a lease says
// of it. A lease that has ended is remembered for [EndedKept]. With tokens in use, the
// request must have been made with the same one.
type ReportRequest struct {
	// RequestID is that of the acquire that got the lease. All leases of a request
	// count as one.
	RequestID string `json:"request_id"`
	Outcome   string `json:"outcome"`
	Detail    string `json:"detail,omitempty"` // for people, such as the line of a log
}

// ReportReply is the answer 200 to a report.
type ReportReply struct {
	// Counts is false if the same was said before, or if it was said to be throttled.
	Counts bool `json:"counts"`
}

// Tally is how many leases were reported to have ended ok, and to have been
// throttled, while a pool had one limit.
type Tally struct {
	Limit     int `json:"limit"`
	OK        int `json:"ok"`
	Throttled int `json:"throttled"`
}
