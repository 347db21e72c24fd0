package proxyserver

import (
	"cmp"
	"errors"
	"net/http"
	"time"

	"github.com/leasectl/leasectl/internal/pool"
	"github.com/leasectl/leasectl/leaseapi"
)

func (h *handler) serveReport(c caller, w http.ResponseWriter, r *http.Request) {
	var req leaseapi.ReportRequest
	if !readJSON(w, r, &req, func() error { return checkReport(req) }) {
		return
	}
	var counts bool
	err := h.term().attempt(func(set *pool.Set, now time.Duration) (err error) {
		counts, err = c.report(set, now, req)
		return err
	})
	switch {
	case err == nil:
		answer(w, http.StatusOK, leaseapi.ReportReply{Counts: counts})
	case errors.Is(err, pool.ErrUnknownRequest):
		problem(w, http.StatusNotFound, leaseapi.ProblemUnknownRequest, "no request "+req.RequestID+" is known")
	case errors.Is(err, pool.ErrNoLease):
		problem(w, http.StatusConflict, leaseapi.ProblemNoLease, err.Error())
	default:
		h.refuseCall(w, err)
	}
}

func checkReport(req leaseapi.ReportRequest) error {
	return cmp.Or(leaseapi.CheckRequestID(req.RequestID), leaseapi.CheckOutcome(req.Outcome), leaseapi.CheckDetail(req.Detail))
}

// report applies a report of c, which holds the lease of its request, or held it.
func (c caller) report(set *pool.Set, now time.Duration, req leaseapi.ReportRequest) (bool, error) {
	id := c.ownRequest(set, now, req.RequestID)
	return set.Report(now, pool.Report{RequestID: id, Outcome: pool.OutcomeOf(req.Outcome), Detail: req.Detail})
}

// reportReleased applies the report that a release carries. A report that is not valid or
// not allowed is ignored: the lease must end in any case.
func (c caller) reportReleased(set *pool.Set, now time.Duration, req *leaseapi.ReportRequest) {
	if req != nil && checkReport(*req) == nil {
		c.report(set, now, *req)
	}
}

// addReports adds the effects of reports to the state of a pool.
func addReports(clock clock, wire *leaseapi.Pool, p pool.PoolStatus) {
	wire.Adapt, wire.Wall = p.Adapt, p.Wall
	if m := p.Moved; m != (pool.Move{}) {
		token, owner := pool.SplitOwner(m.Owner)
		wire.Moved = &leaseapi.LimitMove{
			From: m.From, To: m.To, Owner: owner, Token: token, Detail: m.Detail,
			At: clock.wall(m.At), Age: leaseapi.Duration(round(clock.since(m.At))),
		}
	}
	for _, t := range p.Tally {
		wire.Tally = append(wire.Tally, leaseapi.Tally(t))
	}
}
