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
	reply, failed, err := h.pause(c, req)
	answerPause(w, reply, failed, err)
}

// pause does what req asks for, and notes who did it. failed is why nothing was
// done; err is the term's.
func (h *handler) pause(c caller, req leaseapi.PauseRequest) (reply leaseapi.PauseReply, failed, err error) {
	var pause pool.Pause
	t := h.term()
	err = t.do(func(set *pool.Set, now time.Duration) { pause, failed = set.Pause(now, req.Type, req.Reason) })
	if err == nil && failed == nil {
		h.logOperation(c, "pause", "type", req.Type, "reason", req.Reason)
	}
	return pauseReply(t.clock, req.Type, pause), failed, err
}

func (h *handler) serveResume(c caller, w http.ResponseWriter, r *http.Request) {
	var req leaseapi.ResumeRequest
	if !h.readOperation(c, "to resume a pool", w, r, &req, func() error { return leaseapi.CheckType(req.Type) }) {
		return
	}
	reply, failed, err := h.resume(c, req, "")
	answerPause(w, reply, failed, err)
}

// resume does what req asks for, and notes who did it, and why if that was said.
func (h *handler) resume(c caller, req leaseapi.ResumeRequest, reason string) (reply leaseapi.PauseReply, failed, err error) {
	var pause pool.Pause
	t := h.term()
	err = t.do(func(set *pool.Set, now time.Duration) { pause, failed = set.Resume(now, req.Type) })
	if err == nil && failed == nil {
		attrs := []any{"type", req.Type}
		if reason != "" {
			attrs = append(attrs, "reason", reason)
		}
		h.logOperation(c, "resume", attrs...)
	}
	return pauseReply(t.clock, req.Type, pause), failed, err
}

// pauseReply tells of a pause of the pool of a type; the zero Pause: there is, and was,
// none.
func pauseReply(clock clock, typ string, pause pool.Pause) leaseapi.PauseReply {
	reply := leaseapi.PauseReply{Type: typ}
	if pause != (pool.Pause{}) {
		reply.Reason, reply.Since = pause.Reason, clock.wall(pause.Since)
	}
	return reply
}

func answerPause(w http.ResponseWriter, reply leaseapi.PauseReply, failed, err error) {
	switch {
	case err != nil:
		unavailable(w, err)
	case failed != nil:
		problem(w, http.StatusNotFound, leaseapi.ProblemUnknownType, fmt.Sprintf("there is no pool of type %q", reply.Type))
	default:
		answer(w, http.StatusOK, reply)
	}
}
