package proxyserver

import (
	"errors"
	"fmt"
	"net/http"
	"slices"
	"time"

	"github.com/leasectl/leasectl/internal/pool"
	"github.com/leasectl/leasectl/internal/proxyserver/auth"
	"github.com/leasectl/leasectl/leaseapi"
)

// caller is the sender of a request. On a server that asks for no tokens it is everybody. It has a
// pointer, since copies of what is known of a caller, in each frame below that of net/http, would
// double the stack of a waiter.
type caller struct {
	*auth.Caller
	id string // of the owners that are bound to it; empty: the server asks for no tokens
}

// everybody is a caller that has shown nothing, and may do everything.
var everybody = caller{Caller: new(auth.Caller)}

func callerOf(c auth.Caller) caller { return caller{&c, c.ID()} }

// admin reports whether c is an operator.
func (c caller) admin() bool { return c.Role == auth.RoleAdmin }

// mayAcquire returns an error if c may not make the request that p describes, with what it may.
func (c caller) mayAcquire(p *acquireParams) error {
	for _, typ := range p.Types() {
		if err := c.CheckPool(typ); err != nil {
			return forbid(err)
		}
	}
	switch {
	case c.id == "":
		return nil
	case p.Overcommit:
		if err := c.CheckOvercommit(); err != nil {
			return forbid(err)
		}
	}
	return forbid(c.CheckPriority(p.Priority))
}

// forbid makes an error, if there is one, a refusal of what a caller wants.
func forbid(err error) error {
	if err == nil {
		return nil
	}
	return forbiddenError(err.Error())
}

// mayOperate returns an error if c may not do what, which takes an operator.
func (c caller) mayOperate(what string) error {
	if c.id == "" || c.admin() {
		return nil
	}
	return forbiddenError(what + " takes a token that is marked admin")
}

// mayOperateOn returns an error if c, an operator, may not do so in the pool of a type.
func (c caller) mayOperateOn(typ string) error { return forbid(c.CheckPool(typ)) }

// mayOperateOnWaiter returns the id in the pools of a request that c, an operator, means by an id and
// the name of a caller, which may be empty; or an error if c may not operate on it.
func (c caller) mayOperateOnWaiter(set *pool.Set, now time.Duration, id, by string) (string, error) {
	one, err := c.seenRequest(set, now, id, by)
	if err != nil {
		return "", err
	}
	if slices.ContainsFunc(one.Types, func(typ string) bool { return !c.MayUse(typ) }) {
		return "", forbiddenError("request " + id + " waits for another pool too, which " + c.Name + " may not use")
	}
	return one.ID, nil
}

// mayOperateOnAll returns an error if c may not do what, which concerns all pools.
func (c caller) mayOperateOnAll(what string) error {
	if c.Pools == nil {
		return nil
	}
	return forbiddenError(what + " takes a token without pools: it concerns all of them")
}

// mayReserve returns an error if c may not take a name out of the pool of a type, or give it back.
func (c caller) mayReserve(typ string) error {
	if err := c.mayOperate("to reserve a name, or to give it back,"); err != nil {
		return err
	}
	return c.mayOperateOn(typ)
}

// may reports whether c may act on a lease or request of a type and a holder, an owner as the
// pools know it. It may if it acquired the lease, or if the lease was acquired while the server
// asked for no tokens.
func (c caller) may(typ, holder string) bool {
	by := pool.CallerOf(holder)
	return c.id == "" || by == c.id || by == "" && c.MayUse(typ)
}

// sees reports whether c may know of a request or lease of a type and a holder.
func (c caller) sees(typ, holder string) bool {
	return c.MayUse(typ) || c.may(typ, holder)
}

// hides reports whether c may not know of a name: the name is of a pool that c does not see, and c does
// not hold it. It is answered like a name that never was, so that nobody finds out by asking.
func (c caller) hides(set *pool.Set, now time.Duration, name string) bool {
	if c.Pools == nil {
		return false
	}
	if l, held := set.Held(now, name); held {
		return !c.sees(l.Type, l.Owner)
	}
	typ, known := set.PoolOf(name)
	return known && !c.MayUse(typ)
}

// ownRequest returns the id in the pools of the request that c calls id: its own. If it has none of that
// id, it is one from before the server asked for tokens, if c may act on that; and on a server that asks
// for none, that of any caller. Another caller's is to it like one that never was.
func (c caller) ownRequest(set *pool.Set, now time.Duration, id string) string {
	own := pool.BindID(c.id, id)
	if set.Known(now, own) {
		return own
	}
	for _, other := range set.Called(now, id) {
		bound := pool.CallerOf(other.ID) != ""
		if c.id == "" || !bound && other.Types != nil && !slices.ContainsFunc(other.Types, func(typ string) bool { return !c.may(typ, other.Owner) }) {
			return other.ID
		}
	}
	return own
}

// seenRequest returns the request that c means by an id, and by the name of a caller, which may be
// empty: a job its own, others one of the pools that they see. An error of [pool.One] says why there is
// not one.
func (c caller) seenRequest(set *pool.Set, now time.Duration, id, by string) (pool.Called, error) {
	called := set.Called(now, id)
	hidden := func(q pool.Called) bool {
		return c.Pools != nil && !slices.ContainsFunc(q.Types, func(typ string) bool { return c.sees(typ, q.Owner) })
	}
	if c.id != "" && c.Role == auth.RoleJob {
		own := c.ownRequest(set, now, id)
		hidden = func(q pool.Called) bool { return q.ID != own }
	}
	return pool.One(slices.DeleteFunc(called, hidden), by)
}

// refTo returns what c means by a lease.
func (c caller) refTo(set *pool.Set, now time.Duration, l leaseapi.Lease) pool.Ref {
	return pool.Ref{Name: l.Name, Generation: l.Generation, Request: l.RequestID, Hidden: c.hides(set, now, l.Name)}
}

// reasonTo returns why a request waits, without what is about another pool if c may not see that.
func (c caller) reasonTo(r leaseapi.WaitReason) leaseapi.WaitReason {
	switch {
	case r.Type == "" || c.MayUse(r.Type):
	case r.Kind == leaseapi.WaitCircle:
		r.Type = ""
	default:
		r = leaseapi.WaitReason{Kind: leaseapi.WaitElsewhere}
	}
	return r
}

// forbiddenError says why a caller may not make a call. It is answered with 403.
type forbiddenError string

func (e forbiddenError) Error() string { return string(e) }

// mayRelease returns an error if c may not do all of req. It runs before any of req is done.
func (c caller) mayRelease(set *pool.Set, now time.Duration, req *leaseapi.ReleaseRequest) error {
	if c.id == "" {
		return nil
	}
	for _, name := range req.Names {
		if c.hides(set, now, name) {
			continue
		}
		if r, is := reservedBy(set, now, name, req.Owner); is {
			if err := c.mayReserve(r.Type); err != nil {
				return err
			}
			continue
		}
		l, held := set.Held(now, name)
		_, owner := pool.SplitOwner(l.Owner)
		// If another owner than the given one holds the name, the name is stale, not
		// forbidden: its former holder may not know yet that the lease ended.
		if held && !c.may(l.Type, l.Owner) && (req.Owner == "" || req.Owner == owner) {
			return forbiddenLease(name)
		}
	}
	return c.mayTouch(set, now, req.Leases)
}

// owns returns a function that reports whether a holder is owner, bound to c. If c may use all
// pools, it is also an owner that is bound to no caller.
func (c caller) owns(owner string) func(holder string) bool {
	return func(holder string) bool {
		_, of := pool.SplitOwner(holder)
		by := pool.CallerOf(holder)
		return of == owner && (c.id == "" || by == c.id || by == "" && c.Pools == nil)
	}
}

// mayTouch returns an error that names the first of leases, by name and generation, that
// another caller holds. A lease that has ended belongs to nobody, and a hidden one is not there.
func (c caller) mayTouch(set *pool.Set, now time.Duration, leases []leaseapi.Lease) error {
	for _, l := range leases {
		held, ok := set.Held(now, l.Name)
		if ok && held.Generation == l.Generation && c.sees(held.Type, held.Owner) && !c.may(held.Type, held.Owner) {
			return forbiddenLease(l.Name)
		}
	}
	return nil
}

// mayKeep returns an error if c may not hold l for longer, or more of it: as an acquire, that takes the right
// to its pool.
func (c caller) mayKeep(l pool.Lease) error { return forbid(c.CheckPool(l.Type)) }

// mayRenew returns an error that names the first of leases that c may not hold for longer, or not touch.
func (c caller) mayRenew(set *pool.Set, now time.Duration, leases []leaseapi.Lease) error {
	if err := c.mayTouch(set, now, leases); err != nil {
		return err
	}
	for _, l := range leases {
		held, ok := set.Held(now, l.Name)
		if ok && held.Generation == l.Generation && !c.hides(set, now, l.Name) {
			if err := c.mayKeep(held); err != nil {
				return err
			}
		}
	}
	return nil
}

func forbiddenLease(name string) error {
	return forbiddenError(fmt.Sprintf("lease %q was acquired by another caller", name))
}

// refOf returns what c means by a bare name: the lease of that name, or, if an owner is
// given, only a lease of that owner.
func (c caller) refOf(set *pool.Set, now time.Duration, name, owner string) pool.Ref {
	if owner == "" || c.hides(set, now, name) {
		return c.refTo(set, now, leaseapi.Lease{Name: name})
	}
	if r, is := reservedBy(set, now, name, owner); is {
		return pool.Ref{Name: name, Owner: r.Owner} // mayRelease has seen to who may do so
	}
	l, _ := set.Held(now, name)
	// mayRelease has refused a lease of another caller.
	return pool.Ref{Name: name, Owner: pool.BindOwner(pool.CallerOf(l.Owner), owner)}
}

// reservedBy returns the reservation that a bare name means with an owner: that of the owner, unless
// the owner has the lease of the name.
func reservedBy(set *pool.Set, now time.Duration, name, owner string) (r pool.Reserved, is bool) {
	if owner == "" {
		return pool.Reserved{}, false
	}
	if r, is = set.Reserved(now, name); !is {
		return pool.Reserved{}, false
	}
	of := func(bound string) bool {
		_, plain := pool.SplitOwner(bound)
		return plain == owner
	}
	l, held := set.Held(now, name)
	return r, of(r.Owner) && !(held && of(l.Owner))
}

// refuseCall answers a call that is forbidden, or that the term refused.
func (h *handler) refuseCall(w http.ResponseWriter, err error) {
	if f, ok := errors.AsType[forbiddenError](err); ok {
		h.metrics.Refused("", "forbidden")
		problem(w, http.StatusForbidden, leaseapi.ProblemForbidden, string(f))
		return
	}
	unavailable(w, err)
}
