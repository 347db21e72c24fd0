package pool

import "errors"

// WaitEnd is how a wait ended without a lease, in a word for people and metrics.
type WaitEnd string

// The ends of a wait.
const (
	WaitTimedOut     WaitEnd = "timed out"
	WaitCancelled    WaitEnd = "cancelled"    // by its client
	WaitGone         WaitEnd = "gone"         // its client did not come back
	WaitRemoved      WaitEnd = "removed"      // by an operator
	WaitReconfigured WaitEnd = "reconfigured" // the pool can no longer serve it
	WaitCoalesced    WaitEnd = "coalesced"    // the run that it joined has ended
	WaitSuperseded   WaitEnd = "superseded"   // by a newer request
)

// WaitEnds are all ends of a wait.
var WaitEnds = []WaitEnd{WaitTimedOut, WaitCancelled, WaitGone, WaitRemoved, WaitReconfigured, WaitCoalesced, WaitSuperseded}

// WaitEnd returns how the wait of a [Dropped] request ended.
func (c *Change) WaitEnd() WaitEnd {
	_, removed := errors.AsType[*RemovedError](c.Err)
	if merged, ok := errors.AsType[*CoalescedError](c.Err); ok {
		if _, ran := merged.Result.ExitCode(); ran {
			return WaitCoalesced
		}
		return WaitSuperseded
	}
	switch {
	case c.Err == nil:
		return WaitGone
	case removed:
		return WaitRemoved
	case errors.Is(c.Err, ErrExhausted):
		return WaitTimedOut
	case errors.Is(c.Err, ErrEnded):
		return WaitCancelled
	}
	return WaitReconfigured
}

// WaitEndWhy says for people why the wait of a Dropped request ended: the reason of the
// operator, or else the error. Err must not be nil.
func (c *Change) WaitEndWhy() string {
	if removed, ok := errors.AsType[*RemovedError](c.Err); ok {
		return removed.Reason
	}
	return c.Err.Error()
}
