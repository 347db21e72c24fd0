// Package eventlog logs what happens to leases, waiters and pools: a line for each event,
// with who, what and how long.
//
// The lines of a request are in order: the line that its wait began comes before the line
// that says how the wait ended, whichever goroutines write them.
package eventlog

import (
	"context"
	"log/slog"
	"sync"
	"time"

	"github.com/leasectl/leasectl/internal/pool"
	"github.com/leasectl/leasectl/leaseapi"
)

// Log writes events. [New] makes one. Its methods block as long as the handler of the
// logger does.
type Log struct {
	lines

	writing sync.Mutex // held while arrivals are written; taken before mu
	mu      sync.Mutex // guards arrived; never held during I/O
	arrived []arrival  // requests that began to wait and have no line yet
}

type arrival struct {
	pool.Request
	at pool.Place
}

// New returns a log that writes to logger. until returns how long it is from now to a time
// on the lease clock.
func New(logger *slog.Logger, until func(at time.Duration) time.Duration) *Log {
	return &Log{lines: lines{logger, until}}
}

// Arrived notes that a request began to wait, or has come back to its place after a
// restart. It does not block: the line is written by the next [Log.WriteArrived] or
// [Log.Changed].
func (l *Log) Arrived(r pool.Request, at pool.Place) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.arrived = append(l.arrived, arrival{r, at})
}

// WriteArrived blocks until every request that [Log.Arrived] noted has its line, whichever
// goroutine writes it.
func (l *Log) WriteArrived() {
	l.writing.Lock()
	defer l.writing.Unlock()
	l.mu.Lock()
	arrived := l.arrived
	l.arrived = nil
	l.mu.Unlock()
	for _, r := range arrived {
		l.queued(r.Request, r.at)
	}
}

// Changed writes the lines of changes, which must be durable: one for each grant, each end
// of a lease, each wait that ended without a lease, each act of an operator, and each other
// thing that holders did to leases and limits.
func (l *Log) Changed(changes []pool.Change) {
	l.WriteArrived() // else a wait might end in the log before it begins
	if !l.logger.Enabled(context.Background(), slog.LevelInfo) {
		return
	}
	for i := range changes {
		l.change(&changes[i])
	}
}

// Circle writes a warning for a request that waits for leases of an owner which waits for leases of the
// request's own owner: neither goes unless one of them gives up.
func (l *Log) Circle(r pool.Request, reason leaseapi.WaitReason) {
	l.requestAt(slog.LevelWarn, "waits in a circle", r, slog.String("reason", reason.String()))
}

// Ending writes a warning for a lease that ends soon, of a version-1 client, which does not
// renew it.
func (l *Log) Ending(lease pool.Lease) {
	l.leaseAt(slog.LevelWarn, "ending", lease,
		slog.Duration("ends_in", round(l.until(lease.Ends()))),
		slog.String("reason", "a version-1 client does not renew: if it still works, another gets the name: v1_ttl of the pool is for how long"))
}
