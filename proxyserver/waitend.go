package proxyserver

import (
	"errors"

	"github.com/leasectl/leasectl/pool"
)

// waitEnding is how a wait ended without a lease, in a word for logs and metrics.
type waitEnding string

const (
	waitTimedOut     waitEnding = "timed out"
	waitCancelled    waitEnding = "cancelled"    // by its client
	waitGone         waitEnding = "gone"         // its client did not come back
	waitRemoved      waitEnding = "removed"      // by an operator
	waitReconfigured waitEnding = "reconfigured" // the pool cannot serve it any longer
	waitCoalesced    waitEnding = "coalesced"    // the run that it joined has ended
	waitSuperseded   waitEnding = "superseded"   // by a newer request
)

var waitEndings = []waitEnding{waitTimedOut, waitCancelled, waitGone, waitRemoved, waitReconfigured, waitCoalesced, waitSuperseded}

// waitEnd returns how a wait ended whose connections were told err.
func waitEnd(err error) waitEnding {
	_, removed := errors.AsType[*pool.RemovedError](err)
	if merged, ok := errors.AsType[*pool.CoalescedError](err); ok {
		if _, ran := merged.Result.ExitCode(); ran {
			return waitCoalesced
		}
		return waitSuperseded
	}
	switch {
	case err == nil:
		return waitGone
	case removed:
		return waitRemoved
	case errors.Is(err, pool.ErrExhausted):
		return waitTimedOut
	case errors.Is(err, pool.ErrEnded):
		return waitCancelled
	}
	return waitReconfigured
}
