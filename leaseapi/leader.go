package leaseapi

import "time"

// ProblemNotLeader is 503, to a call that only the leader answers: another server on the
// same store leads, or none does for now. See [Problem.Leader] and [Problem.Standby].
const ProblemNotLeader = "urn:leasectl:problem:not-leader"

// Leader says which of the servers on one store leads.
type Leader struct {
	URL     string    `json:"url,omitempty"`   // where clients reach the leader; empty: not known
	Since   time.Time `json:"since,omitzero"`  // by the leader's clock; zero: nobody is known to lead
	Standby int       `json:"standby"`         // how many servers stand by
	Leads   bool      `json:"leads,omitempty"` // the server that answers leads
}
