package proxyserver

import (
	"errors"
	"log/slog"
	"math"
	"net/http"
	"sync"
	"sync/atomic"
	"time"

	"github.com/leasectl/leasectl/pool"
)

// DefaultMaxWait is how long an acquire waits that does not say how long: as
// long as deployed proxies let clients of version 1 wait.
const DefaultMaxWait = 2 * time.Hour

// never is a time on the lease clock that does not come.
const never time.Duration = math.MaxInt64

// Options says what a server serves, and how. Only Pools is required.
type Options struct {
	Pools []pool.Config

	// Data is the directory of the store, made with mode 0700 if it is not
	// there. Empty: state is in memory only.
	Data string

	Log     *slog.Logger  // nil: no log
	Version string        // of the program, for [leaseapi.Health]
	MaxWait time.Duration // of an acquire that names no wait; zero: [DefaultMaxWait]
	Idle    *Idle         // nil: the server does not stop by itself
	Tokens  Tokens        // nil: whoever can connect may do everything

	now func() time.Time // nil: [time.Now]; tests set the wall clock with it
}

// Server is a lease proxy. [New] makes one.
type Server struct {
	opts   Options
	log    *slog.Logger
	store  *store // nil: in memory
	clock  clock
	http   http.Server
	leader chan struct{} // holds a value while somebody commits

	metrics  *metrics
	tokens   atomic.Pointer[Tokens]
	warnings warnings

	mu       sync.Mutex // guards what follows; never held during I/O
	set      *pool.Set
	waiting  map[string]*waiter // by request id
	onces    uint64             // number of the last request without an id
	open     *batch             // collects what is not committed yet
	flying   *batch             // is being committed; nil: none is
	saved    time.Duration      // lease clock as it was last committed
	closed   error              // why nothing is done any more; nil while all is well
	finished bool               // the last commit is under way, or over
	conns    int                // open connections

	alarm     *time.Timer   // fires when the pools have something to do
	armed     time.Duration // when, on the lease clock
	idleSince time.Duration // when the last lease, waiter or connection went; negative: there are some
	idle      *time.Timer   // fires when that may be long enough ago
}

// New opens the store and takes up what it holds. The caller must call Serve,
// or Close if it comes to that. Errors are those of [pool.New], a store that
// cannot be read, which stays as it is, and [ErrInUse].
func New(opts Options) (*Server, error) {
	s := &Server{
		opts:      opts,
		log:       opts.Log,
		leader:    make(chan struct{}, 1),
		waiting:   make(map[string]*waiter),
		open:      newBatch(),
		alarm:     time.NewTimer(0),
		armed:     0, // the first round arms it for what was restored
		idle:      time.NewTimer(0),
		idleSince: -1,
		metrics:   newMetrics(),
	}
	s.SetTokens(opts.Tokens)
	if s.log == nil {
		s.log = slog.New(slog.DiscardHandler)
	}
	if s.opts.MaxWait == 0 {
		s.opts.MaxWait = DefaultMaxWait
	}
	var snap pool.Snapshot
	if opts.Data != "" {
		var err error
		if s.store, snap, err = openStore(opts.Data); err != nil {
			return nil, err
		}
	}
	s.clock = startClock(snap.Clock, opts.now)
	snap.Generation = s.clock.beyond(snap.Generation)
	var err error
	if s.set, err = pool.New(opts.Pools, snap); err != nil {
		return nil, errors.Join(err, s.Close())
	}
	s.metrics.configured(opts.Pools)
	s.saved = snap.Clock
	// A connection carries one request at a time: one that breaks is one
	// client that has gone.
	var onlyHTTP1 http.Protocols
	onlyHTTP1.SetHTTP1(true)
	s.http = http.Server{
		Handler:   s,
		Protocols: &onlyHTTP1,
		ConnState: s.connState,
		ErrorLog:  slog.NewLogLogger(s.log.Handler(), slog.LevelWarn),
		// No WriteTimeout and no ReadTimeout: both would cut a long wait. The
		// time for headers bounds a TLS handshake too.
		ReadHeaderTimeout: 10 * time.Second,
		IdleTimeout:       2 * time.Minute,
		MaxHeaderBytes:    16 << 10, // all parameters at their longest, escaped, are 3 KiB
	}
	return s, nil
}

// Close closes the store of a server that will not serve. Serve does it by
// itself.
func (s *Server) Close() error {
	if s.store == nil {
		return nil
	}
	return s.store.close()
}
