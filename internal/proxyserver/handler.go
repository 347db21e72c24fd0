package proxyserver

import (
	"crypto/x509"
	"fmt"
	"log/slog"
	"net/http"
	"strings"
	"sync/atomic"

	"github.com/leasectl/leasectl/internal/proxyserver/auth"
	"github.com/leasectl/leasectl/internal/proxyserver/connlimit"
	"github.com/leasectl/leasectl/internal/proxyserver/metrics"
	"github.com/leasectl/leasectl/internal/proxyserver/store"
	"github.com/leasectl/leasectl/internal/proxyserver/ui"
	"github.com/leasectl/leasectl/leaseapi"
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
	bodies   budget // of large bodies
	answers  budget // of large answers
	acquires acquires
	calls    calls
	large    turnstile // of calls with large bodies
	warnings warnings
	ui       *ui.UI

	droppedLines func() int // lines of the log that were lost; nil: not known
	connections  *connlimit.Limit
	crossOrigin  http.CrossOriginProtection
	hosts        []string // names of this server beside those of loopback, in lower case
}

// ServeHTTP implements [http.Handler].
func (h *handler) ServeHTTP(rw http.ResponseWriter, r *http.Request) {
	w := h.newAnswerWriter(rw, r)
	defer h.recoverCall(w)
	defer h.answered(w, r)
	boundBody(rw, r, strangerTime)
	if h.connections.Full() { // a stranger makes room after an answer, or many would keep the server busy
		w.Header().Set("Connection", "close")
	}
	if refuseHead(w, r.Header) {
		return
	}
	path := r.URL.Path
	if boskosPaths[path] {
		http.Error(w, fmt.Sprintf("this is a lease proxy (leasectl serve), not Boskos, and has no %s: POST %s?type=TYPE takes a lease, POST %s gives it back",
			path, leaseapi.PathAcquire, leaseapi.PathRelease), http.StatusNotFound)
		return
	}
	if ui.IsPage(path) {
		h.ui.ServeHTTP(w, r)
		return
	}
	if err := h.checkOrigin(r); err != nil {
		w.Header().Set("Connection", "close")
		h.refuseCall(w, err)
		return
	}
	rt := routeOf(path)
	c := everybody
	if !rt.open {
		var admitted bool
		if c, admitted = h.admit(w, r); !admitted {
			return
		}
	}
	switch {
	case rt.serve == nil:
		problem(w, http.StatusNotFound, leaseapi.ProblemNotFound, "there is nothing at "+path)
	case rt.method == http.MethodPost && c.Role == auth.RoleRead:
		h.refuseCall(w, forbiddenError("this token is marked read: it changes nothing"))
	case rt.allows(r.Method):
		if err := rt.checkQuery(r); err != nil {
			badRequest(w, err)
			return
		}
		rt.serve(h, c, w, r)
	default:
		w.Header().Set("Allow", rt.method)
		if path == leaseapi.PathAcquire || path == leaseapi.PathRelease {
			http.Error(w, fmt.Sprintf("Method %s not allowed, POST requests only.", r.Method), http.StatusMethodNotAllowed)
			return
		}
		problem(w, http.StatusMethodNotAllowed, leaseapi.ProblemMethod, fmt.Sprintf("%s takes %s, not %s", path, rt.method, r.Method))
	}
}

// mostHeaderLines is how many lines the head of a request may have: each takes far more memory than its text,
// for as long as the request waits.
const mostHeaderLines = 100

// refuseHead answers a request whose header has more than mostHeaderLines, and reports whether it does.
// It is no part of ServeHTTP, whose stack each waiter keeps.
//
//go:noinline
func refuseHead(w http.ResponseWriter, header http.Header) bool {
	n := 0
	for _, values := range header {
		n += len(values)
	}
	if n <= mostHeaderLines {
		return false
	}
	w.Header().Set("Connection", "close")
	badRequest(w, fmt.Errorf("the request has %d header lines: at most %d are read", n, mostHeaderLines))
	return true
}

// recoverCall ends the server after a call panicked, and answers that call with 503.
func (h *handler) recoverCall(w http.ResponseWriter) {
	switch cause := recover(); cause {
	case nil:
	case http.ErrAbortHandler:
		panic(cause)
	default:
		unavailable(w, h.term().failCall(cause))
	}
}

// boskosPaths are the paths of Boskos itself. Its clients must learn that this is not
// Boskos, with or without a token.
var boskosPaths = map[string]bool{
	"/acquire": true, "/acquirebystate": true, "/release": true, "/reset": true, "/update": true, "/metric": true,
}

// route is the handler of a path, and the method and parameters that it takes.
type route struct {
	method     string
	serve      func(*handler, caller, http.ResponseWriter, *http.Request)
	open       bool     // needs no token: the caller is the zero caller
	parameters []string // those of an acquire are checked when they are read
	lenient    bool     // may have any other parameter: probes and scrapers of others add their own
}

// checkQuery refuses parameters that the route does not have, or that are there twice.
func (rt *route) checkQuery(r *http.Request) error {
	if r.URL.RawQuery == "" || rt.lenient || r.URL.Path == leaseapi.PathAcquire {
		return nil
	}
	query, err := parseQuery(r)
	if err != nil {
		return err
	}
	return checkParameters(query, rt.parameters)
}

func (rt *route) allows(method string) bool {
	return method == rt.method || method == http.MethodHead && rt.method == http.MethodGet
}

// routes is not an [http.ServeMux]: a ServeMux redirects an unclean path, and most
// clients then send a GET instead of their POST.
var routes = map[string]*route{
	leaseapi.PathAcquire: {method: http.MethodPost, serve: (*handler).serveAcquire},
	leaseapi.PathRelease: {method: http.MethodPost, serve: (*handler).serveRelease},
	leaseapi.PathRenew:   {method: http.MethodPost, serve: (*handler).serveRenew},
	leaseapi.PathResize:  {method: http.MethodPost, serve: (*handler).serveResize},
	leaseapi.PathReport:  {method: http.MethodPost, serve: (*handler).serveReport},
	leaseapi.PathBreak:   {method: http.MethodPost, serve: (*handler).serveBreak},
	leaseapi.PathRemove:  {method: http.MethodPost, serve: (*handler).serveRemove},
	leaseapi.PathMove:    {method: http.MethodPost, serve: (*handler).serveMove},
	leaseapi.PathReserve: {method: http.MethodPost, serve: (*handler).serveReserve},
	leaseapi.PathPause:   {method: http.MethodPost, serve: (*handler).servePause},
	leaseapi.PathResume:  {method: http.MethodPost, serve: (*handler).serveResume},
	leaseapi.PathBackup:  {method: http.MethodPost, serve: (*handler).serveBackup},
	leaseapi.PathPools:   {method: http.MethodGet, serve: (*handler).servePools, parameters: []string{leaseapi.ParamAfter, leaseapi.ParamLimit, leaseapi.ParamType}},
	leaseapi.PathWhoami:  {method: http.MethodGet, serve: (*handler).serveWhoami},
	leaseapi.PathMetrics: {method: http.MethodGet, serve: (*handler).serveMetrics, lenient: true},
	leaseapi.PathHealth:  {method: http.MethodGet, serve: (*handler).serveHealth, open: true, lenient: true},
	leaseapi.PathReady:   {method: http.MethodGet, serve: (*handler).serveReady, open: true, lenient: true},
}

// requestRoute is that of all paths below [leaseapi.PathRequests], and noRoute that of paths where
// nothing is.
var (
	requestRoute = &route{method: http.MethodGet, serve: (*handler).serveRequest, parameters: []string{leaseapi.ParamCaller}}
	noRoute      = &route{}
)

// routeOf returns a pointer, since what waits keeps it on its stack.
func routeOf(path string) *route {
	if rt, ok := routes[path]; ok {
		return rt
	}
	if strings.HasPrefix(path, leaseapi.PathRequests) {
		return requestRoute
	}
	return noRoute
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
