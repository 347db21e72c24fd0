package proxyclient

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"slices"
	"time"

	"github.com/leasectl/leasectl/leaseapi"
)

// A version-1 proxy grants counts in parts, so two clients that each hold a
// part could wait for each other for ever. Hence a client gives its part back after
// holdTime, and tries again after a random backoff.
const (
	holdTime   = time.Minute // how long a part is held, from its first lease on
	minBackoff = 5 * time.Second
	maxBackoff = time.Minute
)

// errHeldTooLong says that a part was given back after holdTime.
var errHeldTooLong = errors.New("the leases did not come free together")

// acquireEach acquires the leases of a version-1 proxy one by one. ctx is the
// caller's context, wait the one of waitContext.
func (a *acquisition) acquireEach(ctx, wait context.Context) (*Grant, error) {
	a.oneByOne = true
	for {
		g, err := a.collect(ctx, wait)
		if !errors.Is(err, errHeldTooLong) || errors.Is(err, ErrUnconfirmed) {
			return g, err
		}
		left := Until(a.patience.end)
		if left <= minBackoff {
			return nil, a.exhausted()
		}
		// The backoff ends within the wait, so that there is another try.
		backoff := minBackoff + rand.N(min(maxBackoff, left)-minBackoff)
		if Sleep(wait, backoff) != nil {
			return nil, a.why(ctx, outcome{})
		}
	}
}

// single is the result of the request for one lease of several.
type single struct {
	lease leaseapi.Lease
	asked Instant
	err   error
	cut   bool // the wait ended before there was an answer
}

// collect gets all leases. If it fails, it gives back the leases that it got.
func (a *acquisition) collect(ctx, wait context.Context) (*Grant, error) {
	g := &Grant{RequestID: a.request.RequestID}
	var heldLong <-chan time.Time // from the first lease on
	for len(g.Leases) < a.request.count() {
		next := make(chan single, 1)
		go func() { next <- a.acquireOne(ctx, wait) }()
		select {
		case s := <-next:
			if s.err == nil && slices.Contains(g.Leases, s.lease) {
				s.err = fmt.Errorf("the proxy granted %q twice", s.lease.Name)
			}
			if s.err != nil {
				return nil, a.endPart(ctx, g.Leases, s)
			}
			g.Leases, g.Asked = append(g.Leases, s.lease), s.asked
		case <-heldLong:
			return nil, a.endLongPart(ctx, g.Leases, next)
		}
		if heldLong == nil {
			heldLong = time.After(holdTime)
		}
	}
	g.Capabilities = CapabilitiesOf(g.Leases)
	return g, nil
}

// endPart gives a part back because s, the request for the next lease, failed.
func (a *acquisition) endPart(ctx context.Context, part []leaseapi.Lease, s single) error {
	if s.cut && len(part) > 0 {
		// The proxy may not have noticed yet that the connection of the cut request is
		// closed. It may then grant that request the lease that is given back here.
		s.err = a.unknownGrant(s.err)
	}
	return a.withStranded(s.err, a.releasePart(ctx, part))
}

// endLongPart gives a part back because it was held for too long. The request for the next
// lease cannot be taken back, so endLongPart waits for it, after it has released the
// part, and gives its lease back too.
func (a *acquisition) endLongPart(ctx context.Context, part []leaseapi.Lease, next <-chan single) error {
	stranded := a.releasePart(ctx, part)
	s := <-next
	if s.err == nil {
		stranded = append(stranded, a.releasePart(ctx, []leaseapi.Lease{s.lease})...)
		s.err = errHeldTooLong
	}
	return a.withStranded(s.err, stranded)
}

// acquireOne acquires one lease.
func (a *acquisition) acquireOne(ctx, wait context.Context) single {
	o := a.send(wait)
	switch a.next() {
	case accept:
		g, err := a.handOver(ctx, o)
		if err != nil {
			return single{err: err}
		}
		return single{lease: g.Leases[0], asked: g.Asked}
	case fail:
		return single{err: a.refusal(ctx, o)}
	case identify, resume: // neither is possible for a request without an id
		cause := o.err
		if cause == nil || wait.Err() != nil {
			cause = a.why(ctx, o)
		}
		if o.cut {
			return single{err: cause, cut: true}
		}
		return single{err: a.unknownGrant(cause)}
	}
	return single{err: a.why(ctx, o)} // send's patience ran out
}

// releasePart gives leases back, and returns the names that it could not give back.
func (a *acquisition) releasePart(ctx context.Context, leases []leaseapi.Lease) (stranded []string) {
	names := Releasing(leases, "").Names
	reply, err := a.client.giveBack(ctx, leaseapi.ReleaseRequest{Names: names})
	if err == nil {
		return nil
	}
	return without(names, reply.Released)
}

// withStranded returns err, as an [UnconfirmedError] with the names of leases that could
// not be given back, if there are any.
func (a *acquisition) withStranded(err error, stranded []string) error {
	if len(stranded) == 0 {
		return err
	}
	u := &UnconfirmedError{RequestID: a.request.RequestID, Type: a.request.Type, Err: err}
	if prev, ok := errors.AsType[*UnconfirmedError](err); ok {
		*u = *prev
	}
	u.Names = append(u.Names, stranded...)
	return u
}
