package proxyserver

import (
	"errors"
	"fmt"
	"net/http"
	"time"

	"github.com/leasectl/leasectl/leaseapi"
	"github.com/leasectl/leasectl/pool"
	"github.com/leasectl/leasectl/proxyserver/config"
)

// caller is the sender of a request. On a server that asks for no tokens it is the
// zero caller, which may do everything.
type caller struct {
	token  string // its name; empty: no tokens are in use
	admin  bool
	reader bool // it may look, and change nothing
	// maxPriority is the highest priority that it may ask for, if it has a token.
	maxPriority int
}

// admit returns the sender of r. Without a valid token it answers r, and ok is
// false.
func (h *handler) admit(w http.ResponseWriter, r *http.Request) (c caller, ok bool) {
	c, ok = h.identify(r)
	if !ok {
		h.metrics.Refused("", "unauthorized")
		w.Header().Set("WWW-Authenticate", `Bearer realm="leases"`) // RFC 9110, section 11.6.1
		problem(w, http.StatusUnauthorized, leaseapi.ProblemUnauthorized, "a token that the server knows is needed")
	}
	return c, ok
}

// asksForTokens reports whether calls need a token.
func (h *handler) asksForTokens() bool { return *h.tokens.Load() != nil }

func (h *handler) identify(r *http.Request) (caller, bool) {
	tokens := *h.tokens.Load()
	if tokens == nil {
		return caller{}, true
	}
	t, ok := tokens.Find(r.Header.Get("Authorization"))
	return callerOf(t), ok
}

func callerOf(t config.Token) caller {
	return caller{token: t.Name, admin: t.Role == config.RoleAdmin, reader: t.Role == config.RoleRead}
}

// mayOperate returns an error if c may not do what, which takes an operator.
func (c caller) mayOperate(what string) error {
	if c.token == "" || c.admin {
		return nil
	}
	return forbiddenError(what + " takes a token that is marked admin")
}

// mayAsk returns an error if c may not ask for a lease with a priority.
func (c caller) mayAsk(priority int) error {
	if c.token == "" || priority <= c.maxPriority {
		return nil
	}
	return forbiddenError(fmt.Sprintf("priority %d is more than this token may ask for: it may ask for %d at the most", priority, c.maxPriority))
}

// may reports whether c may act on a lease or request of holder, an owner as the pools know
// it. It may if the lease was acquired with a token of the same name, or while the server
// asked for no tokens.
func (c caller) may(holder string) bool {
	token, _ := pool.SplitOwner(holder)
	return c.token == "" || token == "" || token == c.token
}

// forbiddenError says why a caller may not make a call. It is answered with 403.
type forbiddenError string

func (e forbiddenError) Error() string { return string(e) }

// mayRelease returns an error if c may not do all of req. It runs before any of req is done.
func (c caller) mayRelease(set *pool.Set, now time.Duration, req *leaseapi.ReleaseRequest) error {
	if c.token == "" {
		return nil
	}
	for _, id := range req.RequestIDs {
		if q, _, known := set.Request(now, id); known && !c.may(q.Owner) {
			return forbiddenError(fmt.Sprintf("request %q was made with another token", id))
		}
	}
	for _, name := range req.Names {
		l, held := set.Held(now, name)
		_, owner := pool.SplitOwner(l.Owner)
		// If another owner than the given one holds the name, the name is stale, not
		// forbidden: its former holder may not know yet that the lease ended.
		if held && !c.may(l.Owner) && (req.Owner == "" || req.Owner == owner) {
			return forbiddenLease(name)
		}
	}
	return c.mayTouch(set, now, req.Leases)
}

// owns returns a function that reports whether a holder is owner, under a token that c may
// act for.
func (c caller) owns(owner string) func(holder string) bool {
	return func(holder string) bool {
		_, of := pool.SplitOwner(holder)
		return of == owner && c.may(holder)
	}
}

// mayTouch returns an error that names the first of leases, by name and generation, that
// another token holds. A lease that has ended belongs to no token.
func (c caller) mayTouch(set *pool.Set, now time.Duration, leases []leaseapi.Lease) error {
	for _, l := range leases {
		held, ok := set.Held(now, l.Name)
		if ok && held.Generation == l.Generation && !c.may(held.Owner) {
			return forbiddenLease(l.Name)
		}
	}
	return nil
}

func forbiddenLease(name string) error {
	return forbiddenError(fmt.Sprintf("lease %q was acquired with another token", name))
}

// refOf returns what a bare name means: the lease of that name, or, if an owner is
// given, only a lease of that owner.
func refOf(set *pool.Set, now time.Duration, name, owner string) pool.Ref {
	if owner == "" {
		return pool.Ref{Name: name}
	}
	l, _ := set.Held(now, name)
	token, _ := pool.SplitOwner(l.Owner) // mayRelease has refused a lease of another token
	return pool.Ref{Name: name, Owner: pool.BindOwner(token, owner)}
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
