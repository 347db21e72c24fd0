package shared

import (
	"context"
	"errors"
	"fmt"
	mathrand "math/rand/v2"
	"strings"
	"time"

	"github.com/leasectl/leasectl/internal/holder"
	"github.com/leasectl/leasectl/internal/holder/cleanup"
	"github.com/leasectl/leasectl/internal/holder/failpoint"
	"github.com/leasectl/leasectl/leaseapi"
	"github.com/leasectl/leasectl/lockfile"
	"github.com/leasectl/leasectl/proxyclient"
)

// watchEvery is how often a user looks for an overdue renewal, for a lost lease, and for
// renewals to take over. A look is a read of some ten microseconds.
const watchEvery = time.Second

// Keep implements [holder.Part].
func (u *part) Keep(ctx context.Context, o holder.KeepOptions) (kept context.Context, stop func()) {
	return holder.KeepWith(ctx, 0, func(ctx context.Context, lose func(error)) {
		k := &renewer{part: u, seen: u.round, margin: o.Margin, lose: lose}
		k.run(ctx, o.ConfirmAfter)
	})
}

// renewer watches a round for one user, and renews it when it is that user's turn.
type renewer struct {
	*part
	seen      lockfile.Round // as last read
	margin    time.Duration
	lose      func(error)
	leaseOnly bool // this is the keeper of the service, which knows when that ends

	unlock  func() error  // gives up the renewals; nil: another user makes them
	confirm time.Duration // latest time of the first renewal after a takeover; zero: it was made
	jitter  time.Duration // so that not all users notice an overdue renewal at once
	lastErr error         // of the last renewal
}

// run keeps the round until ctx ends, or the lease is lost for good.
func (k *renewer) run(ctx context.Context, after time.Duration) {
	if !k.seen.Renews() {
		k.watchService(ctx) // the leases last until they are released
		return
	}
	defer func() {
		if k.unlock != nil {
			k.unlock()
		}
	}()
	k.jitter = mathrand.N(k.seen.Granted/32 + 1)
	pause := min(after, k.seen.RenewedAt+k.seen.RenewEvery-k.now())
	for proxyclient.Sleep(ctx, pause) == nil {
		if done := k.look(ctx); done {
			return
		}
		pause = k.next()
	}
}

// look reads the record, and renews the round if that is due. done tells whether the lease
// is lost for good.
func (k *renewer) look(ctx context.Context) (done bool) {
	record, err := k.file.Read()
	if err != nil { // the lease lasts all the same, but nobody knows for how long
		k.h.Reporter.Debugf("%v", err)
		k.lastErr = err
		if lost := k.overdue(&k.seen, k.margin, err); lost != nil {
			k.lose(lost)
		}
		return false
	}
	r := record.Round(k.use.Round)
	if r == nil {
		k.lose(fmt.Errorf("the round of shared lease %q was removed: %w", k.shown, proxyclient.ErrLost))
		return true
	}
	if err := k.loss(r); err != nil {
		k.lose(k.lateLoss(r, k.margin, err))
		return true
	}
	k.seen = *r
	k.takeOver()
	if at := releaseDue(r); !at.IsZero() && time.Until(at) < k.margin {
		k.lose(&holder.Loss{Err: errReleaseDue(at), Deadline: proxyclient.Now().Add(time.Until(at))})
		return true
	}
	if lost := k.overdue(r, k.margin, k.lastErr); lost != nil {
		k.lose(lost)
	}
	if k.now() < k.due() {
		return false
	}
	k.confirm = 0
	k.lastErr = k.renewLate(ctx)
	if lost, isLost := errors.AsType[*proxyclient.LostError](k.lastErr); isLost && len(lost.Lost) > 0 {
		k.lose(k.lastErr)
		return true
	}
	return false
}

// loss returns why the user has lost the round; nil if it has not. It does not look at the
// deadline.
func (k *renewer) loss(r *lockfile.Round) error {
	if k.leaseOnly {
		return roundLoss(r)
	}
	return k.useLoss(r)
}

// watchService waits until the service of a round ends, or ctx.
func (k *renewer) watchService(ctx context.Context) {
	for k.seen.Service != nil && !k.leaseOnly && proxyclient.Sleep(ctx, watchEvery) == nil {
		record, err := k.file.Read()
		if r := record.Round(k.use.Round); err == nil && r != nil {
			if err := k.useLoss(r); err != nil {
				k.lose(err)
				return
			}
		}
	}
}

// takeOver takes over the renewals if the user that made them has ended.
func (k *renewer) takeOver() {
	if k.unlock != nil {
		return
	}
	if unlock, err := k.file.LockRenewal(k.use.Round); err == nil {
		k.unlock, k.confirm = unlock, k.now()+confirmWithin
	}
}

// due returns when this user renews. The user that has the renewals renews in its turn. The
// others renew when half of the time has gone by without a renewal, and in any case before the
// limit.
func (k *renewer) due() time.Duration {
	turn := k.seen.RenewedAt + k.seen.RenewEvery
	switch {
	case k.unlock == nil:
		half := k.seen.RenewedAt + (k.seen.Deadline-k.seen.RenewedAt)/2
		return min(half, (turn+k.limit())/2) + k.jitter
	case k.confirm > 0:
		return min(turn, k.confirm)
	}
	return turn
}

// limit returns when the lease counts as lost.
func (k *renewer) limit() time.Duration { return lossLimit(&k.seen, k.margin) }

// lossLimit returns when the lease of a round counts as lost, for those who need a margin before its end.
func lossLimit(r *lockfile.Round, margin time.Duration) time.Duration {
	return r.Deadline - min(margin, (r.Deadline-r.RenewedAt)/2)
}

// overdue returns the loss of a round that was not renewed in time, as far as r tells; nil: it lasts. cause is
// why not, if that is known.
func (l lease) overdue(r *lockfile.Round, margin time.Duration, cause error) error {
	if r.Deadline == 0 || l.now() < lossLimit(r, margin) {
		return nil
	}
	var lost error = &proxyclient.LostError{Deadline: proxyclient.AfterBoot(r.Deadline), Err: cause}
	if r.RenewEvery <= holder.ConfirmAfter { // the first renewal would have changed it
		lost = holder.UnconfirmedLoss(lost, r.Granted)
	}
	return lost
}

// lateLoss adds to why a round is lost when its lease ends, if that is near or over: after a stop of
// all users nobody has time left to end in peace.
func (l lease) lateLoss(r *lockfile.Round, margin time.Duration, why error) error {
	if l.overdue(r, margin, nil) == nil {
		return why
	}
	return &holder.Loss{Err: why, Deadline: proxyclient.AfterBoot(r.Deadline)}
}

// next returns how long to wait before the next look.
func (k *renewer) next() time.Duration {
	pause := min(watchEvery, k.seen.Granted/10, k.due()-k.now())
	if before := k.limit() - k.now(); before > 0 {
		pause = min(pause, before)
	}
	least := watchEvery / 100
	if k.lastErr != nil {
		least = min(watchEvery, k.seen.Granted/10)
	}
	return max(pause, least)
}

// renewLate renews the round for all its users. It goes on even if the command has ended, since
// the next command may be too short to renew, too.
func (k *renewer) renewLate(ctx context.Context) error {
	ctx, cancel := cleanup.Within(ctx, max(confirmWithin, min(cleanup.Timeout, k.limit()-k.now())))
	defer cancel()
	err := k.renew(ctx, k.seen, k.seen.Granted)
	if err != nil {
		k.h.Reporter.Debugf("%v: trying again", err)
	}
	return err
}

// confirmWithin is when a user that takes over the renewals makes its first at the latest: the user
// before it may have ended in the middle of one.
const confirmWithin = time.Second

// renew renews a round once, for ttl, and writes the result into the record.
func (l lease) renew(ctx context.Context, r lockfile.Round, ttl time.Duration) error {
	failpoint.Here("round-renewal-unsent")
	client, err := l.h.Dialer.Dial(ctx, l.h.Dialer.Noted(r.Proxy))
	if err != nil {
		return err
	}
	renewal, err := client.Renew(ctx, lockfile.Wire(r.Leases), ttl)
	failpoint.Here("round-renewal-answered")
	lost, isLost := errors.AsType[*proxyclient.LostError](err)
	if err != nil && !isLost {
		return err
	}
	werr := l.note(ctx, func(tx *lockfile.SharedTx) error {
		now := tx.Round(r.ID)
		switch {
		case now == nil:
		case isLost:
			now.Lost = lost.Error()
		case renewal.Asked.SinceBoot() > now.RenewedAt || now.State == lockfile.RoundRenewing:
			now.RenewedAt, now.RenewEvery = renewal.Asked.SinceBoot(), renewal.RenewEvery
			now.Deadline, now.ReleaseAt = renewal.Deadline.SinceBoot(), time.Time{}
			if renewal.Deadline.Sub(renewal.Asked) < renewal.TTL {
				now.ReleaseAt = time.Now().Add(proxyclient.Until(renewal.Deadline)).Round(0)
			}
		}
		return nil
	})
	if isLost {
		return err
	}
	l.h.Reporter.Debugf("renewed %s for %s", strings.Join(r.Names(), ", "), leaseapi.Duration(renewal.TTL))
	return werr
}
