package lockfile

import (
	"slices"
	"time"

	"github.com/leasectl/leasectl/leaseapi"
)

// RoundState is the stage of a round.
type RoundState string

// States of a round. In each state but held, the use Round.By does the next step. If the
// process of that use is dead, the next process that looks does the step.
const (
	// RoundAcquiring: By asks the proxy for the lease.
	RoundAcquiring RoundState = "acquiring"
	// RoundStarting: the lease is there, and the keeper starts the service for By.
	RoundStarting RoundState = "starting"
	// RoundHeld: the users hold the lease.
	RoundHeld RoundState = "held"
	// RoundRenewing: By, the only user, makes the renewal that decides whether the
	// round goes on.
	RoundRenewing RoundState = "renewing"
	// RoundReleasing: By, the last user, gives the lease back, or the keeper of the service.
	RoundReleasing RoundState = "releasing"
)

// Round is the time of a shared lease from its acquire to its release, as its users write it
// down for each other. A [time.Duration] counts from the boot of the machine, unless its
// comment says that it is a length.
type Round struct {
	ID     string     `json:"id"` // names its files
	State  RoundState `json:"state"`
	By     int        `json:"by,omitempty"`
	Handle string     `json:"handle"` // path; it has the names while they are held

	// The request of its first user.
	Type      string        `json:"type"`
	Count     int           `json:"count,omitempty"` // zero: not given
	Items     *int          `json:"items,omitempty"` // nil: not given
	Proxy     string        `json:"proxy"`
	Owner     string        `json:"owner"`
	Token     string        `json:"token,omitempty"` // a digest of the token; "": none
	TokenFile string        `json:"token_file,omitempty"`
	TTL       time.Duration `json:"ttl_ns,omitempty"` // a length
	// MaxUses is the number of uses after which the round is expired, Bound the number of uses
	// that it may have; zero: any number.
	MaxUses int           `json:"max_uses,omitempty"`
	Bound   int           `json:"bound,omitempty"`
	MaxAge  time.Duration `json:"max_age_ns,omitempty"` // a length; zero: any

	Leases    []Lease         `json:"leases,omitempty"`
	Adapter   string          `json:"adapter,omitempty"` // as in Record
	Units     int             `json:"units,omitempty"`   // of a counted pool that were granted; zero: the pool is listed
	Unit      string          `json:"unit,omitempty"`    // what one unit is, if the proxy said so
	RequestID string          `json:"request_id,omitempty"`
	Taker     leaseapi.Caller `json:"taker,omitzero"`       // as in Record
	Store     string          `json:"store,omitempty"`      // as in Record
	Granted   time.Duration   `json:"granted_ns,omitempty"` // the granted TTL, a length; zero: none, the lease lasts until its release
	Since     time.Time       `json:"since,omitzero"`       // for people
	ExpiresAt time.Duration   `json:"expires_at_ns,omitempty"`
	EndsAt    time.Duration   `json:"ends_at_ns,omitempty"` // nobody joins from then on

	Uses  int   `json:"uses"`            // reserved so far; they are numbered from 1
	Users []int `json:"users,omitempty"` // uses that have not ended, unless their process was killed

	RenewedAt  time.Duration `json:"renewed_at_ns,omitempty"`
	RenewEvery time.Duration `json:"renew_every_ns,omitempty"` // a length
	Deadline   time.Duration `json:"deadline_ns,omitempty"`    // when the lease ends unless it is renewed; zero: never
	ReleaseAt  time.Time     `json:"release_at,omitzero"`      // when the proxy releases the lease late, as the last renewal says; zero: it does not
	Lingers    bool          `json:"lingers,omitempty"`        // its last user left the lease to end at Deadline
	Lost       string        `json:"lost,omitempty"`           // why the lease is lost; "": it is not

	Service *Service `json:"service,omitempty"` // nil: there is none

	// Peak is the largest peak memory of the commands of uses that have ended; nil: none was
	// measured.
	Peak *leaseapi.Peak `json:"peak,omitempty"`
}

// Service is a process that comes with a round, and that its users use. A keeper looks after it,
// and gives back the lease of the round when no user is left.
type Service struct {
	Command string        `json:"command"` // for sh -c
	Ready   string        `json:"ready"`   // the regular expression of a line that says that it is ready; "": after a second
	Timeout time.Duration `json:"timeout_ns"`
	Grace   time.Duration `json:"grace_ns"` // from TERM to KILL

	Group     int       `json:"group,omitempty"` // id of its process group; zero: it was not started
	Since     time.Time `json:"since,omitzero"`  // when it was started, for people
	Variables []string  `json:"variables,omitempty"`
	// Over says why it is over, such as "ended with exit code 3"; "": it is not. Said are the
	// last lines that it printed before.
	Over string   `json:"over,omitempty"`
	Said []string `json:"said,omitempty"`
	// LastsUntil is how long it goes on without a user, counted from the boot; zero: it stops with
	// the last one.
	LastsUntil time.Duration `json:"lasts_until_ns,omitempty"`
}

// Names returns the names of the leases, in their order.
func (r *Round) Names() []string { return Names(r.Leases) }

// Expired reports whether a newcomer should look for another round. now counts from the boot of
// the machine, as it does for Closed and Over.
func (r *Round) Expired(now time.Duration) bool {
	return r.MaxUses > 0 && r.Uses >= r.MaxUses || r.ExpiresAt > 0 && now >= r.ExpiresAt
}

// Closed reports whether the round takes no further users.
func (r *Round) Closed(now time.Duration) bool {
	return r.Bound > 0 && r.Uses >= r.Bound || r.EndsAt > 0 && now >= r.EndsAt
}

// Over reports whether the lease has ended, or may have.
func (r *Round) Over(now time.Duration) bool {
	return r.Lost != "" || r.Deadline > 0 && now >= r.Deadline
}

// Renews tells whether the lease ends unless it is renewed.
func (r *Round) Renews() bool { return len(r.Leases) > 0 && !lasts(r.Leases, r.Adapter) }

// dropUser forgets a use that has ended.
func (r *Round) dropUser(n int) {
	r.Users = slices.DeleteFunc(r.Users, func(u int) bool { return u == n })
}
