// Package leaseapi is the wire contract between a lease proxy and its clients:
// paths, parameters, bodies and error types, each in one place.
//
// Version 1 is what deployed proxies speak: acquire and release, names only.
// Everything else here is what leasectl's own server adds. The additions are
// optional: a version-1 peer never sees a field that it does not know, because the
// server adds to an answer only if the request carried a parameter of ours. A server
// of ours refuses a request with a parameter or field that it does not know, since it
// could not do what was asked. A client skips fields of answers that it does not know.
//
// The package has no behaviour beyond encoding and the rules for names and texts, and
// imports nothing of this module. Package proxyclient says what of both is stable.
package leaseapi

import (
	"math"
	"strconv"
	"strings"
	"time"
)

// Wire is the number of this contract. A server of ours states it in each answer ([HeaderWire]), and in
// that to [PathHealth]; a version-1 proxy has no such number.
const Wire = 2

// Paths of the calls. The two of version 1, renew and resize are POSTs, the
// others GETs.
const (
	PathAcquire  = "/lease/acquire"
	PathRelease  = "/lease/release"
	PathRenew    = "/lease/renew"
	PathResize   = "/lease/resize"
	PathRequests = "/lease/requests/" // followed by a request id
	PathPools    = "/pools"
	PathHealth   = "/healthz"
)

// HeaderStore is in every answer of a server of ours: the random id of its store,
// made with the store and kept for its life. A server that keeps its state in
// memory has another id in each process. Names, generations and request ids mean
// something only within their store.
const HeaderStore = "Leasectl-Store"

// HeaderWire is in every answer of a server of ours: its [Wire]. So a client that had any answer knows
// that the proxy is not of version 1.
const HeaderWire = "Leasectl-Wire"

// HeaderCall is an id that a client may give each of its requests; see [CheckRequestID]. A server of
// ours answers with the id of the request. So a client notices an answer to an earlier request, as of
// a gateway that mixes up the answers of a connection.
const HeaderCall = "Leasectl-Call"

// ParamCaller is a query parameter of GET [PathRequests]: the name of the caller, if several have a
// request with the id.
const ParamCaller = "caller"

// Times that both sides must agree on.
const (
	// SliceTime is the longest an acquire with a request id stays open before
	// it is answered 202 and sent again: shorter than the 30 s and 60 s after
	// which load balancers commonly cut an idle connection.
	SliceTime = 25 * time.Second
	// FirstSlice replaces SliceTime when the server first tells a request its place: most waits are
	// shorter, and who waits for longer knows why.
	FirstSlice = 2 * time.Second
	// SliceGap is how long a waiter counts as active after a 202: a client
	// that goes on waiting sends its request again at once, and two seconds
	// cover a retry or a slow machine.
	SliceGap = 2 * time.Second
	// AnswerTime is how long after the end of a wait the answer may come. The proxy
	// counts the wait from the arrival of the request, and the client may first have
	// to resolve the proxy's host name.
	AnswerTime = 5 * time.Second
	// PlaceKept is how long a waiter whose connection broke keeps its place, and
	// how long it has to come back after a restart. A client notices within
	// ProvisionalTTL that its connection was silently lost. It then retries with pauses
	// of up to SliceGap, and needs more than one try on a bad network.
	PlaceKept = 60 * time.Second
	// MinTTL is the shortest TTL that may be asked for.
	MinTTL = time.Second
	// ProvisionalTTL is how long a grant lasts until its first renewal confirms it.
	ProvisionalTTL = 30 * time.Second
	// MaxRenewEvery is the longest time between two renewals that a server asks for.
	// A holder hears only from its next renewal that its lease was broken. A holder
	// that does not renew, as after a plain acquire, hears nothing.
	MaxRenewEvery = 30 * time.Second
	// EndedKept is how long the server remembers a request id that ended, unless
	// a million others end in that time.
	EndedKept = 2 * time.Hour
)

// Limits on what a peer may send. The server enforces all of them.
const (
	MaxBody      = 1 << 20 // bytes of a request or answer
	MaxRequestID = 128     // bytes
	MaxOwner     = 512     // bytes
	MaxName      = 255     // bytes of a lease's name or a type
	MaxKey       = 255     // bytes of a key
	MaxVariant   = 255     // bytes of a variant
	MaxItems     = 1 << 30 // of an acquire or a resize
	MaxReplaces  = 400     // leases that one acquire replaces
	MaxPriority  = 100     // and the least is the same below zero
)

// Lease is one granted name. The generation tells this grant of the name from
// every other grant the server ever made.
type Lease struct {
	Name       string `json:"name"`
	Generation uint64 `json:"generation"`
	// RequestID is the request that got the lease. Only calls have it, of callers who know the lease from a
	// file: a lease of another request is not meant, since a generation can be guessed. Empty: any request.
	RequestID string `json:"request_id,omitempty"`
	// Units is how many units of a counted pool the lease holds. Only answers have it.
	Units int `json:"units,omitempty"`
	// Type is the type of its pool. Only answers to requests of several types have it.
	Type string `json:"type,omitempty"`
}

// AcquireReply is the answer 200 to an acquire. Version 1 has only Names.
type AcquireReply struct {
	Names []string `json:"names"`

	RequestID  string    `json:"request_id,omitempty"`
	Leases     []Lease   `json:"leases,omitempty"`
	TTL        Duration  `json:"ttl,omitempty"`         // from the first renewal on
	RenewEvery Duration  `json:"renew_every,omitempty"` // a third of TTL, at most MaxRenewEvery
	ExpiresAt  time.Time `json:"expires_at,omitzero"`   // by the server's clock, for people
	Unit       string    `json:"unit,omitempty"`        // what a unit of the pool is; empty: a listed pool, or not configured
	Stale      []Lost    `json:"stale,omitempty"`       // of [AcquireRequest.Replaces]: leases that had ended before
	Caller     Caller    `json:"caller,omitzero"`       // who took them
}

// Queued is the answer 202 to an acquire that is still waiting: send it again
// with the same request id.
type Queued struct {
	RequestID string `json:"request_id"`
	Place     int    `json:"place"`  // 1 is next
	Length    int    `json:"length"` // waiters in the queue, this one included
	InUse     int    `json:"in_use"`
	Capacity  int    `json:"capacity"`
	Limit     int    `json:"limit,omitempty"` // units that may be in use now; zero: the capacity
	// Follows is the id of the request that this one has joined. If Reason is of kind
	// [WaitJoined], the joined request runs, and nothing bounds the wait. With any other
	// kind, Place and Reason are those of the joined request.
	Follows string `json:"follows,omitempty"`

	// Estimate and EstimateMax are how long the wait may still take: if the leases of
	// this pool are held for the usual time, and if they are held as long as the longest
	// recent one. Both count the time for which the current leases are held already, so
	// both fall as time passes. Estimate alone is zero when a lease may come at any
	// moment. Both are zero when nothing is known, or when the current leases have been
	// held longer than any before.
	Estimate    Duration `json:"estimate,omitempty"`
	EstimateMax Duration `json:"estimate_max,omitempty"`
	// Reason is why the request waits.
	Reason WaitReason `json:"reason,omitzero"`
	Order
	// Oldest is the lease of this pool that is held longest.
	Oldest *PoolLease `json:"oldest,omitempty"`
	// Page is the path of the page that shows the request to people, on the server
	// that answered; empty: there is no such page. The client makes a URL of the path
	// before it hands it on.
	Page string `json:"page,omitempty"`
	// Stale are leases of [AcquireRequest.Replaces] that had ended before.
	Stale []Lost `json:"stale,omitempty"`
}

// ReleaseRequest is the body of a release. Version 1 has only Names.
type ReleaseRequest struct {
	Names []string `json:"names,omitempty"`

	// Leases end only if their generation is still the current one.
	Leases []Lease `json:"leases,omitempty"`
	// Owner binds Names: a name ends only if this owner holds it.
	Owner string `json:"owner,omitempty"`
	// KnownFor, with Owner, says how long ago the caller learned of Names, such as the age of
	// the file that has them: a name ends only if its lease was granted before, with a tolerance
	// of two seconds. Nil: any lease of the owner is meant.
	KnownFor *Duration `json:"known_for,omitempty"`
	// RequestIDs end the leases that these acquires got, or take the acquires off the
	// queue. A cancelled id never gets a lease afterwards.
	RequestIDs []string `json:"request_ids,omitempty"`
	// Delay puts the release off. It cannot be combined with RequestIDs.
	Delay Duration `json:"delay,omitempty"`
	// All ends every lease of Owner, and takes all requests of Owner off the queue. It
	// can be combined with Owner only. With tokens in use, it spares leases and requests
	// of other tokens, whatever their owner.
	All bool `json:"all,omitempty"`
	// Peak is the memory that the command of Leases used, for calibration. A client
	// sends it with a lease of a pool whose unit [IsMemory].
	Peak *Peak `json:"peak,omitempty"`
	// ExitCode is the exit code of the command of Leases, set if the command ended by
	// itself. Requests that joined this one then end with that code; without it they
	// wait on. It cannot be combined with Delay. It says nothing of Names, which may be
	// held by another holder by now.
	ExitCode *int `json:"exit_code,omitempty"`
	// Report is a report on a lease that ends with this release, or ended before it.
	// A bad report never fails the release.
	Report *ReportRequest `json:"report,omitempty"`
}

// ReleaseReply is the answer 200 to a release with a field of ours in it.
type ReleaseReply struct {
	Released []string `json:"released"`        // ended, or already free; with a delay: release is scheduled
	Stale    []Lost   `json:"stale,omitempty"` // not ended, since another owner holds them now
	// Over are leases in Released that had ended before the call, or names that were free, and why.
	Over []Lost `json:"over,omitempty"`

	// All confirms that the server carried [ReleaseRequest.All] out.
	// Withdrawn is how many requests the server took off the queue.
	All       bool `json:"all,omitempty"`
	Withdrawn int  `json:"withdrawn,omitempty"`
}

// RenewRequest is the body of a renewal. Without a TTL each lease keeps its own TTL.
type RenewRequest struct {
	Leases []Lease  `json:"leases"`
	TTL    Duration `json:"ttl,omitempty"`
}

// RenewReply is the answer 200 to a renewal: every lease in it was renewed.
type RenewReply struct {
	TTL        Duration  `json:"ttl"` // the shortest TTL of the leases
	RenewEvery Duration  `json:"renew_every"`
	ExpiresAt  time.Time `json:"expires_at"`
	// ReleaseAt is set when a delayed release is pending: renewals no longer
	// move the end of the lease.
	ReleaseAt time.Time `json:"release_at,omitzero"`
}

// Lost is a lease that the caller does not hold, and why.
type Lost struct {
	Lease
	Reason string `json:"reason"`
}

// States of a request.
const (
	StateQueued  = "queued"
	StateJoined  = "joined" // waits for the end of another request's run
	StateGranted = "granted"
	StateEnded   = "ended" // released, expired, broken or cancelled
)

// RequestReply is the answer 200 to GET [PathRequests].
type RequestReply struct {
	RequestID string `json:"request_id"`
	State     string `json:"state"`

	Place    int      `json:"place,omitempty"`    // queued
	Length   int      `json:"length,omitempty"`   // queued
	Estimate Duration `json:"estimate,omitempty"` // queued

	EstimateMax Duration   `json:"estimate_max,omitempty"` // queued
	Reason      WaitReason `json:"reason,omitzero"`        // queued: why it waits
	InUse       int        `json:"in_use,omitempty"`       // queued: of the pool
	Capacity    int        `json:"capacity,omitempty"`     // queued: of the pool
	Limit       int        `json:"limit,omitempty"`        // queued: of the pool, as in [Queued]
	Follows     string     `json:"follows,omitempty"`      // queued, joined: as in [Queued]
	Order                  // queued
	// Oldest is the lease of the pool that is held longest; queued.
	Oldest *PoolLease `json:"oldest,omitempty"`
	Page   string     `json:"page,omitempty"` // queued: as in [Queued]

	Names  []string `json:"names,omitempty"`  // granted
	Leases []Lease  `json:"leases,omitempty"` // granted
}

// Queued returns the fields of r for a request that is queued, or has joined another.
func (r RequestReply) Queued() Queued {
	return Queued{
		RequestID: r.RequestID, Place: r.Place, Length: r.Length, InUse: r.InUse, Capacity: r.Capacity, Limit: r.Limit,
		Follows: r.Follows, Estimate: r.Estimate, EstimateMax: r.EstimateMax, Reason: r.Reason, Order: r.Order, Oldest: r.Oldest, Page: r.Page,
	}
}

// PoolLease is one lease that is held.
type PoolLease struct {
	Lease
	Key         string    `json:"key,omitempty"`
	KeyMode     string    `json:"key_mode,omitempty"`   // [KeyRead]; empty: [KeyWrite], or no key
	Overcommit  bool      `json:"overcommit,omitempty"` // granted beyond the limit
	Priority    int       `json:"priority,omitempty"`   // that its request asked for
	Owner       string    `json:"owner,omitempty"`
	Token       string    `json:"token,omitempty"` // name of the token that acquired it
	Age         Duration  `json:"age"`
	Since       time.Time `json:"since,omitzero"` // when it was granted
	ExpiresIn   Duration  `json:"expires_in"`
	ExpiresAt   time.Time `json:"expires_at"`
	Provisional bool      `json:"provisional,omitempty"` // granted, not renewed yet
	ReleaseAt   time.Time `json:"release_at,omitzero"`   // a delayed release is pending
	Broken      string    `json:"broken,omitempty"`      // why an operator broke the lease; renewals fail
	Draining    bool      `json:"draining,omitempty"`    // its name was removed from the pool, and is not granted again
}

// Health is the answer to GET [PathHealth].
type Health struct {
	Status  string `json:"status"` // "ok"
	Wire    int    `json:"wire"`
	Version string `json:"version"`
	Durable bool   `json:"durable"`
	Store   string `json:"store,omitempty"` // as in [HeaderStore]

	Leader *Leader `json:"leader,omitempty"` // nil: this server always leads
}

// Duration is a [time.Duration] that travels as its string, "5m0s".
type Duration time.Duration

// String returns d for people: 20m rather than 20m0s.
func (d Duration) String() string {
	s := time.Duration(d).String()
	if strings.HasSuffix(s, "m0s") {
		s = strings.TrimSuffix(s, "0s")
	}
	if strings.HasSuffix(s, "h0m") {
		s = strings.TrimSuffix(s, "0m")
	}
	return s
}

// MarshalText implements [encoding.TextMarshaler].
func (d Duration) MarshalText() ([]byte, error) {
	return []byte(time.Duration(d).String()), nil
}

// UnmarshalText implements [encoding.TextUnmarshaler], with [time.ParseDuration].
func (d *Duration) UnmarshalText(text []byte) error {
	v, err := time.ParseDuration(string(text))
	*d = Duration(v)
	return err
}

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

// Values of [ParamCoalesce]: how a request merges with others of its key, instead of
// waiting for a turn of its own. A merged request ends with 410: [ProblemCoalesced], with
// the exit code of the run that it joined, or [ProblemSuperseded].
const (
	CoalesceJoin   = "join"   // joins the last waiter, if that has the same variant
	CoalesceOnce   = "once"   // as join; if nobody waits, joins the run under way
	CoalesceLatest = "latest" // takes the place of the last waiter, which is superseded
)

// Values of [ParamKeyMode].
const (
	KeyRead  = "read"  // others may read the key meanwhile
	KeyWrite = "write" // nobody else has the key
)

// unitSuffixes are the suffixes of quantities of memory, as Kubernetes writes them.
var unitSuffixes = map[string]int64{
	"": 1, "k": 1e3, "M": 1e6, "G": 1e9, "T": 1e12,
	"Ki": 1 << 10, "Mi": 1 << 20, "Gi": 1 << 30, "Ti": 1 << 40,
}

// unitBytes returns the number of bytes in the unit of a pool, such as 1Mi or 512k. ok is
// false if the unit is not a quantity of memory, or more than an int64 holds.
func unitBytes(unit string) (bytes int64, ok bool) {
	digits := len(unit) - len(strings.TrimLeft(unit, "0123456789"))
	n, err := strconv.ParseInt(unit[:digits], 10, 32)
	factor, known := unitSuffixes[unit[digits:]]
	if err != nil || !known || n == 0 || n > math.MaxInt64/factor {
		return 0, false
	}
	return n * factor, true
}

// IsMemory reports whether the unit of a pool is a number of bytes, so that its leases
// can be compared with the memory that their commands use.
func IsMemory(unit string) bool {
	_, ok := unitBytes(unit)
	return ok
}

// InUnits returns an amount of memory in the unit of a pool, rounded up, or "-" if the
// unit is not a quantity of memory.
func InUnits(bytes int64, unit string) string {
	size, memory := unitBytes(unit)
	if !memory {
		return "-"
	}
	units := bytes / size
	if bytes%size > 0 {
		units++
	}
	return strconv.FormatInt(units, 10)
}
