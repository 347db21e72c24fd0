package proxyserver

import (
	"errors"
	"fmt"
	"net/http"
	"time"

	"github.com/leasectl/leasectl/internal/pool"
	"github.com/leasectl/leasectl/leaseapi"
)

func (h *handler) serveRenew(c caller, w http.ResponseWriter, r *http.Request) {
	t := h.term()
	var req leaseapi.RenewRequest
	if !readJSON(w, r, &req, func() error { return checkRenew(req) }) {
		return
	}
	var renewed []pool.Lease
	var lost []leaseapi.Lost
	err := t.attemptOver(len(req.Leases), c.id, func(set *pool.Set, now time.Duration) error {
		if err := c.mayRenew(set, now, req.Leases); err != nil {
			return err
		}
		for _, l := range req.Leases {
			lease, why := set.Renew(now, c.refTo(set, now, l), time.Duration(req.TTL))
			if why != "" {
				lost = append(lost, leaseapi.Lost{Lease: plain(l), Reason: string(why)})
				continue
			}
			renewed = append(renewed, lease)
		}
		return nil
	})
	switch {
	case err != nil:
		h.refuseCall(w, err)
	case len(lost) > 0:
		writeProblem(w, leaseapi.Problem{
			Type: leaseapi.ProblemLost, Status: http.StatusGone, Lost: lost,
			Detail: fmt.Sprintf("%d of %d leases are lost; the others were renewed", len(lost), len(req.Leases)),
		})
	default:
		answer(w, http.StatusOK, renewReply(t.clock, renewed))
	}
}

// plain returns l as an answer has it.
func plain(l leaseapi.Lease) leaseapi.Lease {
	return leaseapi.Lease{Name: l.Name, Generation: l.Generation}
}

func checkRenew(req leaseapi.RenewRequest) error {
	if len(req.Leases) == 0 {
		return errors.New("leases is empty")
	}
	if err := leaseapi.CheckTTL(time.Duration(req.TTL)); err != nil {
		return err
	}
	return checkLeases(req.Leases)
}

// renewReply gives the shortest TTL and the earliest end of leases, so that a client that
// follows them loses no lease.
func renewReply(clock clock, leases []pool.Lease) leaseapi.RenewReply {
	ttl, ends, release := leases[0].TTL, leases[0].Ends(), never
	for _, l := range leases {
		ttl, ends = min(ttl, l.TTL), min(ends, l.Ends())
		if l.ReleaseAt > 0 {
			release = min(release, l.ReleaseAt)
		}
	}
	reply := leaseapi.RenewReply{
		TTL: leaseapi.Duration(ttl), RenewEvery: renewEvery(ttl), ExpiresAt: clock.wall(ends),
	}
	if release < never {
		reply.ReleaseAt = clock.wall(release)
	}
	return reply
}
