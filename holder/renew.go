package holder

import (
	"context"
	"fmt"
	"time"

	"github.com/leasectl/leasectl/lockfile"
)

// Renew renews the leases of a handle once, and returns for how long. A zero ttl renews each
// for as long as before. r is the handle's record as read. It takes at most [ReleaseTimeout].
// The error is [proxyclient.ErrLost] if a lease is lost, and [errors.ErrUnsupported] with a
// version-1 proxy.
func (h *Holder) Renew(ctx context.Context, handle lockfile.Handle, r lockfile.Record, ttl time.Duration) (time.Duration, error) {
	if err := checkAcquired(handle, r, "renew"); err != nil {
		return 0, err
	}
	ctx, cancel := context.WithTimeout(ctx, ReleaseTimeout)
	defer cancel()
	client, err := h.dialer.dialRecorded(ctx, r)
	if err != nil {
		return 0, err
	}
	renewal, err := client.Renew(ctx, wireLeases(r.Leases), ttl)
	if err != nil {
		return 0, err // it says what was tried, and names the lost leases
	}
	return renewal.TTL, nil
}

// checkAcquired refuses a handle that holds no lease which was acquired into it. verb says in
// the error what the caller wants to do with the lease.
func checkAcquired(handle lockfile.Handle, r lockfile.Record, verb string) error {
	switch {
	case r.State == "":
		return fmt.Errorf("handle %s is gone: there is no lease to %s: acquire one", handle.Path(), verb)
	case r.State != lockfile.StateHeld:
		return notHeldError(handle, r)
	case bareHandle(r):
		return fmt.Errorf("handle %s has names and nothing else, as a copy has: %s the handle that acquire wrote", handle.Path(), verb)
	}
	return nil
}
