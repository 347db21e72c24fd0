package proxyserver

import (
	"cmp"
	"errors"
	"net/http"
	"time"

	"github.com/leasectl/leasectl/internal/pool"
	"github.com/leasectl/leasectl/leaseapi"
)

func (h *handler) serveResize(c caller, w http.ResponseWriter, r *http.Request) {
	var req leaseapi.ResizeRequest
	if !readJSON(w, r, &req, func() error { return checkResize(req) }) {
		return
	}
	var lease pool.Lease
	err := h.term().attempt(func(set *pool.Set, now time.Duration) (err error) {
		meant := leaseapi.Lease{Name: req.Name, Generation: req.Generation, RequestID: req.RequestID}
		if err = c.mayTouch(set, now, []leaseapi.Lease{meant}); err == nil {
			lease, err = c.resize(set, now, c.refTo(set, now, meant), req)
		}
		return err
	})
	if err != nil {
		h.refuseResize(w, req, lease, err)
		return
	}
	answer(w, http.StatusOK, leaseapi.ResizeReply{Units: lease.Units, Resizes: lease.Resizes})
}

func checkResize(req leaseapi.ResizeRequest) error {
	switch {
	case (req.Count == 0) == (req.Items == nil):
		return errors.New("want one of count and items")
	case req.Count < 0 || req.From < 0 || req.After != nil && *req.After < 0:
		return errors.New("count, from and after must not be negative")
	case req.Items != nil:
		if err := leaseapi.CheckItems(*req.Items); err != nil {
			return err
		}
	}
	return cmp.Or(leaseapi.CheckName(req.Name), checkLeases([]leaseapi.Lease{{Name: req.Name, Generation: req.Generation}}))
}

// resize does to the lease of ref what req asks for. With an error it returns the lease as it is.
func (c caller) resize(set *pool.Set, now time.Duration, ref pool.Ref, req leaseapi.ResizeRequest) (pool.Lease, error) {
	to := req.Count
	held, _ := set.Held(now, req.Name) // set.Resize reports a lease that nobody holds
	if req.Items != nil && !ref.Hidden {
		units, err := set.Units(pool.Request{Type: held.Type, Ask: pool.Ask{Items: *req.Items, HasItems: true, Weighted: true}})
		if err != nil && held.Generation == req.Generation {
			return held, err
		}
		to = units
	}
	if held.Generation == req.Generation && to > held.Units && !ref.Hidden {
		if err := c.mayKeep(held); err != nil {
			return held, err
		}
	}
	return set.Resize(now, ref, pool.Resizing{From: req.From, To: to, After: req.After})
}

// refuseResize answers a resize that changed no units of lease.
func (h *handler) refuseResize(w http.ResponseWriter, req leaseapi.ResizeRequest, lease pool.Lease, err error) {
	p := leaseapi.Problem{Status: http.StatusConflict, Detail: err.Error(), Held: lease.Units, Resizes: lease.Resizes}
	noRoom, _ := errors.AsType[*pool.NoRoomError](err)
	lost, _ := errors.AsType[*pool.LostError](err)
	switch {
	case noRoom != nil:
		p.Type, p.Need, p.Free, p.Held = leaseapi.ProblemNoRoom, noRoom.Need, noRoom.Free, noRoom.Held
		p.Keeps = noRoom.Reason
	case errors.Is(err, pool.ErrTooMany):
		p.Type, p.Status = leaseapi.ProblemTooMany, http.StatusBadRequest
	case errors.Is(err, pool.ErrStale):
		p.Type = leaseapi.ProblemStale
	case errors.Is(err, pool.ErrListed), errors.Is(err, pool.ErrNoCost), errors.Is(err, pool.ErrUnknownType):
		p.Type = leaseapi.ProblemNotCounted
	case lost != nil:
		p.Type, p.Status, p.Held, p.Resizes = leaseapi.ProblemLost, http.StatusGone, 0, 0
		p.Lost = []leaseapi.Lost{{Lease: leaseapi.Lease{Name: req.Name, Generation: req.Generation}, Reason: string(lost.Reason)}}
	default:
		h.refuseCall(w, err)
		return
	}
	h.metrics.Refused(lease.Type, resizeRefusals[p.Type])
	writeProblem(w, p)
}

// resizeRefusals are the words under which refused resizes count, by problem type.
var resizeRefusals = map[string]string{
	leaseapi.ProblemNoRoom:     "no-room",
	leaseapi.ProblemTooMany:    "too-many",
	leaseapi.ProblemStale:      "stale",
	leaseapi.ProblemNotCounted: "not-counted",
	leaseapi.ProblemLost:       "lost",
}
