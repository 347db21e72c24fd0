package proxyserver

import (
	"errors"
	"net/http"
	"net/url"
	"strings"
	"time"

	"github.com/leasectl/leasectl/leaseapi"
	"github.com/leasectl/leasectl/pool"
	"github.com/leasectl/leasectl/proxyserver/page"
	"github.com/leasectl/leasectl/proxyserver/store"
)

func (h *handler) serveRequest(_ caller, w http.ResponseWriter, r *http.Request) {
	id := strings.TrimPrefix(r.URL.Path, leaseapi.PathRequests)
	if err := leaseapi.CheckRequestID(id); err != nil {
		badRequest(w, err)
		return
	}
	var st pool.Status
	var known, counted bool
	t := h.term()
	err := t.do(func(set *pool.Set, now time.Duration) {
		if st, known = set.Status(now, id); len(st.Leases) > 0 {
			counted = set.Counted(st.Leases[0].Type)
		}
	})
	switch {
	case err != nil:
		unavailable(w, err)
	case !known:
		problem(w, http.StatusNotFound, leaseapi.ProblemUnknownRequest, "no request "+id+" is known")
	default:
		answer(w, http.StatusOK, requestReply(t.clock, id, st, counted))
	}
}

func requestReply(clock clock, id string, st pool.Status, counted bool) leaseapi.RequestReply {
	reply := leaseapi.RequestReply{
		RequestID: id,
		State:     string(st.State),
		Place:     st.Place,
		Length:    st.Length,
		Reason:    reasonFor(st.Reason, st.KeyHolder),
		InUse:     st.InUse,
		Capacity:  st.Capacity,
		Limit:     limitOf(st.Limit, st.Capacity),
		Follows:   st.Follows,
		Oldest:    oldestLease(clock, st),
	}
	reply.Estimate, reply.EstimateMax = estimates(st.Estimate, st.EstimateMax)
	if st.State == pool.StateQueued {
		reply.Page = page.RequestPath(id)
	}
	if st.State == pool.StateGranted {
		reply.Names, reply.Leases = namesOf(st.Leases), leasesOf(st.Leases, counted)
	}
	return reply
}

func (h *handler) servePools(_ caller, w http.ResponseWriter, r *http.Request) {
	query, err := url.ParseQuery(r.URL.RawQuery)
	var from position
	var limit int
	if err == nil {
		from, limit, err = pageParams(query)
	}
	if err != nil {
		badRequest(w, err)
		return
	}
	t := h.term()
	var pools []pool.PoolStatus
	if err := t.do(func(set *pool.Set, now time.Duration) { pools = listed(set, now, from, limit) }); err != nil {
		unavailable(w, err)
		return
	}
	all := make([]leaseapi.Pool, len(pools))
	for i, p := range pools {
		all[i] = poolOf(t.clock, p)
		if p.Counted {
			all[i].Peaks = h.metrics.Peaks(p.Type)
		}
		addReports(t.clock, &all[i], p)
	}
	page, next := pageOf(all, from, limit)
	answer(w, http.StatusOK, leaseapi.PoolsReply{Pools: page.pools, Next: next, Leader: h.leader()})
}

// serveHealth says that the process lives, and which wire it speaks. It asks
// nothing of the store. A server that has failed is about to end.
func (h *handler) serveHealth(_ caller, w http.ResponseWriter, _ *http.Request) {
	t := h.term()
	if err := t.failure(); err != nil && !errors.Is(err, store.ErrNotLeader) {
		unavailable(w, err)
		return
	}
	answer(w, http.StatusOK, leaseapi.Health{
		Status: "ok", Wire: leaseapi.Wire, Version: h.version, Durable: h.durable(), Store: h.storeID(), Leader: h.leader(),
	})
}
