package proxyclient

import (
	"errors"
	"fmt"
	"strings"
	"time"

	"github.com/leasectl/leasectl/leaseapi"
)

// Errors to compare with [errors.Is]. A call that a version-1 proxy cannot
// serve returns an error that is [errors.ErrUnsupported].
var (
	// ErrUnknownType: the proxy has no pool of that type.
	ErrUnknownType = errors.New("unknown lease type")
	// ErrExhausted: no lease came free within the wait. See [ExhaustedError].
	ErrExhausted = errors.New("no lease within the wait")
	// ErrLost: a lease is no longer its holder's. See [LostError].
	ErrLost = errors.New("lease lost")
	// ErrUnreachable: the proxy gave no good answer for too long. See
	// [UnreachableError].
	ErrUnreachable = errors.New("lease proxy does not answer")
	// ErrNotLeader: the server that was asked does not lead, or none of a list does. See
	// [NotLeaderError].
	ErrNotLeader = errors.New("the server does not lead")
	// ErrUnconfirmed: a lease may be held whose name nobody knows, or whose
	// release failed. See [UnconfirmedError].
	ErrUnconfirmed = errors.New("outcome unconfirmed")
	// ErrEnded: the request id was released or cancelled elsewhere. See
	// [EndedError].
	ErrEnded = errors.New("request has ended")
	// ErrRemoved: an operator took the request off the queue. The error that wraps
	// it says why.
	ErrRemoved = errors.New("request removed")
	// ErrTwoStores: servers of one list answer from different stores.
	ErrTwoStores = errors.New("the URLs lead to servers with different stores, which cannot be one proxy")
	// ErrCoalesced: a run that the request joined has ended. See [CoalescedError].
	ErrCoalesced = errors.New("another's run stood for the request")
	// ErrSuperseded: a newer request took the place of this one.
	ErrSuperseded = errors.New("superseded by a newer request")
	// ErrOlder: the proxy is too old for what was asked for. Nothing was sent. See
	// [OlderError].
	ErrOlder = errors.New("the lease proxy is too old")
	// ErrNoRoom: fewer units are free than a lease was to grow by. The error that wraps
	// it says how many, and what keeps the lease from growing.
	ErrNoRoom = errors.New("not enough units are free")
	// ErrTooMany: a lease was to grow beyond the capacity of its pool.
	ErrTooMany = errors.New("more than the pool has")
	// ErrNotCounted: a lease of a listed pool cannot be resized.
	ErrNotCounted = errors.New("not of a counted pool")
	// ErrNoToken: the proxy wants a token, and the client has none.
	ErrNoToken = errors.New("the proxy wants a token")
	// ErrWantsTLS: the proxy speaks https, and its URL says http.
	ErrWantsTLS = errors.New("it speaks https")
	// ErrNeverGranted: the pool cannot grant such a request, however long it waits. The
	// error that wraps it says why.
	ErrNeverGranted = errors.New("never granted")
	// ErrNotHeld: nobody holds what an operator would take away.
	ErrNotHeld = errors.New("nobody holds")
	// ErrUnknownRequest: the proxy knows request ids, but not this one.
	ErrUnknownRequest = errors.New("unknown request")
	// ErrNoLease: the request of a report holds no lease, and held none.
	ErrNoLease = errors.New("the proxy knows of no lease to report of")
)

// ExhaustedError says that no lease came free in time. It is [ErrExhausted].
type ExhaustedError struct {
	Type string
	Wait time.Duration
	Last *leaseapi.Queued // the proxy's last word on the queue; nil if it gave none
}

func (e *ExhaustedError) Error() string {
	if e.Wait <= 0 {
		return fmt.Sprintf("no lease of type %q is free", e.Type)
	}
	s := fmt.Sprintf("no lease of type %q within %s", e.Type, e.Wait)
	if q := e.Last; q != nil {
		reason := ""
		if q.Reason != "" {
			reason = q.Reason + ", "
		}
		s += fmt.Sprintf(" (place %d of %d, %s%d of %d in use)", q.Place, q.Length, reason, q.InUse, q.Capacity)
	}
	return s
}

// Is makes the error an [ErrExhausted].
func (e *ExhaustedError) Is(target error) bool { return target == ErrExhausted }

// UnconfirmedError says that an acquire ended without certainty: the proxy may
// have granted leases, or may still grant leases, that the caller does not know.
// It is [ErrUnconfirmed], and whatever Err is.
type UnconfirmedError struct {
	RequestID string
	Type      string
	Count     int      // leases that may be held under names that nobody knows
	Names     []string // leases that were granted and could not be given back
	Err       error    // why the acquire ended
}

func (e *UnconfirmedError) Error() string {
	var what []string
	if e.Count > 0 {
		what = append(what, fmt.Sprintf("up to %d of type %q may be held", e.Count, e.Type))
	}
	if len(e.Names) > 0 {
		what = append(what, fmt.Sprintf("could not give back %s", quoted(e.Names)))
	}
	return fmt.Sprintf("%v; request %s is unconfirmed: %s", e.Err, e.RequestID, strings.Join(what, ", "))
}

// Is makes the error an [ErrUnconfirmed].
func (e *UnconfirmedError) Is(target error) bool { return target == ErrUnconfirmed }

// Unwrap returns why the acquire ended.
func (e *UnconfirmedError) Unwrap() error { return e.Err }

// UnconfirmedReleaseError says that the proxy no longer knows names, after
// an earlier release of them that got an error, or no answer. A deployed
// version-1 proxy forgets a name before it asks the pool behind it, so the pool
// may still count the leases as held. It is [ErrUnconfirmed].
type UnconfirmedReleaseError struct {
	Names []string
}

func (e *UnconfirmedReleaseError) Error() string {
	return fmt.Sprintf("the release of %s is unconfirmed: the proxy forgot the name when it was released before, without success, and the pool behind it may still hold the lease", quoted(e.Names))
}

// Is makes the error an [ErrUnconfirmed].
func (e *UnconfirmedReleaseError) Is(target error) bool { return target == ErrUnconfirmed }

// UnreachableError says that the proxy gave no good answer for too long. It is
// [ErrUnreachable], and whatever Err is.
type UnreachableError struct {
	Proxy   string // its URL, as it may be shown
	Refused bool   // no connection was made at all
	Errors  bool   // it answered, but errors only
	Err     error  // its last words, or why there are none

	text string // what to say instead of Err; may be empty
}

func (e *UnreachableError) Error() string {
	last := e.text
	if last == "" {
		last = e.Err.Error()
	}
	if e.Errors {
		return fmt.Sprintf("lease proxy answers with errors only: %s: %s", e.Proxy, last)
	}
	return fmt.Sprintf("%v: %s: %s", ErrUnreachable, e.Proxy, last)
}

// Is makes the error an [ErrUnreachable].
func (e *UnreachableError) Is(target error) bool { return target == ErrUnreachable }

// Unwrap returns the last failure.
func (e *UnreachableError) Unwrap() error { return e.Err }

// NotLeaderError is the answer of a server that does not lead. It is [ErrNotLeader].
type NotLeaderError struct {
	Leader string // URL of the one that leads, as the server says; empty: it knows of none
	text   string
}

func (e *NotLeaderError) Error() string { return e.text }

// Is makes the error an [ErrNotLeader].
func (e *NotLeaderError) Is(target error) bool { return target == ErrNotLeader }

// FailingError says that the proxy answered with errors until the time of the call was
// over. They are about the proxy: another call would have fared no better. (What a
// version-1 proxy says of a name that it cannot release is none.) It is no
// [ErrUnreachable]: the time was over before the errors had lasted as long as that takes.
type FailingError struct {
	Err error // its last words
}

func (e *FailingError) Error() string { return e.Err.Error() }

// Unwrap returns the last failure.
func (e *FailingError) Unwrap() error { return e.Err }

// UnknownTypeError says that the proxy has no pool of a type. It is
// [ErrUnknownType].
type UnknownTypeError struct {
	Type   string
	Listed bool // the proxy lists the types that it has
}

func (e *UnknownTypeError) Error() string { return fmt.Sprintf("%v %q", ErrUnknownType, e.Type) }

// Is makes the error an [ErrUnknownType].
func (e *UnknownTypeError) Is(target error) bool { return target == ErrUnknownType }

// CoalescedError says how the run ended that a request joined. It is [ErrCoalesced].
type CoalescedError struct {
	RequestID string
	ExitCode  int // of the command, which ended by itself
}

func (e *CoalescedError) Error() string {
	return fmt.Sprintf("request %s joined a run, which ended with exit code %d", e.RequestID, e.ExitCode)
}

// Is makes the error an [ErrCoalesced].
func (e *CoalescedError) Is(target error) bool { return target == ErrCoalesced }

// OlderError says that a proxy does not know what a call needs. It is [ErrOlder].
type OlderError struct {
	Proxy string // its URL, as it may be shown
	Wire  int    // that it speaks
	Needs string // what needs a newer one
}

func (e *OlderError) Error() string {
	return fmt.Sprintf("%s needs a lease proxy of wire %d or later, and %s speaks wire %d: nothing was sent", e.Needs, wireUnits, e.Proxy, e.Wire)
}

// Is makes the error an [ErrOlder].
func (e *OlderError) Is(target error) bool { return target == ErrOlder }

// StaleError says that a lease does not hold as many units as a resize believed, or was
// resized since.
type StaleError struct {
	Held int // units that it holds
}

func (e *StaleError) Error() string {
	return fmt.Sprintf("the lease holds %d units, which is not what its handle says", e.Held)
}

// EndedError says that a request id never gets a lease again. It is
// [ErrEnded].
type EndedError struct {
	RequestID string
	// Unconfirmed: it was granted, and the grant ended because no renewal
	// confirmed it in time. Nobody gave it back or cancelled it.
	Unconfirmed bool
}

func (e *EndedError) Error() string {
	if e.Unconfirmed {
		return fmt.Sprintf("%v: %s: granted, and ended before the answer came", ErrEnded, e.RequestID)
	}
	return fmt.Sprintf("%v: %s: released or cancelled elsewhere", ErrEnded, e.RequestID)
}

// Is makes the error an [ErrEnded].
func (e *EndedError) Is(target error) bool { return target == ErrEnded }

// LostError says that leases are lost. It is [ErrLost].
type LostError struct {
	// Lost are the leases that the proxy says are gone, and why. None: the
	// leases were not renewed in time, without a word of the proxy.
	Lost []leaseapi.Lost
	// Deadline is when leases that were not renewed in time end at the
	// earliest; it may be in the future. Zero if the proxy said they are gone.
	Deadline Instant
	Err      error // the last failed renewal, if there was one
}

func (e *LostError) Error() string {
	if len(e.Lost) > 0 {
		var each []string
		for _, l := range e.Lost {
			each = append(each, fmt.Sprintf("%q (%s)", l.Name, shortLine(l.Reason)))
		}
		return "lease lost: " + strings.Join(each, ", ")
	}
	if e.Err == nil {
		return "lease lost: not renewed in time"
	}
	return fmt.Sprintf("lease lost: not renewed in time: %v", e.Err)
}

// Is makes the error an [ErrLost].
func (e *LostError) Is(target error) bool { return target == ErrLost }

// Unwrap returns the last failed renewal.
func (e *LostError) Unwrap() error { return e.Err }

// reworded is an error with a text for people, whose causes are only there to
// be compared with: that a context ended, for one.
type reworded struct {
	text string
	err  error
}

func (r *reworded) Error() string { return r.text }
func (r *reworded) Unwrap() error { return r.err }
