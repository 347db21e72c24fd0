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
	holdTime = time.Minute // how long a part is held, from its first lease on
	minApart = 5 * time.Second
	maxApart = time.Minute
)

// errHeldTooLong says that a part was held for holdTime, and was given back.
var errHeldTooLong = errors.New("the leases did not come free together")

// together acquires the leases of a version-1 proxy one by one. parent is the
// caller's context, ctx the one that ends with the wait.
func (a *acquisition) together(parent, ctx context.Context) (*Grant, error) {
	a.oneByOne = true
	for {
		g, err := a.collect(parent, ctx)
		if !errors.Is(err, errHeldTooLong) || errors.Is(err, ErrUnconfirmed) {
			return g, err
		}
		left := Until(a.p.end)
		if left <= minApart {
			return nil, a.exhausted()
		}
		// Not beyond the end of the wait: its last moment is worth a try.
		apart := minApart + rand.N(min(maxApart, left)-minApart)
		if Sleep(ctx, apart) != nil {
			return nil, a.why(parent, outcome{})
		}
	}
}

// single is what a request for one lease came to.
type single struct {
	lease leaseapi.Lease
	asked Instant
	err   error
}

// collect gets all the leases, or gives back those that it got.
func (a *acquisition) collect(parent, ctx context.Context) (*Grant, error) {
	g := &Grant{RequestID: a.r.RequestID, Version1: true}
	var heldLong <-chan time.Time // from the first lease on
	for len(g.Leases) < a.r.Count {
		next := make(chan single, 1)
		go func() { next <- a.single(parent, ctx) }()
		var s single
		var late bool
		var stranded []string
		select {
		case s = <-next:
		case <-heldLong:
			// The request that is under way cannot be taken back. What is held
			// must not wait for it, and what it brings goes the same way.
			late, stranded = true, a.disband(parent, g.Leases)
			g.Leases = nil
			s = <-next
		}
		if s.err == nil && slices.Contains(g.Leases, s.lease) {
			s.err = fmt.Errorf("the proxy granted %q twice", s.lease.Name)
		} else if s.err == nil {
			g.Leases, g.Asked = append(g.Leases, s.lease), s.asked
		}
		if s.err == nil && late {
			s.err = errHeldTooLong
		}
		if s.err != nil {
			stranded = append(stranded, a.disband(parent, g.Leases)...)
			return nil, a.leave(s.err, stranded)
		}
		if heldLong == nil {
			heldLong = time.After(holdTime)
		}
	}
	return g, nil
}

// single acquires one lease.
func (a *acquisition) single(parent, ctx context.Context) single {
	o := a.exchange(ctx)
	switch a.found {
	case granted:
		g, err := a.accept(parent, o)
		if err != nil {
			return single{err: err}
		}
		return single{lease: g.Leases[0], asked: g.Asked}
	case refused:
		return single{err: a.refusal(o)}
	case unclear, queued:
		cause := o.err
		if cause == nil || ctx.Err() != nil {
			cause = a.why(parent, o)
		}
		return single{err: &UnconfirmedError{RequestID: a.r.RequestID, Type: a.r.Type, Count: 1, Err: cause}}
	}
	return single{err: a.why(parent, o)}
}

// disband gives leases back, and returns the names of those that it could not
// give back.
func (a *acquisition) disband(parent context.Context, leases []leaseapi.Lease) []string {
	names := Releasing(leases, "").Names
	reply, err := a.c.returnAll(parent, leaseapi.ReleaseRequest{Names: names})
	if err == nil {
		return nil
	}
	return without(names, reply.Released)
}

// leave returns err with the leases that nobody could give back.
func (a *acquisition) leave(err error, stranded []string) error {
	if len(stranded) == 0 {
		return err
	}
	u := &UnconfirmedError{RequestID: a.r.RequestID, Type: a.r.Type, Err: err}
	if prev, ok := errors.AsType[*UnconfirmedError](err); ok {
		*u = *prev
	}
	u.Names = append(u.Names, stranded...)
	return u
}
