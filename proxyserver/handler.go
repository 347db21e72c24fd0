package proxyserver

import (
	"crypto/x509"
	"log/slog"
	"net/http"
	"sync/atomic"

	"github.com/leasectl/leasectl/proxyserver/config"
)

// handler is the HTTP front: it answers calls from the term that runs, and
// outlives it.
type handler struct {
	term     *term
	log      *slog.Logger
	version  string
	storeID  string                   // of the store; in memory one of its own
	leaf     func() *x509.Certificate // nil: no TLS
	metrics  *metrics
	tokens   atomic.Pointer[config.Tokens]
	warnings warnings

	connections *connections
	crossOrigin http.CrossOriginProtection
	hosts       []string // lower case: names of this server, beside those of loopback
}
