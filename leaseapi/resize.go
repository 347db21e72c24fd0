package leaseapi

// ResizeRequest is the body of a POST to [PathResize]: it makes a lease of a counted pool
// hold Count units, or the units that Items cost. A shrink never fails. A growth is
// granted at once or refused; it never waits.
type ResizeRequest struct {
	Name       string `json:"name"`
	Generation uint64 `json:"generation"`
	// From is how many units the caller believes that the lease holds. If the lease holds
	// another number, nothing is changed: 409, [ProblemStale].
	From int `json:"from"`
	// After is the last Resizes of this lease that the caller was told; 0 if none. If
	// the lease was resized since, nothing is changed: 409, [ProblemStale]. So a late
	// copy of a request does nothing, and a repeat of the last resize succeeds. Older
	// clients do not send After, and older servers ignore it. Then a late copy is carried
	// out if the lease holds exactly From units again.
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
