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
	pause, failed, err := h.pause(c, req)
	h.answerPause(w, h.term().clock, req.Type, pause, true, err, failed)
}

// pause does what req asks for, and notes who did it. failed is why nothing was
// done; err is the term's.
func (h *handler) pause(c caller, req leaseapi.PauseRequest) (pause pool.Pause, failed, err error) {
	err = h.term().do(func(set *pool.Set, now time.Duration) { pause, failed = set.Pause(now, req.Type, req.Reason) })
	if err == nil && failed == nil {
		h.logOperation(c, "pause", "type", req.Type, "reason", req.Reason)
	}
	return pause, failed, err
}

func (h *handler) serveResume(c caller, w http.ResponseWriter, r *http.Request) {
	var req leaseapi.ResumeRequest
	if !h.readOperation(c, "to resume a pool", w, r, &req, func() error { return leaseapi.CheckType(req.Type) }) {
		return
	}
	pause, paused, failed, err := h.resume(c, req, "")
	h.answerPause(w, h.term().clock, req.Type, pause, paused, err, failed)
}

// resume does what req asks for, and notes who did it, and why if that was said.
func (h *handler) resume(c caller, req leaseapi.ResumeRequest, reason string) (pause pool.Pause, paused bool, failed, err error) {
	err = h.term().do(func(set *pool.Set, now time.Duration) { pause, paused, failed = set.Resume(now, req.Type) })
	if err == nil && failed == nil {
		attrs := []any{"type", req.Type}
		if reason != "" {
			attrs = append(attrs, "reason", reason)
		}
		h.logOperation(c, "resume", attrs...)
	}
	return pause, paused, failed, err
}

func (h *handler) answerPause(w http.ResponseWriter, clock clock, typ string, pause pool.Pause, paused bool, err, failed error) {
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
	}
}
