package proxyserver

import (
	"net/http"

	"github.com/leasectl/leasectl/leaseapi"
)

// serveWhoami tells callers how the server knows them, and what they may do.
func (h *handler) serveWhoami(c caller, w http.ResponseWriter, _ *http.Request) {
	if c.id == "" {
		answer(w, http.StatusOK, leaseapi.WhoamiReply{Open: true})
		return
	}
	answer(w, http.StatusOK, leaseapi.WhoamiReply{
		Name: c.Name, Issuer: c.Issuer, Role: c.Role.String(), Pools: c.Pools, MaxPriority: c.MaxPriority,
		Overcommit: c.CheckOvercommit() == nil, MaxLeases: c.Share.Leases, MaxWaiters: c.Share.Waiters, Until: c.Until.UTC(),
	})
}
