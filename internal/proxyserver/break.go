package proxyserver

import (
	"errors"
	"fmt"
	"net/http"
	"time"

	"github.com/leasectl/leasectl/internal/pool"
	"github.com/leasectl/leasectl/leaseapi"
)

func (h *handler) serveBreak(c caller, w http.ResponseWriter, r *http.Request) {
	var req leaseapi.BreakRequest
	if !h.readOperation(c, "to break a lease", w, r, &req, func() error { return checkBreak(req) }) {
		return
	}
	reply, err := h.breakLease(c, req)
	notHeld, isNotHeld := errors.AsType[notHeldError](err)
	switch {
	case err == nil:
		answer(w, http.StatusOK, reply)
	case errors.Is(err, pool.ErrUnknownName):
		problem(w, http.StatusNotFound, leaseapi.ProblemUnknownName, fmt.Sprintf("the server has never had a lease %q", leaseapi.Shorten(req.Name)))
	case isNotHeld:
		problem(w, http.StatusConflict, leaseapi.ProblemNotHeld, string(notHeld))
	default:
		h.refuseCall(w, err)
	}
}

// notHeldError says that nobody holds the lease to break.
type notHeldError string

func (e notHeldError) Error() string { return string(e) }

// breakLease does what req asks for.
func (h *handler) breakLease(c caller, req leaseapi.BreakRequest) (leaseapi.BreakReply, error) {
	var l pool.Lease
	var ended bool
	var locked pool.Locked // the lock delay that keeps the name; zero: none does
	t := h.term()
	err := t.attempt(func(set *pool.Set, now time.Duration) (err error) {
		if c.hides(set, now, req.Name) {
			return pool.ErrUnknownName
		}
		if held, ok := set.Held(now, req.Name); ok {
			if err := c.mayOperateOn(held.Type); err != nil {
				return err
			}
		}
		l, ended, err = breakOrFind(set, now, c, req)
		locked, _ = set.Locked(now, req.Name)
		return err
	})
	if err != nil {
		return leaseapi.BreakReply{}, err
	}
	reply := leaseapi.BreakReply{Lease: poolLease(t.clock, l, false), Ended: ended}
	if ended && locked.Until > 0 {
		reply.FreeIn = leaseapi.Duration(round(max(0, t.clock.until(locked.Until))))
		reply.FreeAt = t.clock.wall(locked.Until)
	}
	return reply, nil
}

func checkBreak(req leaseapi.BreakRequest) error {
	if req.Name == "" {
		return errors.New("name is empty")
	}
	return checkReason(req.Reason)
}

// breakOrFind breaks the lease that req means. A second copy of req succeeds too: it
// finds that the lease has ended for this reason.
func breakOrFind(set *pool.Set, now time.Duration, c caller, req leaseapi.BreakRequest) (l pool.Lease, ended bool, err error) {
	if held, ok := set.Held(now, req.Name); !ok || req.Generation == 0 || req.Generation == held.Generation {
		l, err = set.Break(now, req.Name, c.act(req.Reason), req.Now)
		if !errors.Is(err, pool.ErrNotHeld) {
			return l, req.Now, err
		}
	}
	if req.Generation == 0 {
		return l, false, notHeldError(fmt.Sprintf("nobody holds %q", req.Name))
	}
	why, _ := set.Lost(now, pool.Ref{Name: req.Name, Generation: req.Generation})
	if why == leaseapi.ReasonBroken+pool.Reason(req.Reason) {
		return pool.Lease{Name: req.Name, Generation: req.Generation, Granted: now, Expires: now, Broken: req.Reason}, true, nil
	}
	return l, false, notHeldError(fmt.Sprintf("the lease of %q with generation %d has ended (%s)", req.Name, req.Generation, why))
}
