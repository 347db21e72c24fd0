package proxyserver

import (
	"net/http"
	"net/url"
	"time"

	"github.com/leasectl/leasectl/leaseapi"
	"github.com/leasectl/leasectl/pool"
)

func (h *handler) servePools(c caller, w http.ResponseWriter, r *http.Request) {
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
	if err := t.do(func(set *pool.Set, now time.Duration) { pools = listed(set, now, c.MayUse, from, limit) }); err != nil {
		unavailable(w, err)
		return
	}
	all := make([]leaseapi.Pool, len(pools))
	for i, p := range pools {
		all[i] = poolOf(t.clock, p)
		if leaseapi.IsMemory(p.Unit) {
			all[i].Peaks = h.metrics.Peaks(p.Type)
		}
		addReports(t.clock, &all[i], p)
	}
	page, next := pageOf(all, from, limit)
	answer(w, http.StatusOK, leaseapi.PoolsReply{Pools: page.pools, Next: next, Leader: h.leader()})
}
