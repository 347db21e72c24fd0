package proxyserver

import (
	"cmp"
	"errors"
	"net/http"
	"time"

	"github.com/leasectl/leasectl/internal/pool"
	"github.com/leasectl/leasectl/leaseapi"
)

func (h *handler) serveRemove(c caller, w http.ResponseWriter, r *http.Request) {
	var req leaseapi.RemoveRequest
	if !h.readOperation(c, "to remove a waiter", w, r, &req, func() error { return checkRemove(req) }) {
		return
	}
	reply, err := h.remove(c, req)
	if err != nil {
		h.refuseWaiter(w, req.RequestID, err)
		return
	}
	answer(w, http.StatusOK, reply)
}

func checkRemove(req leaseapi.RemoveRequest) error {
	return cmp.Or(leaseapi.CheckRequestID(req.RequestID), leaseapi.CheckOwner(req.Caller), checkReason(req.Reason))
}

// refuseWaiter answers a call about a request that is not known or does not wait.
func (h *handler) refuseWaiter(w http.ResponseWriter, id string, err error) {
	several, _ := errors.AsType[*pool.SeveralError](err)
	switch {
	case errors.Is(err, pool.ErrUnknownRequest):
		problem(w, http.StatusNotFound, leaseapi.ProblemUnknownRequest, "no request "+id+" is known")
	case several != nil:
		problem(w, http.StatusConflict, leaseapi.ProblemSeveral, err.Error())
	case errors.Is(err, pool.ErrNotQueued):
		problem(w, http.StatusConflict, leaseapi.ProblemNotQueued, err.Error())
	case errors.Is(err, pool.ErrEnded):
		problem(w, http.StatusGone, leaseapi.ProblemEnded, err.Error())
	default:
		h.refuseCall(w, err)
	}
}

// remove does what req asks for. A second copy of the request succeeds, too.
func (h *handler) remove(c caller, req leaseapi.RemoveRequest) (leaseapi.RemoveReply, error) {
	var removed pool.Request // zero: an earlier copy of req removed it
	t := h.term()
	err := t.attempt(func(set *pool.Set, now time.Duration) (err error) {
		id, err := c.mayOperateOnWaiter(set, now, req.RequestID, req.Caller)
		if err != nil {
			return err
		}
		removed, err = set.Remove(now, id, c.act(req.Reason))
		if already, ok := errors.AsType[*pool.RemovedError](err); ok && already.Reason == req.Reason {
			return nil
		}
		return err
	})
	if err == nil && removed.ID == "" { // perhaps another server removed it, and died before it logged that
		h.log.Info("removed", c.by(), "request_id", req.RequestID, "reason", req.Reason)
	}
	token, owner := pool.SplitOwner(removed.Owner)
	return leaseapi.RemoveReply{RequestID: req.RequestID, Type: removed.Type, Owner: owner, Token: token, Count: removed.Count}, err
}
