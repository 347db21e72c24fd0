package leaseapi

// ResizeRequest is the body of a POST to [PathResize]: a lease of a counted pool is
// to hold Count units, or as many as Items cost. Less is done at once and never
// fails. More is tried at once, and nothing of it waits.
type ResizeRequest struct {
	Name       string `json:"name"`
	Generation uint64 `json:"generation"`
	// From is how many units its caller believes that the lease holds. If it holds
	// another number, nothing is changed: 409, [ProblemStale].
	From int `json:"from"`
	// After is the last Resizes of this lease that its caller was told; 0 if none. If
	// the lease was resized since, nothing is changed: 409, [ProblemStale]. So a late
	// copy of a request does nothing, and a repeat of the last one that was done is
	// success. Older clients do not say it, and older servers ignore it: then a late
	// copy does something if the lease has come to hold exactly From again.
	After *int `json:"after,omitempty"`

	Count int  `json:"count,omitempty"`
	Items *int `json:"items,omitempty"` // instead of Count
}

// ResizeReply is the answer 200 to a resize.
type ResizeReply struct {
	Units int `json:"units"` // that the lease holds now
	// Resizes is how many resizes of this lease were decided, those without room
	// included; 0: the server does not count them. The next request says it.
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

// Peaks compare what leases asked for with what their commands used.
type Peaks struct {
	Leases int       `json:"leases"` // how many are counted
	Asked  Quantiles `json:"asked"`  // units
	Used   Quantiles `json:"used"`   // bytes
}

// Quantiles are values of which half, 95 of 100, and all are no greater.
type Quantiles struct {
	P50 int64 `json:"p50"`
	P95 int64 `json:"p95"`
	Max int64 `json:"max"`
}
