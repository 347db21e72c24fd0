package proxyserver

import (
	"github.com/leasectl/leasectl/proxyserver/eventlog"
	"github.com/leasectl/leasectl/proxyserver/store"
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
