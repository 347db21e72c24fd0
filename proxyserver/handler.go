package proxyserver

import (
	"crypto/x509"
	"log/slog"
	"net/http"
	"sync/atomic"

	"github.com/leasectl/leasectl/leaseapi"
	"github.com/leasectl/leasectl/proxyserver/config"
	"github.com/leasectl/leasectl/proxyserver/connlimit"
	"github.com/leasectl/leasectl/proxyserver/metrics"
	"github.com/leasectl/leasectl/proxyserver/store"
)

// handler is the HTTP front: it answers calls from the term that runs, and
// outlives it.
type handler struct {
	current  atomic.Pointer[term] // see term
	log      *slog.Logger
	version  string
	storeID  func() string            // of the store; in memory one of its own
	election store.Election           // nil: this server always leads
	leaf     func() *x509.Certificate // nil: no TLS
	metrics  *metrics.Counts
	tokens   atomic.Pointer[config.Tokens]
	warnings warnings

	sessions sessions
	live     live

	droppedLines func() int // of the log; nil: nobody knows
	connections  *connlimit.Limit
	crossOrigin  http.CrossOriginProtection
	hosts        []string // lower case: names of this server, beside those of loopback
}

// term returns the term to answer from. That of a server that does not lead refuses
// every call.
func (h *handler) term() *term { return h.current.Load() }

// durable reports whether leases outlive the process, whoever leads.
func (h *handler) durable() bool { return h.election != nil || h.term().durable() }

// leader says who leads; nil if that is always this server.
func (h *handler) leader() *leaseapi.Leader {
	if h.election == nil {
		return nil
	}
	l := h.election.Leader()
	return &leaseapi.Leader{URL: l.URL, Since: l.Since, Standby: l.Standby, Leads: h.term().lead != nil}
}
