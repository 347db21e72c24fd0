package proxyserver

import (
	"crypto/x509"
	"log/slog"
	"net/http"
	"sync/atomic"

	"github.com/leasectl/leasectl/leaseapi"
	"github.com/leasectl/leasectl/proxyserver/auth"
	"github.com/leasectl/leasectl/proxyserver/connlimit"
	"github.com/leasectl/leasectl/proxyserver/metrics"
	"github.com/leasectl/leasectl/proxyserver/store"
	"github.com/leasectl/leasectl/proxyserver/ui"
)

// handler is the HTTP front. It answers calls from the current term, and outlives terms.
type handler struct {
	current  atomic.Pointer[term] // see term
	log      *slog.Logger
	version  string
	storeID  func() string            // id of the store; a server in memory has its own
	election store.Election           // nil: this server always leads
	leaf     func() *x509.Certificate // nil: no TLS
	metrics  *metrics.Counts
	gate     *auth.Gate
	refusals refusalLog
	warnings warnings
	ui       *ui.UI

	droppedLines func() int // lines of the log that were lost; nil: not known
	connections  *connlimit.Limit
	crossOrigin  http.CrossOriginProtection
	hosts        []string // names of this server beside those of loopback, in lower case
}

// term returns the term to answer from. The term of a standby refuses every call.
func (h *handler) term() *term { return h.current.Load() }

// durable reports whether leases outlive the process, whichever server leads.
func (h *handler) durable() bool { return h.election != nil || h.term().durable() }

// leader returns who leads; nil if this server always leads.
func (h *handler) leader() *leaseapi.Leader {
	if h.election == nil {
		return nil
	}
	l := h.election.Leader()
	return &leaseapi.Leader{URL: l.URL, Since: l.Since, Standby: l.Standby, Leads: h.term().lead != nil}
}
