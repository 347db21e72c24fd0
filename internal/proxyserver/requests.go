package proxyserver

import (
	"net/http"
	"slices"
	"strings"
	"time"

	"github.com/leasectl/leasectl/internal/pool"
	"github.com/leasectl/leasectl/internal/proxyserver/ui"
	"github.com/leasectl/leasectl/leaseapi"
)

func (h *handler) serveRequest(c caller, w http.ResponseWriter, r *http.Request) {
	id := strings.TrimPrefix(r.URL.Path, leaseapi.PathRequests)
	if err := leaseapi.CheckRequestID(id); err != nil {
		badRequest(w, err)
		return
	}
	var st pool.Status
	var counted countedTypes
	t := h.term()
	err := t.attempt(func(set *pool.Set, now time.Duration) error {
		one, err := c.seenRequest(set, now, id, r.URL.Query().Get(leaseapi.ParamCaller))
		if err != nil {
			return err
		}
		if slices.ContainsFunc(one.Types, func(typ string) bool { return !c.sees(typ, one.Owner) }) {
			return pool.ErrUnknownRequest
		}
		st, _ = set.Status(now, one.ID)
		for _, l := range st.Leases {
			counted = append(counted, countedOf(set, []string{l.Type})...)
		}
		return nil
	})
	switch {
	case err != nil:
		h.refuseWaiter(w, id, err)
	default:
		h.answerAgain(w, requestReply(t.clock, id, st, counted))
	}
}

func requestReply(clock clock, id string, st pool.Status, counted countedTypes) leaseapi.RequestReply {
	reply := leaseapi.RequestReply{
		RequestID: id,
		State:     string(st.State),
		Place:     st.Place,
		Length:    st.Length,
		Reason:    st.Reason,
		InUse:     st.InUse,
		Capacity:  st.Capacity,
		Limit:     limitOf(st.Limit, st.Capacity),
		Follows:   pool.PlainID(st.Follows),
		Order:     orderOf(st.Order),
		Oldest:    oldestLease(clock, st),
	}
	reply.Estimate, reply.EstimateMax = estimates(st.Estimate, st.EstimateMax)
	if st.State == pool.StateQueued {
		reply.Page = ui.RequestPath(id)
	}
	if st.State == pool.StateGranted {
		reply.Names, reply.Leases = namesOf(st.Leases), leasesOf(st.Leases, counted)
	}
	return reply
}
