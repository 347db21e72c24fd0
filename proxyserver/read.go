package proxyserver

import (
	"net/http"
	"strings"
	"time"

	"github.com/leasectl/leasectl/leaseapi"
	"github.com/leasectl/leasectl/pool"
)

func (s *Server) serveRequest(_ caller, w http.ResponseWriter, r *http.Request) {
	id := strings.TrimPrefix(r.URL.Path, leaseapi.PathRequests)
	if err := checkRequestID(id); err != nil {
		badRequest(w, err)
		return
	}
	var st pool.Status
	known := false
	err := s.do(func(now time.Duration) { st, known = s.set.Status(now, id) })
	switch {
	case err != nil:
		unavailable(w, err)
	case !known:
		problem(w, http.StatusNotFound, leaseapi.ProblemUnknownRequest, "no request "+id+" is known")
	default:
		reply := leaseapi.RequestReply{
			RequestID: id,
			State:     string(st.State),
			Place:     st.Place,
			Length:    st.Length,
			Estimate:  leaseapi.Duration(st.Estimate.Round(time.Second)),
		}
		if st.State == pool.StateGranted {
			reply.Names, reply.Leases = namesOf(st.Leases), leasesOf(st.Leases)
		}
		answer(w, http.StatusOK, reply)
	}
}

func (s *Server) servePools(_ caller, w http.ResponseWriter, _ *http.Request) {
	var pools []pool.PoolStatus
	if err := s.do(func(now time.Duration) { pools = s.set.Pools(now) }); err != nil {
		unavailable(w, err)
		return
	}
	reply := leaseapi.PoolsReply{Pools: make([]leaseapi.Pool, len(pools))}
	for i, p := range pools {
		leases := make([]leaseapi.PoolLease, len(p.Leases))
		for j, l := range p.Leases {
			leases[j] = s.poolLease(l)
		}
		reply.Pools[i] = leaseapi.Pool{
			Type: p.Type, Capacity: p.Capacity, InUse: p.InUse, Waiting: p.Waiting,
			OldestWaiting: leaseapi.Duration(round(p.OldestWaiting)),
			NextGrantIn:   leaseapi.Duration(round(p.NextGrantIn)), Leases: leases,
		}
	}
	answer(w, http.StatusOK, reply)
}

func (s *Server) poolLease(l pool.Lease) leaseapi.PoolLease {
	token, owner := splitHolder(l.Owner)
	wire := leaseapi.PoolLease{
		Lease:       leaseapi.Lease{Name: l.Name, Generation: l.Generation},
		Owner:       owner,
		Token:       token,
		Age:         leaseapi.Duration(round(-s.clock.until(l.Granted))),
		ExpiresIn:   leaseapi.Duration(round(max(0, s.clock.until(l.Ends())))),
		ExpiresAt:   s.clock.wall(l.Ends()),
		Provisional: l.Provisional,
		Broken:      l.Broken,
	}
	if l.ReleaseAt > 0 {
		wire.ReleaseAt = s.clock.wall(l.ReleaseAt)
	}
	return wire
}

// serveHealth says that the process lives and which wire it speaks; it does
// not look at the store.
func (s *Server) serveHealth(_ caller, w http.ResponseWriter, _ *http.Request) {
	answer(w, http.StatusOK, leaseapi.Health{
		Status: "ok", Wire: leaseapi.Wire, Version: s.opts.Version, Durable: s.store != nil,
	})
}
