package proxyserver

import "github.com/leasectl/leasectl/proxyserver/store"

// standbyTerm returns a term that refuses every call with who leads instead.
func standbyTerm(opts termOptions) *term {
	return &term{committer: committer{
		clock: startClock(0, opts.now, opts.suspended), metrics: opts.metrics, log: changeLog{Logger: opts.log},
		commitSem: make(chan struct{}, 1), failed: make(chan struct{}), waiting: make(waiters), open: newBatch(0),
		haltErr: &notLeaderError{election: opts.election, cause: store.ErrNotLeader, standby: true},
	}}
}
