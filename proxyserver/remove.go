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
	var removed pool.Request
	var failed error
	err := h.term().do(func(set *pool.Set, now time.Duration) {
		removed, failed = set.Remove(now, req.RequestID, req.Reason)
	})
	already, _ := errors.AsType[*pool.RemovedError](failed)
	switch {
	case err != nil:
		unavailable(w, err)
	case errors.Is(failed, pool.ErrUnknownRequest):
		problem(w, http.StatusNotFound, leaseapi.ProblemUnknownRequest, "no request "+req.RequestID+" is known")
	case errors.Is(failed, pool.ErrNotQueued):
		problem(w, http.StatusConflict, leaseapi.ProblemNotQueued, failed.Error())
	case failed != nil && (already == nil || already.Reason != req.Reason):
		problem(w, http.StatusGone, leaseapi.ProblemEnded, failed.Error())
	default: // a second copy of the request succeeds, too
		token, owner := splitHolder(removed.Owner)
		h.logOperation(c, "remove", "request_id", req.RequestID, "reason", req.Reason)
		answer(w, http.StatusOK, leaseapi.RemoveReply{
			RequestID: req.RequestID, Type: removed.Type, Owner: owner, Token: token, Count: removed.Count,
		})
	}
}
