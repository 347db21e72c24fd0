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

func (h *handler) servePause(c caller, w http.ResponseWriter, r *http.Request) {
	var req leaseapi.PauseRequest
	if !h.readOperation(c, "to pause a pool", w, r, &req, func() error { return checkPause(req) }) {
		return
	}
	reply, err := h.pause(c, req)
	h.answerPause(w, reply, err)
}

func checkPause(req leaseapi.PauseRequest) error {
	return cmp.Or(leaseapi.CheckType(req.Type), checkReason(req.Reason))
}

// pause does what req asks for.
func (h *handler) pause(c caller, req leaseapi.PauseRequest) (leaseapi.PauseReply, error) {
	if err := c.mayOperateOn(req.Type); err != nil {
		return leaseapi.PauseReply{}, err
	}
	var pause pool.Pause
	t := h.term()
	err := t.attempt(func(set *pool.Set, now time.Duration) (err error) {
		pause, err = set.Pause(now, req.Type, c.act(req.Reason))
		return err
	})
	return pauseReply(t.clock, req.Type, pause), err
}

func (h *handler) serveResume(c caller, w http.ResponseWriter, r *http.Request) {
	var req leaseapi.ResumeRequest
	if !h.readOperation(c, "to resume a pool", w, r, &req, func() error { return leaseapi.CheckType(req.Type) }) {
		return
	}
	reply, err := h.resume(c, req, "")
	h.answerPause(w, reply, err)
}

// resume does what req asks for. The reason may be empty.
func (h *handler) resume(c caller, req leaseapi.ResumeRequest, reason string) (leaseapi.PauseReply, error) {
	if err := c.mayOperateOn(req.Type); err != nil {
		return leaseapi.PauseReply{}, err
	}
	var pause pool.Pause
	t := h.term()
	err := t.attempt(func(set *pool.Set, now time.Duration) (err error) {
		pause, err = set.Resume(now, req.Type, c.act(reason))
		return err
	})
	return pauseReply(t.clock, req.Type, pause), err
}

// pauseReply describes the pause of a pool; the zero Pause: the pool was not paused.
func pauseReply(clock clock, typ string, pause pool.Pause) leaseapi.PauseReply {
	reply := leaseapi.PauseReply{Type: typ}
	if pause != (pool.Pause{}) {
		reply.Reason, reply.Since = pause.Reason, clock.wall(pause.Since)
		reply.For = leaseapi.Duration(round(clock.since(pause.Since)))
	}
	return reply
}

func (h *handler) answerPause(w http.ResponseWriter, reply leaseapi.PauseReply, err error) {
	switch {
	case err == nil:
		answer(w, http.StatusOK, reply)
	case errors.Is(err, pool.ErrUnknownType):
		problem(w, http.StatusNotFound, leaseapi.ProblemUnknownType, fmt.Sprintf("there is no pool of type %q", reply.Type))
	default:
		h.refuseCall(w, err)
	}
}
