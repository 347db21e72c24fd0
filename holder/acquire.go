package holder

import "context"

// Acquire takes leases into a handle, or joins those that other commands of this
// machine hold, if the request says that it shares. It blocks for the jitter and at
// most the wait timeout (and some seconds for a proxy that does not answer); ctx
// ends both, and its cause is returned.
//
// Errors are [ErrInvalid], [ErrHeld], [ErrReplaced], those of
// [proxyclient.Client.Acquire], and those of files. After an error nothing is
// held, or what may be is in the journal and in the error.
func (h *Holder) Acquire(ctx context.Context, r Request) (*Lease, error) {
	if r.Shared != nil {
		return h.acquireShared(ctx, r)
	}
	return h.acquire(ctx, r)
}
