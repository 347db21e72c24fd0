package holder

import "context"

// Acquire takes leases into a handle. If r.Shared is set, it may instead join a lease that
// other commands of this machine hold. It blocks for the jitter and then at most for the wait
// timeout, and some seconds more if the proxy does not answer. If ctx ends, it stops and
// returns the cause of ctx.
//
// Errors are [ErrInvalid], [ErrHeld], [ErrReplaced], those of [proxyclient.Client.Acquire], and
// those of files. After an error no lease is held; if one may be held all the same, the journal
// has its request, and the error says so.
func (h *Holder) Acquire(ctx context.Context, r Request) (*Lease, error) {
	if r.Shared != nil {
		return h.acquireShared(ctx, r)
	}
	return h.acquire(ctx, r)
}
