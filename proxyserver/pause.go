package proxyserver

import (
	"fmt"
	"net/http"
	"time"

	"github.com/leasectl/leasectl/leaseapi"
	"github.com/leasectl/leasectl/pool"
)

func (h *handler) servePause(c caller, w http.ResponseWriter, r *http.Request) {
	var req leaseapi.PauseRequest
	check := func() error {
		if err := leaseapi.CheckType(req.Type); err != nil {
			return err
		}
		return checkReason(req.Reason)
	}
	if !h.readOperation(c, "to pause a pool", w, r, &req, check) {
		return
	}
	var pause pool.Pause
	var failed error
	t := h.term()
	err := t.do(func(set *pool.Set, now time.Duration) { pause, failed = set.Pause(now, req.Type, req.Reason) })
	if h.answerPause(w, t.clock, req.Type, pause, true, err, failed) {
		h.logOperation(c, "pause", "type", req.Type, "reason", req.Reason)
	}
}

func (h *handler) serveResume(c caller, w http.ResponseWriter, r *http.Request) {
	var req leaseapi.ResumeRequest
	if !h.readOperation(c, "to resume a pool", w, r, &req, func() error { return leaseapi.CheckType(req.Type) }) {
		return
	}
	var pause pool.Pause
	var paused bool
	var failed error
	t := h.term()
	err := t.do(func(set *pool.Set, now time.Duration) { pause, paused, failed = set.Resume(now, req.Type) })
	if h.answerPause(w, t.clock, req.Type, pause, paused, err, failed) {
		h.logOperation(c, "resume", "type", req.Type)
	}
}

// answerPause reports whether all went well.
func (h *handler) answerPause(w http.ResponseWriter, clock clock, typ string, pause pool.Pause, paused bool, err, failed error) bool {
	switch {
	case err != nil:
		unavailable(w, err)
	case failed != nil:
		problem(w, http.StatusNotFound, leaseapi.ProblemUnknownType, fmt.Sprintf("there is no pool of type %q", typ))
	default:
		reply := leaseapi.PauseReply{Type: typ}
		if paused {
			reply.Reason, reply.Since = pause.Reason, clock.wall(pause.Since)
		}
		answer(w, http.StatusOK, reply)
		return true
	}
	return false
}
