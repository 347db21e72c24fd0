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
	removed, failed, err := h.remove(c, req)
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
		token, owner := splitHolder(removed.Owner)
		answer(w, http.StatusOK, leaseapi.RemoveReply{
			RequestID: req.RequestID, Type: removed.Type, Owner: owner, Token: token, Count: removed.Count,
		})
	}
}

// remove does what req asks for, and notes who did it. A second copy of the request
// succeeds, too, with an empty request. failed is why nothing was done; err is the
// term's.
func (h *handler) remove(c caller, req leaseapi.RemoveRequest) (removed pool.Request, failed, err error) {
	err = h.term().do(func(set *pool.Set, now time.Duration) {
		removed, failed = set.Remove(now, req.RequestID, req.Reason)
	})
	if already, ok := errors.AsType[*pool.RemovedError](failed); ok && already.Reason == req.Reason {
		failed = nil
	}
	if err == nil && failed == nil {
		h.logOperation(c, "remove", "request_id", req.RequestID, "reason", req.Reason)
	}
	return removed, failed, err
}
