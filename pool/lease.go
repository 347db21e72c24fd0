package pool

import (
	"strings"
	"time"

	"github.com/leasectl/leasectl/leaseapi"
)

// Times that hold for every pool. Clients rely on those of the wire.
const (
	// ProvisionalTTL is how long a grant lasts that nobody renewed yet: a
	// grant whose answer was lost comes back by itself.
	ProvisionalTTL = leaseapi.ProvisionalTTL
	// PlaceKept is how long a waiter keeps its place while no connection is
	// attached to it: long enough for a client to come back over a bad network,
	// which notices only after 30 s that its connection is gone.
	PlaceKept = leaseapi.PlaceKept
	// HoldBack is how long a waiter that did not come back yet after a restart,
	// or a stall, holds back those behind it: clients try again every few
	// seconds, and come back in any order.
	HoldBack = 10 * time.Second
	// EndedKept is how long an ended request id is remembered, and what was held with
	// it: longer than any copy of the request can be under way, and long enough for a
	// job that outlives its lease to report of it.
	EndedKept = leaseapi.EndedKept
	// MaxEnded is how many are remembered at most; beyond it those that ended
	// first are forgotten before their time. An id of 32 bytes takes 230 bytes
	// of memory, with an owner of 70 bytes 300, and as many in a store, so that two
	// hours of 10,000 requests a second, or a client that cancels ids which it makes
	// up, would take 20 GB of each. A million take 300 MB, no more than a full queue
	// does. They are two hours at 140 requests a second, or 100 seconds at 10,000,
	// which is still longer than a copy is under way; and if one does come later,
	// what it gets is provisional.
	MaxEnded = 1_000_000
)

// Lease is one name that is granted, with its units. Times are on the lease clock.
type Lease struct {
	Name       string
	Type       string // of the pool whose request it served
	Generation uint64 // of this grant, unlike that of any other grant
	Owner      string

	RequestID string // empty if the request cannot be repeated
	Units     int    // how many of the pool it holds; more than 1 only in a counted pool, see [Set.Resize]
	Resizes   int    // how many resizes of it were decided, those that were refused included

	Ask // of the request

	Outcome     Outcome // what was said of its request so far
	Provisional bool    // nobody renewed it yet
	// Extended: a restart or a stall gave it its full TTL again, and nobody
	// renewed it since. The next one does not move Expires.
	Extended bool
	// Draining: its name was taken out of the pool, so that it is not granted there again.
	// Only [Set.Pool] and [Set.Leases] say it.
	Draining bool

	TTL       time.Duration // from each renewal on
	Granted   time.Duration
	Expires   time.Duration // when it ends without a renewal, unless ReleaseAt is set
	ReleaseAt time.Duration // when it ends whatever is renewed; zero: no release is pending
	Broken    string        // why an operator took it away; empty: nobody did
}

// Ends returns when the lease ends if nothing is done to it.
func (l Lease) Ends() time.Duration {
	if l.ReleaseAt > 0 {
		return l.ReleaseAt
	}
	return l.Expires
}

// OfVersion1 reports whether nobody renews l: its client does not know its id.
func (l Lease) OfVersion1() bool { return l.RequestID == "" }

// Ref names a lease the way a caller knows it.
type Ref struct {
	Name string
	// Generation of the grant that is meant; zero means whichever is current.
	Generation uint64
	// Owner that must hold the name; empty means any.
	Owner string
}

// matches reports whether l is the lease that r means.
func (r Ref) matches(l Lease) bool {
	return (r.Generation == 0 || r.Generation == l.Generation) &&
		(r.Owner == "" || r.Owner == l.Owner)
}

// Reason is why a lease ended, or why a call could not have it. The empty
// Reason means that nothing stood in the way.
type Reason string

// The reasons, beside those of broken leases; see [Reason.Broken].
const (
	Expired  Reason = leaseapi.ReasonExpired  // nobody renewed it in time
	Released Reason = leaseapi.ReasonReleased // by a release, a cancellation included
	Other    Reason = leaseapi.ReasonOther    // it is, or was since, held under another generation or owner
	Unknown  Reason = leaseapi.ReasonUnknown  // there is no such name, or no memory of such a grant
)

func brokenFor(why string) Reason { return Reason(leaseapi.ReasonBroken + why) }

// Broken reports whether r is that of a broken lease. Its text is then
// [leaseapi.ReasonBroken] and the reason that the operator gave.
func (r Reason) Broken() bool { return strings.HasPrefix(string(r), leaseapi.ReasonBroken) }

// Ended is a request id that never gets a lease again.
type Ended struct {
	ID    string
	Until time.Duration // on the lease clock: when it is forgotten
	// Unconfirmed says that it was granted, and expired before a renewal confirmed
	// it: nobody gave it back or cancelled it.
	Unconfirmed bool
	Result      Result     // of the request that it had merged with; zero: it ended otherwise
	Removed     string     // why an operator took it off the queue; empty: nobody did
	Lease       EndedLease // what it held last; zero: nothing
}

// Pause is a pool that an operator has stopped.
type Pause struct {
	Type   string
	Reason string
	Since  time.Duration // on the lease clock
}

// Locked is a name that nobody holds, and that is not granted yet because of the
// lock delay of its pool. So are the units and the key of the lease that ended.
type Locked struct {
	Name  string
	Type  string        // of the lease that ended
	Units int           // of it
	Key   string        // of it; may be empty
	Until time.Duration // on the lease clock
}

// Pacing is from when on the pace of a pool counts to its next grant.
type Pacing struct {
	Type       string
	Generation uint64        // of the last lease that was granted
	Start      time.Duration // on the lease clock: when its grant counts as made
	Count      int           // for how many units; zero: there is no such pool
}

// Naming is the last name that a counted pool has made up. It outlives the pool, so
// that the release of an earlier lease by its name means no later one.
type Naming struct {
	Type string
	Last int // the K of TYPE-K
}

// Snapshot is the durable part of a [Set]. Requests without an id are not in it,
// nor is the configuration, nor why leases ended: a renewal of one that ended
// before a restart is answered with [Unknown].
type Snapshot struct {
	Clock      time.Duration
	Generation uint64 // the last one given
	Leases     []Lease
	Ended      []Ended
	Waiters    []Waiter
	Locked     []Locked
	Paced      []Pacing
	Named      []Naming
	Pauses     []Pause
	Reports    []Reports
}
