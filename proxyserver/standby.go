package proxyserver

import (
	"log/slog"

	"github.com/leasectl/leasectl/proxyserver/store"
)

// standbyTerm returns a term that refuses every call with who leads instead.
func standbyTerm(e store.Election, m *metrics, log *slog.Logger) *term {
	return &term{committer: committer{
		clock: startClock(0, nil, nil), metrics: m, log: changeLog{Logger: log},
		commitSem: make(chan struct{}, 1), failed: make(chan struct{}), waiting: make(waiters), open: newBatch(0),
		haltErr: &notLeaderError{e, store.ErrNotLeader},
	}}
}
