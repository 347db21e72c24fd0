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
	// ErrUnknownName: the pool, or any pool, has no such name. The wrapping error says which names
	// the pool has.
	ErrUnknownName = errors.New("unknown name")
	// ErrReserved: another owner has reserved the name. The wrapping error says who, and why.
	ErrReserved = errors.New("reserved by another")
	// ErrExhausted: no lease became free within the wait. See [ExhaustedError].
	ErrExhausted = errors.New("no lease within the wait")
	// ErrLost: the caller no longer holds the lease. See [LostError].
	ErrLost = errors.New("lease lost")
	// ErrUnreachable: the proxy gave no good answer for too long. See
	// [UnreachableError].
	ErrUnreachable = errors.New("lease proxy does not answer")
	// ErrNotLeader: the asked server does not lead, or no server of a list leads. See
	// [NotLeaderError].
	ErrNotLeader = errors.New("the server does not lead")
	// ErrUnconfirmed: a lease may be held whose name is unknown, or whose
	// release failed. See [UnconfirmedError] and [UnconfirmedReleaseError].
	ErrUnconfirmed = errors.New("outcome unconfirmed")
	// ErrEnded: the request id was released or cancelled elsewhere. See
	// [EndedError].
	ErrEnded = errors.New("request has ended")
	// ErrRemoved: an operator took the request off the queue. The wrapping error has the
	// operator's reason.
	ErrRemoved = errors.New("request removed")
	// ErrTwoStores: the servers of one list use different stores.
	ErrTwoStores = errors.New("the URLs lead to servers with different stores, which cannot be one proxy")
	// ErrCoalesced: the run that the request joined has ended. See [CoalescedError].
	ErrCoalesced = errors.New("another's run stood for the request")
	// ErrSuperseded: a newer request took the place of this one.
	ErrSuperseded = errors.New("superseded by a newer request")
	// ErrVersion1: the proxy is of version 1, which would ignore a part of the request. Nothing
	// was sent ([Version1Error]), or the grant was given back.
	ErrVersion1 = errors.New("the lease proxy is of version 1")
	// ErrNoRoom: a lease cannot grow now. The wrapping error says how many units are
	// needed and free, and what else keeps the lease from growing.
	ErrNoRoom = errors.New("not enough units are free")
	// ErrTooMany: a resize asks for more than the capacity of the pool.
	ErrTooMany = errors.New("more than the pool has")
	// ErrNotCounted: a lease of a listed pool cannot be resized, or the pool defines no
	// cost for items.
	ErrNotCounted = errors.New("not of a counted pool")
	// ErrNoToken: the proxy wants a token, and the client has none.
	ErrNoToken = errors.New("the proxy wants a token")
	// ErrNoTokenGiven: a [TokenSource] has no token. Nothing was sent.
	ErrNoTokenGiven = errors.New("no token was given")
	// ErrRefused: the proxy does not accept the token, or not for this call.
	ErrRefused = errors.New("refused")
	// ErrWantsTLS: the proxy speaks https, and its URL says http.
	ErrWantsTLS = errors.New("it speaks https")
	// ErrNeverGranted: the pool cannot grant such a request, however long it waits. The
	// wrapping error says why.
	ErrNeverGranted = errors.New("never granted")
	// ErrNotHeld: nobody holds the name that an operator wants to break, or the lease has
	// ended meanwhile.
	ErrNotHeld = errors.New("nobody holds")
	// ErrUnknownRequest: the proxy supports request ids, but does not know this one.
	ErrUnknownRequest = errors.New("unknown request")
	// ErrNoLease: the request of a report has no lease, and had none.
	ErrNoLease = errors.New("the proxy knows of no lease to report of")
)

// ExhaustedError says that no lease became free in time. It is [ErrExhausted].
type ExhaustedError struct {
	Type string
	Wait time.Duration    // as requested; zero: the request did not wait
	Last *leaseapi.Queued // last known state of the queue; nil: not known
	// Refused is why the proxy did not take it into the queue; empty: it did, or did not say.
	Refused string
}

func (e *ExhaustedError) Error() string {
	if e.Wait <= 0 {
		if e.Refused != "" {
			return fmt.Sprintf("no lease of type %q: %s", e.Type, e.Refused)
		}
		return fmt.Sprintf("no lease of type %q is free", e.Type)
	}
	s := fmt.Sprintf("no lease of type %q within %s", e.Type, e.Wait)
	if e.Refused != "" {
		return s + ": " + e.Refused
	}
	if q := e.Last; q != nil {
		reason := q.Reason.String()
		if reason != "" {
			reason += ", "
		}
		s += fmt.Sprintf(" (place %d of %d, %s%d of %d in use)", q.Place, q.Length, reason, q.InUse, q.Capacity)
	}
	return s
}

// Is makes the error an [ErrExhausted].
func (e *ExhaustedError) Is(target error) bool { return target == ErrExhausted }

// UnconfirmedError says that an acquire ended without certainty: the proxy may
// have granted leases, or may still grant leases, that the caller does not know.
// It is [ErrUnconfirmed], and wraps Err.
type UnconfirmedError struct {
	RequestID string
	Type      string
	Also      []leaseapi.Also // as in [Request]
	Count     int             // leases of Type that may be held under unknown names
	Names     []string        // leases that were granted and could not be given back
	Err       error           // why the acquire ended
}

func (e *UnconfirmedError) Error() string {
	var what []string
	if e.Count > 0 {
		up := fmt.Sprintf("up to %d of type %q", e.Count, e.Type)
		for _, a := range e.Also {
			up += fmt.Sprintf(" and %d of type %q", max(a.Count, 1), a.Type)
		}
		what = append(what, up+" may be held")
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

// UnconfirmedReleaseError says that the proxy does not know names, after an earlier
// release of these names got an error or no answer. A deployed version-1 proxy
// forgets a name before it asks the pool behind it, so the pool may still count the
// leases as held. It is [ErrUnconfirmed].
type UnconfirmedReleaseError struct {
	Names []string
}

func (e *UnconfirmedReleaseError) Error() string {
	return fmt.Sprintf("the release of %s is unconfirmed: the proxy forgot the name when it was released before, without success, and the pool behind it may still hold the lease", quoted(e.Names))
}

// Is makes the error an [ErrUnconfirmed].
func (e *UnconfirmedReleaseError) Is(target error) bool { return target == ErrUnconfirmed }

// UnreachableError says that the proxy gave no good answer for too long. It is
// [ErrUnreachable], and wraps Err.
type UnreachableError struct {
	Proxy   string // the proxy's URLs, without passwords
	Refused bool   // no connection was made
	Errors  bool   // the proxy answered, but only with errors
	Err     error  // the proxy's last error, or why there was no answer

	text string // text instead of that of Err; may be empty
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
	Leader string // URL of the leader, according to the server; empty: not known
	text   string
}

func (e *NotLeaderError) Error() string { return e.text }

// Is makes the error an [ErrNotLeader].
func (e *NotLeaderError) Is(target error) bool { return target == ErrNotLeader }

// FailingError says that the proxy answered with errors until the time of the call was
// over. These errors are about the proxy, so another call would fail too. (The error of a
// version-1 proxy about a single name that it cannot release is no FailingError.) It is no
// [ErrUnreachable], since the call ended before the errors had lasted long enough for that.
type FailingError struct {
	Err error // the proxy's last error
}

func (e *FailingError) Error() string { return e.Err.Error() }

// Unwrap returns the last failure.
func (e *FailingError) Unwrap() error { return e.Err }

// UnknownTypeError says that the proxy has no pool of a type. It is
// [ErrUnknownType].
type UnknownTypeError struct {
	Type   string
	Types  []string // of a request of several types: all that the proxy has no pool of
	Listed bool     // [Client.Pools] lists the types that the proxy has
}

func (e *UnknownTypeError) Error() string {
	if len(e.Types) > 1 {
		return fmt.Sprintf("%v %s", ErrUnknownType, quoted(e.Types))
	}
	return fmt.Sprintf("%v %q", ErrUnknownType, e.Type)
}

// Is makes the error an [ErrUnknownType].
func (e *UnknownTypeError) Is(target error) bool { return target == ErrUnknownType }

// CoalescedError says how the run that a request joined has ended. It is [ErrCoalesced].
type CoalescedError struct {
	RequestID string
	ExitCode  int // of the run's command, which ended by itself
}

func (e *CoalescedError) Error() string {
	return fmt.Sprintf("request %s joined a run, which ended with exit code %d", e.RequestID, e.ExitCode)
}

// Is makes the error an [ErrCoalesced].
func (e *CoalescedError) Is(target error) bool { return target == ErrCoalesced }

// Version1Error says that a call needs leasectl's own server. Nothing was sent. It is [ErrVersion1].
type Version1Error struct {
	Proxy string // the proxy's URLs, without passwords
	Needs string // what version 1 would ignore, such as "a key"
}

func (e *Version1Error) Error() string {
	return fmt.Sprintf("%s needs leasectl's own server, and %s is of version 1: nothing was sent", e.Needs, e.Proxy)
}

// Is makes the error an [ErrVersion1].
func (e *Version1Error) Is(target error) bool { return target == ErrVersion1 }

// StaleError says that a lease holds another number of units than the resize assumed, or
// was resized since.
type StaleError struct {
	Held int // units that the lease holds
}

func (e *StaleError) Error() string {
	return fmt.Sprintf("the lease holds %d units, which is not what its handle says", e.Held)
}

// EndedError says that a request id has ended, and never gets a lease again. It is
// [ErrEnded].
type EndedError struct {
	RequestID string
	// Unconfirmed: the request was granted, and the grant ended because no renewal
	// confirmed it in time. Nobody released or cancelled it.
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
	// Lost are the leases that the proxy reported as lost, or is about to release, with reasons. Empty:
	// the leases were not renewed in time, and the proxy reported nothing.
	Lost []leaseapi.Lost
	// Deadline is the earliest end of leases that were not renewed in time, or whose delayed release is
	// due; it may be in the future. Zero if the proxy reported the leases as lost.
	Deadline Instant
	Err      error // of the last failed renewal; nil: there was none
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

// Unwrap returns the error of the last failed renewal.
func (e *LostError) Unwrap() error { return e.Err }

// reworded is an error with a text of its own. It wraps err only for [errors.Is] and
// [errors.As], for example to say that a context ended.
type reworded struct {
	text string
	err  error
}

func (r *reworded) Error() string { return r.text }
func (r *reworded) Unwrap() error { return r.err }

// Outage returns the part of an error that says that the proxy did not answer, or answered
// only with errors; nil if the proxy answered.
func Outage(err error) error {
	if silent, ok := errors.AsType[*UnreachableError](err); ok {
		return silent
	}
	if failing, ok := errors.AsType[*FailingError](err); ok {
		return failing
	}
	return nil
}
