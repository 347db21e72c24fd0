package proxyserver

import (
	"net/http"
	"time"

	"github.com/leasectl/leasectl/leaseapi"
	"github.com/leasectl/leasectl/pool"
)

func (h *handler) serveMove(c caller, w http.ResponseWriter, r *http.Request) {
	var req leaseapi.MoveRequest
	check := func() error {
		if err := leaseapi.CheckRequestID(req.RequestID); err != nil {
			return err
		}
		if err := leaseapi.CheckPriority(req.Priority); err != nil {
			return err
		}
		return checkReason(req.Reason)
	}
	if !h.readOperation(c, "to move a waiter", w, r, &req, check) {
		return
	}
	reply, err := h.move(c, req)
	if err != nil {
		h.refuseWaiter(w, req.RequestID, err)
		return
	}
	answer(w, http.StatusOK, reply)
}

// move does what req asks for. A second copy of the request succeeds, too.
func (h *handler) move(c caller, req leaseapi.MoveRequest) (leaseapi.MoveReply, error) {
	reply := leaseapi.MoveReply{RequestID: req.RequestID, Priority: req.Priority}
	err := h.term().attempt(func(set *pool.Set, now time.Duration) error {
		if q, _, ok := set.Request(now, req.RequestID); ok {
			if err := c.mayOperateOn(q.Type); err != nil {
				return err
			}
		}
		moved, before, err := set.Move(now, req.RequestID, req.Priority, c.act(req.Reason))
		if err != nil {
			return err
		}
		reply.Type, reply.Before = moved.Type, before
		reply.Token, reply.Owner = pool.SplitOwner(moved.Owner)
		if at, waits := set.Place(now, req.RequestID); waits && at.Place > 0 {
			reply.Place, reply.Length = at.Place, at.Length
		}
		return nil
	})
	return reply, err
}
