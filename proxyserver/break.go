package proxyserver

import (
	"encoding/json"
	"errors"
	"fmt"
	"log/slog"
	"net/http"
	"time"

	"github.com/leasectl/leasectl/leaseapi"
	"github.com/leasectl/leasectl/pool"
)

func (s *Server) serveBreak(c caller, w http.ResponseWriter, r *http.Request) {
	if !c.mayBreak() {
		s.refuseCall(w, forbiddenError("to break a lease takes a token that is marked admin"))
		return
	}
	body, ok := readBody(w, r)
	if !ok {
		return
	}
	var req leaseapi.BreakRequest
	if err := json.Unmarshal(body, &req); err != nil {
		badRequest(w, fmt.Errorf("the body is not valid: %w", err))
		return
	}
	if err := checkBreak(req); err != nil {
		badRequest(w, err)
		return
	}
	var l pool.Lease
	var ended bool
	var failed error
	err := s.do(func(now time.Duration) { l, ended, failed = s.breakLease(now, req) })
	switch {
	case err != nil:
		unavailable(w, err)
	case errors.Is(failed, pool.ErrUnknownName):
		problem(w, http.StatusNotFound, leaseapi.ProblemUnknownName, fmt.Sprintf("the server has never had a lease %q", req.Name))
	case failed != nil:
		problem(w, http.StatusConflict, leaseapi.ProblemNotHeld, failed.Error())
	default:
		if c.token != "" { // else there is no telling who it was
			s.log.Info("break", "by", c.token, "name", req.Name, "generation", l.Generation, "reason", req.Reason, "now", req.Now)
		}
		answer(w, http.StatusOK, leaseapi.BreakReply{Lease: s.poolLease(l), Ended: ended})
	}
}

func checkBreak(req leaseapi.BreakRequest) error {
	switch {
	case req.Name == "":
		return errors.New("name is empty")
	case req.Reason == "":
		return errors.New("reason is empty: its holder will want to know")
	}
	return checkText("reason", req.Reason, leaseapi.MaxReason)
}

// breakLease does what req asks for. A second copy of a request that ended the
// lease finds it ended for this reason, which is success too.
func (s *Server) breakLease(now time.Duration, req leaseapi.BreakRequest) (l pool.Lease, ended bool, err error) {
	l, held := s.set.Held(now, req.Name)
	if !held || req.Generation != 0 && req.Generation != l.Generation {
		return s.broken(now, req, held)
	}
	l, err = s.set.Break(now, req.Name, req.Reason, req.Now)
	return l, req.Now, err
}

// broken says what became of a lease that is not held any more, or not as req
// has it.
func (s *Server) broken(now time.Duration, req leaseapi.BreakRequest, held bool) (l pool.Lease, ended bool, err error) {
	if !held { // then this changes nothing, and knows whether there ever was such a name
		_, err = s.set.Break(now, req.Name, req.Reason, req.Now)
	}
	switch {
	case errors.Is(err, pool.ErrUnknownName):
		return l, false, err
	case req.Generation == 0:
		return l, false, fmt.Errorf("nobody holds %q", req.Name)
	}
	// To renew what is not held changes nothing, and says why it is not.
	_, why := s.set.Renew(now, pool.Ref{Name: req.Name, Generation: req.Generation}, 0)
	if why == leaseapi.ReasonBroken+pool.Reason(req.Reason) {
		return pool.Lease{Name: req.Name, Generation: req.Generation, Granted: now, Expires: now, Broken: req.Reason}, true, nil
	}
	return l, false, fmt.Errorf("the lease of %q with generation %d has ended (%s)", req.Name, req.Generation, why)
}

// logBroken says that a lease was broken and is still held.
func (s *Server) logBroken(l pool.Lease) {
	s.logLease("breaking", l, slog.String("reason", l.Broken), slog.Duration("ends_in", round(s.clock.until(l.Ends()))))
}
