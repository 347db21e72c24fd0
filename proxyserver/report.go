package proxyserver

import (
	"cmp"
	"errors"
	"net/http"
	"time"

	"github.com/leasectl/leasectl/leaseapi"
	"github.com/leasectl/leasectl/pool"
)

func (h *handler) serveReport(c caller, w http.ResponseWriter, r *http.Request) {
	var req leaseapi.ReportRequest
	if !readJSON(w, r, &req, func() error { return checkReport(req) }) {
		return
	}
	var counts bool
	err := h.term().attempt(func(set *pool.Set, now time.Duration) (err error) {
		if err = c.mayReport(set, now, req); err == nil {
			counts, err = report(set, now, req)
		}
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

// mayReport returns an error if c may not report on a request: another caller holds its
// lease, or held it.
func (c caller) mayReport(set *pool.Set, now time.Duration, req leaseapi.ReportRequest) error {
	typ, owner, known := set.HolderOf(now, req.RequestID)
	switch {
	case c.hidesRequest(set, now, req.RequestID), known && !c.sees(typ, owner):
		return pool.ErrUnknownRequest
	case known && !c.may(typ, owner):
		return forbiddenRequest(req.RequestID)
	}
	return nil
}

func report(set *pool.Set, now time.Duration, req leaseapi.ReportRequest) (bool, error) {
	return set.Report(now, pool.Report{RequestID: req.RequestID, Outcome: pool.OutcomeOf(req.Outcome), Detail: req.Detail})
}

// reportReleased applies the report that a release carries. A report that is not valid or
// not allowed is ignored: the lease must end in any case.
func (c caller) reportReleased(set *pool.Set, now time.Duration, req *leaseapi.ReportRequest) {
	if req != nil && checkReport(*req) == nil && c.mayReport(set, now, *req) == nil {
		report(set, now, *req)
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
