package proxyserver

import (
	"cmp"
	"errors"
	"fmt"
	"net/http"
	"time"

	"github.com/leasectl/leasectl/internal/pool"
	"github.com/leasectl/leasectl/leaseapi"
)

func (h *handler) serveReserve(c caller, w http.ResponseWriter, r *http.Request) {
	var req leaseapi.ReserveRequest
	if !h.readOperation(c, "to reserve a name", w, r, &req, func() error { return checkReserve(req) }) {
		return
	}
	reply, err := h.reserve(c, req)
	reserved, isReserved := errors.AsType[reservedError](err)
	switch {
	case err == nil:
		answer(w, http.StatusOK, reply)
	case errors.Is(err, pool.ErrUnknownName):
		problem(w, http.StatusNotFound, leaseapi.ProblemUnknownName, fmt.Sprintf("no pool has a name %q", leaseapi.Shorten(req.Name)))
	case errors.Is(err, pool.ErrMadeUp):
		problem(w, http.StatusNotFound, leaseapi.ProblemUnknownName, fmt.Sprintf("%q cannot be reserved: %v", leaseapi.Shorten(req.Name), err))
	case isReserved:
		problem(w, http.StatusConflict, leaseapi.ProblemReserved, string(reserved))
	default:
		h.refuseCall(w, err)
	}
}

func checkReserve(req leaseapi.ReserveRequest) error {
	if req.Owner == "" {
		return errors.New("want an owner, who can give the name back")
	}
	return cmp.Or(leaseapi.CheckName(req.Name), leaseapi.CheckOwner(req.Owner), notNegative("for", time.Duration(req.For)), checkReason(req.Reason))
}

// reservedError says that another owner has reserved a name.
type reservedError string

func (e reservedError) Error() string { return string(e) }

// reserve does what req asks for.
func (h *handler) reserve(c caller, req leaseapi.ReserveRequest) (leaseapi.ReserveReply, error) {
	var r pool.Reserved
	t := h.term()
	err := t.attempt(func(set *pool.Set, now time.Duration) (err error) {
		if typ, ok := set.PoolOf(req.Name); ok && !c.MayUse(typ) {
			return pool.ErrUnknownName
		}
		r, err = set.Reserve(now, req.Name, pool.BindOwner(c.id, req.Owner), time.Duration(req.For), c.act(req.Reason))
		return err
	})
	if errors.Is(err, pool.ErrReserved) {
		token, owner := pool.SplitOwner(r.Owner)
		return leaseapi.ReserveReply{}, reservedError(fmt.Sprintf("%s is reserved by %s: %s", r.Name, cmp.Or(owner, token, "another"), r.Reason))
	}
	return leaseapi.ReserveReply{Type: r.Type, Reservation: reservationOf(t.clock, r)}, err
}

// giveBackReserved ends the reservation of a name.
func (h *handler) giveBackReserved(c caller, name, reason string) error {
	return h.term().attempt(func(set *pool.Set, now time.Duration) error {
		if r, ok := set.Reserved(now, name); ok {
			if err := c.mayOperateOn(r.Type); err != nil {
				return err
			}
		}
		_, err := set.GiveBack(now, name, c.act(reason))
		if errors.Is(err, pool.ErrNotHeld) {
			return notHeldError(fmt.Sprintf("%q is not reserved", name))
		}
		return err
	})
}
