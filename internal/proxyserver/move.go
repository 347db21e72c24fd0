package proxyserver

import (
	"cmp"
	"net/http"
	"time"

	"github.com/leasectl/leasectl/internal/pool"
	"github.com/leasectl/leasectl/leaseapi"
)

func (h *handler) serveMove(c caller, w http.ResponseWriter, r *http.Request) {
	var req leaseapi.MoveRequest
	if !h.readOperation(c, "to move a waiter", w, r, &req, func() error { return checkMove(req) }) {
		return
	}
	reply, err := h.move(c, req)
	if err != nil {
		h.refuseWaiter(w, req.RequestID, err)
		return
	}
	answer(w, http.StatusOK, reply)
}

func checkMove(req leaseapi.MoveRequest) error {
	return cmp.Or(leaseapi.CheckRequestID(req.RequestID), leaseapi.CheckOwner(req.Caller), leaseapi.CheckPriority(req.Priority), checkReason(req.Reason))
}

// move does what req asks for. A second copy of the request succeeds, too.
func (h *handler) move(c caller, req leaseapi.MoveRequest) (leaseapi.MoveReply, error) {
	reply := leaseapi.MoveReply{RequestID: req.RequestID, Priority: req.Priority}
	err := h.term().attempt(func(set *pool.Set, now time.Duration) error {
		id, err := c.mayOperateOnWaiter(set, now, req.RequestID, req.Caller)
		if err != nil {
			return err
		}
		moved, before, err := set.Move(now, id, req.Priority, c.act(req.Reason))
		if err != nil {
			return err
		}
		reply.Type, reply.Before = moved.Type, before
		reply.Token, reply.Owner = pool.SplitOwner(moved.Owner)
		if at, waits := set.Place(now, id); waits && at.Place > 0 {
			reply.Place, reply.Length = at.Place, at.Length
		}
		return nil
	})
	return reply, err
}
