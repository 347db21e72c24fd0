package proxyserver

import (
	"errors"
	"net/http"
	"time"

	"github.com/leasectl/leasectl/internal/pool"
	"github.com/leasectl/leasectl/internal/proxyserver/store"
	"github.com/leasectl/leasectl/leaseapi"
)

// serveHealth says that the process lives, and which wire it speaks. It does not use the
// store. A server that has failed answers 503: it is about to end.
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

// serveReady says whether the server grants and releases. It waits for the commit
// that is under way, so with a store that hangs the server is not ready.
//
// After a reload of an invalid file the server keeps its old settings, and should still
// get requests: it is ready, and degraded.
func (h *handler) serveReady(_ caller, w http.ResponseWriter, r *http.Request) {
	if err := h.term().do(func(*pool.Set, time.Duration) {}); err != nil {
		unavailable(w, err)
		return
	}
	reply := leaseapi.Ready{Status: leaseapi.ReadyOK}
	all := h.allWarnings()
	if len(all) > 0 {
		reply.Status = leaseapi.ReadyDegraded
	}
	if c, refusal := h.identify(r); refusal == nil && c.Pools == nil { // they may name any pool
		for _, w := range all {
			reply.Warnings = append(reply.Warnings, w.source+": "+w.text)
		}
	}
	answer(w, http.StatusOK, reply)
}
