package proxyserver

import (
	"crypto/rand"
	"crypto/x509"
	"errors"
	"log/slog"
	"maps"
	"net"
	"net/http"
	"reflect"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/leasectl/leasectl/internal/pool"
	"github.com/leasectl/leasectl/internal/proxyserver/auth"
	"github.com/leasectl/leasectl/internal/proxyserver/connlimit"
	"github.com/leasectl/leasectl/internal/proxyserver/idle"
	"github.com/leasectl/leasectl/internal/proxyserver/metrics"
	"github.com/leasectl/leasectl/internal/proxyserver/store"
	"github.com/leasectl/leasectl/internal/proxyserver/ui"
)

// DefaultMaxWait is the default of [Options.MaxWait]. Deployed proxies let clients of
// version 1 wait as long.
const DefaultMaxWait = 2 * time.Hour

// Options says what a server serves, and how. Only Pools is required.
type Options struct {
	Pools []pool.Config

	// Store keeps the state. The server closes it, also if [New] fails. Nil: the
	// state is in memory only.
	Store store.Store

	// Election decides when this server leads, and supplies the store while it does.
	// Nil: this server always leads. The server closes it, also if [New] fails. It
	// cannot be combined with Store or Idle.
	Election store.Election

	Log     *slog.Logger // nil: no log
	Version string       // of the program, for [leaseapi.Health]
	// DroppedLines returns how many lines of the log were lost so far. Nil: the
	// metrics leave that out.
	DroppedLines func() int
	MaxWait      time.Duration // of an acquire that has no wait or no request id; zero: [DefaultMaxWait]
	// PriorityAging is how much waiting a step of priority is worth; zero: [pool.PriorityAging];
	// negative: nothing is, so all of a higher priority go before all of a lower one.
	PriorityAging time.Duration
	Idle          *Idle // nil: the server does not stop by itself
	// Leaf returns the certificate that clients see: the server warns before it
	// expires. Nil: there is none.
	Leaf func() *x509.Certificate
	Auth *auth.Config // who may ask; nil: everybody who can connect may do everything

	// Hosts are names of the server beside those of loopback. A server without
	// tokens refuses calls under other names on its loopback listeners. Its status
	// page is served only under these names and its address, on every listener.
	Hosts []string

	maxConnections int                  // zero: as the limit of descriptors allows; tests have fewer
	now            func() time.Time     // nil: [time.Now]; tests set the wall clock with it
	suspended      func() time.Duration // nil: [suspend.Total]; tests suspend the machine with it
}

// Idle makes a server stop by itself when nobody needs it. A client that connects
// at that moment is not lost: the server finds it and goes on.
type Idle struct {
	// After is how long there must have been no lease, waiter or connection.
	After time.Duration
	// Hide hides the server's sockets from new connections, and returns the way to
	// undo that. A client that does not find the sockets waits until Serve has
	// returned, and starts a server of its own. So Hide takes the lock under which
	// servers are started; the caller of Serve releases the lock afterwards. If Hide
	// fails, the server logs the error and goes on.
	Hide func() (unhide func(), err error)
}

// Server is a lease proxy: an HTTP front that lives as long as the process, and
// the term that it answers from. [New] makes one.
type Server struct {
	handler  handler
	http     http.Server
	store    store.Store    // nil: in memory, or the election's
	election store.Election // nil: this server always leads
	idle     *idle.Watch    // nil: the server does not stop by itself
	terms    termOptions    // options of each term

	// Used by New, and then by Serve alone.
	term *term
	lead store.Lead // the latest lead; nil: there was none

	poolsMu sync.Mutex    // held while a term begins, too
	pools   []pool.Config // the next term begins with these
}

// New makes a server that begins from the state in the store. The caller must call
// [Server.Serve], or [Server.Close] if it will not serve. Errors are those of
// [store.Store.Load] and [pool.New], or [ErrStore] if the first commit fails.
func New(opts Options) (*Server, error) {
	if opts.Log == nil {
		opts.Log = slog.New(slog.DiscardHandler)
	}
	if opts.MaxWait == 0 {
		opts.MaxWait = DefaultMaxWait
	}
	if opts.PriorityAging == 0 {
		opts.PriorityAging = pool.PriorityAging
	}
	s := &Server{store: opts.Store, election: opts.Election, pools: opts.Pools, handler: handler{
		log: opts.Log, version: opts.Version, metrics: metrics.New(), election: opts.Election,
		leaf: opts.Leaf, droppedLines: opts.DroppedLines, connections: connlimit.New(opts.maxConnections),
	}}
	for _, host := range opts.Hosts {
		s.handler.hosts = append(s.handler.hosts, strings.ToLower(host))
	}
	s.handler.ui = ui.New(site{&s.handler}, opts.Version, s.handler.connections.Stats().Most, opts.Log)
	s.handler.metrics.Configured(opts.Pools)
	s.handler.gate = auth.Open(opts.Auth, opts.Log)
	s.terms = termOptions{maxWait: opts.MaxWait, aging: max(0, opts.PriorityAging), metrics: s.handler.metrics, log: opts.Log, now: opts.now, suspended: opts.suspended, election: opts.Election}
	if opts.Idle != nil {
		s.idle = idle.New(opts.Idle.After, opts.Idle.Hide)
		s.terms.busy = s.idle.SetBusy
	}
	switch {
	case s.election != nil && (s.store != nil || opts.Idle != nil):
		return nil, errors.Join(errors.New("an Election does not go with a Store, nor with Idle"), s.Close())
	case s.election != nil:
		s.setTerm(standbyTerm(s.terms))
	default:
		if err := s.startTerm(opts.Store); err != nil {
			return nil, errors.Join(err, s.Close())
		}
	}
	s.handler.storeID = s.idOfStore()
	s.initHTTP(opts.Log)
	return s, nil
}

func (s *Server) initHTTP(log *slog.Logger) {
	// HTTP/1 carries one request at a time on a connection, so a broken
	// connection means that one client has gone.
	var onlyHTTP1 http.Protocols
	onlyHTTP1.SetHTTP1(true)
	s.http = http.Server{
		Handler:     &s.handler,
		Protocols:   &onlyHTTP1,
		ErrorLog:    newErrorLog(log),
		ConnState:   s.connState,
		BaseContext: listenerContext,
		ConnContext: withConn,
		// No WriteTimeout and no ReadTimeout: both would cut a long wait. The
		// time for headers bounds a TLS handshake too, bodyTime the rest of a
		// request, and writeTime an answer.
		ReadHeaderTimeout: 10 * time.Second,
		IdleTimeout:       2 * time.Minute,
		MaxHeaderBytes:    16 << 10, // all parameters and a token; the client bounds what an acquire replaces

		DisableGeneralOptionsHandler: true, // it bounds no time
	}
	s.http.RegisterOnShutdown(s.handler.ui.Stop)
}

// connState passes changes of connections on to the limit and to the idle watch.
func (s *Server) connState(c net.Conn, state http.ConnState) {
	s.handler.connections.ConnState(c, state)
	if s.idle != nil {
		s.idle.ConnState(c, state)
	}
}

// Close closes the store and the election of a server that will not serve.
// [Server.Serve] calls it when it ends.
func (s *Server) Close() error {
	s.handler.gate.Close()
	var errs []error
	if s.lead != nil {
		errs = append(errs, s.lead.Close())
	}
	if s.election != nil {
		errs = append(errs, s.election.Close())
	}
	if s.store != nil {
		errs = append(errs, s.store.Close())
	}
	return errors.Join(errs...)
}

// setTerm makes the handler answer calls from t.
func (s *Server) setTerm(t *term) {
	s.term = t
	s.handler.current.Store(t)
}

// startTerm begins a term from the state in st, and makes the handler answer calls from it.
func (s *Server) startTerm(st store.Store) error {
	s.poolsMu.Lock() // or the term might miss a change that found no leader
	defer s.poolsMu.Unlock()
	t, err := beginTerm(s.pools, st, s.terms)
	if err != nil {
		return err
	}
	for _, c := range s.pools {
		s.logStart(c, t.totals())
	}
	s.setTerm(t)
	return nil
}

// idOfStore returns how to get the id of the store: an election learns the id only later.
func (s *Server) idOfStore() func() string {
	if s.election != nil {
		return s.election.ID
	}
	id := rand.Text()
	if s.store != nil {
		id = s.store.ID()
	}
	return func() string { return id }
}

// ServeHTTP implements [http.Handler]. It answers one call as [Server.Serve] does, but without
// the bounds on connections and their time. Only tests use it.
func (s *Server) ServeHTTP(w http.ResponseWriter, r *http.Request) { s.handler.ServeHTTP(w, r) }

// SetAuth replaces who may ask, from the next request on. Nil makes the server ask for no
// tokens. What a caller who is removed holds stays until its TTL is over. It is safe to call while
// the server serves.
func (s *Server) SetAuth(c *auth.Config) { s.handler.gate.Set(c) }

// SetPools replaces the pools, as [pool.Set.Reconfigure] says, and blocks until that is
// durable. Waiters that the new pools can never serve are answered. A standby keeps the
// pools for its next term. After an error the old pools stay. It is safe to call while
// the server serves.
func (s *Server) SetPools(pools []pool.Config) error {
	s.poolsMu.Lock()
	defer s.poolsMu.Unlock()
	var totals []pool.PoolStatus
	err := s.handler.term().attempt(func(set *pool.Set, now time.Duration) error {
		err := set.Reconfigure(now, pools)
		totals = set.Totals(now)
		return err
	})
	if errors.Is(err, store.ErrNotLeader) {
		err = pool.Check(pools) // the next term begins with them
	}
	if err != nil {
		return err
	}
	s.logPools(pools, totals)
	s.pools = pools
	s.handler.metrics.Configured(pools)
	return nil
}

// logPools logs which pools were added, changed or removed, and which of them ignore their start. totals
// is their state. The caller holds s.poolsMu.
func (s *Server) logPools(pools []pool.Config, totals []pool.PoolStatus) {
	before := make(map[string]pool.Config)
	for _, c := range s.pools {
		before[c.Type] = c
	}
	for _, c := range pools {
		was, there := before[c.Type]
		delete(before, c.Type)
		if !there {
			s.handler.log.Info("pool added", "type", c.Type, "capacity", c.Capacity())
			s.logStart(c, totals)
		} else if !reflect.DeepEqual(was, c) {
			s.handler.log.Info("pool changed", "type", c.Type, "capacity", c.Capacity(), "before", was.Capacity())
			s.logStart(c, totals)
		}
	}
	for _, typ := range slices.Sorted(maps.Keys(before)) {
		s.handler.log.Info("pool removed", "type", typ, "before", before[typ].Capacity())
	}
}

// logStart logs if the pool of c ignores its start, since reports have moved the limit. totals is the state
// of the pools.
func (s *Server) logStart(c pool.Config, totals []pool.PoolStatus) {
	if c.Adapt == nil || c.Adapt.Start == 0 {
		return
	}
	for _, st := range totals {
		if st.Type == c.Type && st.Moved != (pool.Move{}) {
			s.handler.log.Info("start ignored: reports have moved the limit", "type", c.Type, "start", c.Adapt.Start, "limit", st.Limit)
		}
	}
}

// Reloaded tells the server the result of reading the files of source again: nil if their
// settings are in use, else why the old settings stay. The result goes to the log and
// the metrics. An error is also a warning in [leaseapi.PathReady] until source is read
// without one. An error that says that the server refuses every call is ignored: the files
// are not at fault.
func (s *Server) Reloaded(source string, err error) {
	if refusesAll(err) {
		return
	}
	s.handler.metrics.Reloaded(source, err == nil)
	if err != nil {
		s.handler.log.Error("reload failed: everything stays as it was", "source", source, "error", err)
		s.handler.warnings.set(source, "not taken up: "+err.Error())
		return
	}
	s.handler.log.Info("reloaded", "source", source)
	s.handler.warnings.set(source, "")
}
