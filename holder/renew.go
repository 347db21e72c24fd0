package holder

import (
	"context"
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
	p, err := h.dialer.dialRecorded(ctx, r)
	if err != nil {
		return 0, err
	}
	renewal, err := p.Renew(ctx, grantOf(r.Leases, r.Adapter).Grant.Leases, ttl)
	if err != nil {
		return 0, err // it says what was tried, and names the lost leases
	}
	return renewal.TTL, nil
}
