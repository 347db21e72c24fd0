package proxyserver

import (
	"github.com/leasectl/leasectl/internal/proxyserver/eventlog"
	"github.com/leasectl/leasectl/internal/proxyserver/store"
)

// standbyTerm returns a term that refuses every call, and names the leader.
func standbyTerm(opts termOptions) *term {
	clock := startClock(0, opts.now, opts.suspended)
	return &term{committer: committer{
		clock: clock, metrics: opts.metrics, log: opts.log, events: eventlog.New(opts.log, clock.until),
		commitSem: make(chan struct{}, 1), failed: make(chan struct{}), waiting: make(waiters), open: newBatch(0),
		haltErr: &notLeaderError{election: opts.election, cause: store.ErrNotLeader, standby: true},
	}}
}

// notLeaderError refuses a call because another server leads, or may lead.
type notLeaderError struct {
	election store.Election
	cause    error
	standby  bool // the term that refuses has never led
}

func (e *notLeaderError) Error() string { return e.cause.Error() }

// Is makes the error a [store.ErrNotLeader].
func (e *notLeaderError) Is(target error) bool { return target == store.ErrNotLeader }

func (e *notLeaderError) Unwrap() error { return e.cause }
