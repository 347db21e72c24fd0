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
// part could wait for each other for ever. Hence a part is given back after a
// while, and tried again after a time that differs from client to client.
const (
	holdTime   = time.Minute // how long a part is held, from its first lease on
	minBackoff = 5 * time.Second
	maxBackoff = time.Minute
)

// errHeldTooLong says that a part was held for holdTime, and was given back.
var errHeldTooLong = errors.New("the leases did not come free together")

// acquireEach acquires the leases of a version-1 proxy one by one. ctx is the
// caller's, wait the one that ends with the wait.
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
		// Not beyond the end of the wait: its last moment is worth a try.
		backoff := minBackoff + rand.N(min(maxBackoff, left)-minBackoff)
		if Sleep(wait, backoff) != nil {
			return nil, a.why(ctx, outcome{})
		}
	}
}

// single is what the request for one lease of several came to.
type single struct {
	lease leaseapi.Lease
	asked Instant
	err   error
	cut   bool // by the end of the wait, before there was an answer
}

// collect gets all the leases, or gives back those that it got.
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

// endPart gives a part back because the request for the next lease failed, as s says.
func (a *acquisition) endPart(ctx context.Context, part []leaseapi.Lease, s single) error {
	if s.cut && len(part) > 0 {
		// What is given back now may be granted to that request, if the proxy has not
		// noticed yet that its connection is closed.
		s.err = a.unknownGrant(s.err)
	}
	return a.withStranded(s.err, a.releasePart(ctx, part))
}

// endLongPart gives a part back because it was held for too long. The request for the next
// lease cannot be taken back. The part does not wait for it, and the lease that it brings
// is given back too.
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
	case identify, resume: // a request without an id cannot be asked about
		cause := o.err
		if cause == nil || wait.Err() != nil {
			cause = a.why(ctx, o)
		}
		if o.cut {
			return single{err: cause, cut: true}
		}
		return single{err: a.unknownGrant(cause)}
	}
	return single{err: a.why(ctx, o)} // patience is at its end
}

// releasePart gives leases back, and returns the names of those that it could
// not give back.
func (a *acquisition) releasePart(ctx context.Context, leases []leaseapi.Lease) (stranded []string) {
	names := Releasing(leases, "").Names
	reply, err := a.client.giveBack(ctx, leaseapi.ReleaseRequest{Names: names})
	if err == nil {
		return nil
	}
	return without(names, reply.Released)
}

// withStranded returns err together with the names of leases that could not be
// given back.
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
