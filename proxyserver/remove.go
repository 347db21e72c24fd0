package proxyserver

import (
	"errors"
	"net/http"
	"time"

	"github.com/leasectl/leasectl/leaseapi"
	"github.com/leasectl/leasectl/pool"
)

func (h *handler) serveRemove(c caller, w http.ResponseWriter, r *http.Request) {
	var req leaseapi.RemoveRequest
	check := func() error {
		if err := leaseapi.CheckRequestID(req.RequestID); err != nil {
			return err
		}
		return checkReason(req.Reason)
	}
	if !h.readOperation(c, "to remove a waiter", w, r, &req, check) {
		return
	}
	reply, failed, err := h.remove(c, req)
	switch {
	case err != nil:
		unavailable(w, err)
	case errors.Is(failed, pool.ErrUnknownRequest):
		problem(w, http.StatusNotFound, leaseapi.ProblemUnknownRequest, "no request "+req.RequestID+" is known")
	case errors.Is(failed, pool.ErrNotQueued):
		problem(w, http.StatusConflict, leaseapi.ProblemNotQueued, failed.Error())
	case failed != nil:
		problem(w, http.StatusGone, leaseapi.ProblemEnded, failed.Error())
	default:
		answer(w, http.StatusOK, reply)
	}
}

// remove does what req asks for, and notes who did it. A second copy of the request
// succeeds, too. failed is why nothing was done; err is the term's.
func (h *handler) remove(c caller, req leaseapi.RemoveRequest) (reply leaseapi.RemoveReply, failed, err error) {
	var removed pool.Request // zero: an earlier copy of req removed it
	err = h.term().do(func(set *pool.Set, now time.Duration) {
		removed, failed = set.Remove(now, req.RequestID, req.Reason)
	})
	if already, ok := errors.AsType[*pool.RemovedError](failed); ok && already.Reason == req.Reason {
		failed = nil
	}
	if err == nil && failed == nil {
		h.logOperation(c, "remove", "request_id", req.RequestID, "reason", req.Reason)
	}
	token, owner := pool.SplitOwner(removed.Owner)
	reply = leaseapi.RemoveReply{RequestID: req.RequestID, Type: removed.Type, Owner: owner, Token: token, Count: removed.Count}
	return reply, failed, err
}
