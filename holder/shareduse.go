package holder

import (
	"context"
	"errors"
	"fmt"
	mathrand "math/rand/v2"
	"strings"
	"sync"
	"time"

	"github.com/leasectl/leasectl/leaseapi"
	"github.com/leasectl/leasectl/lockfile"
	"github.com/leasectl/leasectl/proxyclient"
)

// sharedUse is this command's part in a round. It is a [part].
type sharedUse struct {
	sharedName
	use   *lockfile.Use
	round lockfile.Round // as it was when the use was reserved, or renewed since
	ended bool
}

// roundLease is the lease of a round, for one who has a part in it.
func roundLease(h *Holder, r lockfile.Round, p part) *Lease {
	handle, _ := lockfile.OpenHandle(r.Handle) // that was opened when the round began
	leases := wireLeases(r.Leases)
	return &Lease{
		h: h, handle: handle, kind: lockfile.KindAcquire, phase: recorded, part: p,
		record: lockfile.Record{
			State: lockfile.StateHeld, RequestID: r.RequestID, Owner: r.Owner, Type: r.Type, Count: r.Count,
			Proxy: r.Proxy, TTL: r.Granted, Leases: r.Leases, AcquiredAt: r.Since,
		},
		grant: &proxyclient.Grant{
			RequestID: r.RequestID, Leases: leases, TTL: r.Granted, RenewEvery: r.RenewEvery,
			Capabilities: proxyclient.CapabilitiesOf(leases),
		},
	}
}

// uses implements [part].
func (u *sharedUse) uses() string {
	own := fmt.Sprintf("%s/%s/%d", u.key(), u.use.Round, u.use.N)
	if u.asked.Within == "" {
		return own
	}
	return u.asked.Within + "," + own
}

const (
	// sharedConfirm is how long after the grant the first renewal is due, which
	// confirms it, and how long after it has taken over the renewals a user makes
	// its first: the one before may have been in the middle of one.
	sharedConfirm = time.Second
	// sharedWatch is how often a user looks for a renewal that is overdue, for a
	// lost lease, and for renewals to take over: a read of some ten microseconds.
	sharedWatch = time.Second
)

// errGivenBack is why a shared lease is lost that somebody gave back through its
// handle.
var errGivenBack = fmt.Errorf("%w: given back through its handle", proxyclient.ErrLost)

// keep implements [part]. See [Lease.Keep].
func (u *sharedUse) keep(ctx context.Context, o KeepOptions) (kept context.Context, stop func()) {
	return keepWith(ctx, func(ctx context.Context, lose func(error)) {
		k := &roundKeeper{sharedUse: u, margin: o.Margin, lose: lose}
		k.run(ctx, o.ConfirmAfter)
	})
}

// keepWith runs a keeper of a lease until stop is called, in the way of [Lease.Keep].
func keepWith(ctx context.Context, run func(ctx context.Context, lose func(error))) (kept context.Context, stop func()) {
	kept, lose := context.WithCancelCause(context.WithoutCancel(ctx))
	ctx, cancel := context.WithCancel(context.WithoutCancel(ctx))
	var keeping sync.WaitGroup
	keeping.Go(func() { run(ctx, func(err error) { lose(lossOf(err)) }) })
	return kept, func() {
		cancel()
		keeping.Wait()
		lose(nil)
	}
}

// roundKeeper watches over a round for one user, and renews it if that falls to
// this one.
type roundKeeper struct {
	*sharedUse
	margin time.Duration
	lose   func(error)

	unlock  func() error  // of the renewals; nil: another user makes them
	confirm time.Duration // when to renew at the latest, since they were taken over; zero: that is done
	jitter  time.Duration // so that not all users notice an overdue renewal at once
	lastErr error         // of the last renewal
}

// run keeps the round until ctx ends or the proxy says that the lease is lost.
func (k *roundKeeper) run(ctx context.Context, after time.Duration) {
	if !renews(k.round) {
		return // its leases last until they are released
	}
	defer func() {
		if k.unlock != nil {
			k.unlock()
		}
	}()
	k.jitter = mathrand.N(k.round.Granted/32 + 1)
	pause := min(after, k.round.RenewedAt+k.round.RenewEvery-k.now())
	for proxyclient.Sleep(ctx, pause) == nil {
		if done := k.look(ctx); done {
			return
		}
		pause = k.next()
	}
}

// look reads the record, and does what is due. It reports whether the lease is lost
// for good.
func (k *roundKeeper) look(ctx context.Context) (done bool) {
	record, err := k.file.Read()
	if err != nil {
		k.h.report.Debugf("%v", err)
		return false // the lease is not worth less
	}
	r := record.Round(k.use.Round)
	switch {
	case r == nil:
		k.lose(fmt.Errorf("the round of shared lease %q was removed: %w", k.shown, proxyclient.ErrLost))
		return true
	case r.Lost != "":
		k.lose(errors.New(r.Lost))
		return true
	case givenBack(r):
		k.lose(errGivenBack)
		return true
	}
	k.round = *r
	k.takeOver()
	if k.now() >= k.limit() {
		k.lose(&proxyclient.LostError{Deadline: proxyclient.AfterBoot(r.Deadline), Err: k.lastErr})
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

// takeOver takes the renewals if the user that made them has ended.
func (k *roundKeeper) takeOver() {
	if k.unlock != nil {
		return
	}
	if unlock, err := k.file.LockRenewal(k.use.Round); err == nil {
		k.unlock, k.confirm = unlock, k.now()+sharedConfirm
	}
}

// due is when this user renews: in its turn, or if half of the time has gone by
// without a renewal of those whose turn it is, and in any case before the limit.
func (k *roundKeeper) due() time.Duration {
	turn := k.round.RenewedAt + k.round.RenewEvery
	switch {
	case k.unlock == nil:
		half := k.round.RenewedAt + (k.round.Deadline-k.round.RenewedAt)/2
		return min(half, (turn+k.limit())/2) + k.jitter
	case k.confirm > 0:
		return min(turn, k.confirm)
	}
	return turn
}

// limit is when the lease counts as lost.
func (k *roundKeeper) limit() time.Duration {
	return k.round.Deadline - min(k.margin, (k.round.Deadline-k.round.RenewedAt)/2)
}

// next is how long to wait before the next look.
func (k *roundKeeper) next() time.Duration {
	pause := min(sharedWatch, k.round.Granted/10, k.due()-k.now())
	if before := k.limit() - k.now(); before > 0 {
		pause = min(pause, before)
	}
	least := sharedWatch / 100
	if k.lastErr != nil {
		least = min(sharedWatch, k.round.Granted/10)
	}
	return max(pause, least)
}

// renewLate renews the round for all its users. A renewal that is overdue is worth
// finishing when the command has ended, since the next command may be as short.
func (k *roundKeeper) renewLate(ctx context.Context) error {
	ctx, cancel := boundRelease(ctx, max(sharedConfirm, min(ReleaseTimeout, k.limit()-k.now())))
	defer cancel()
	err := k.renew(ctx, k.round)
	if err != nil {
		k.h.report.Debugf("%v: trying again", err)
	}
	return err
}

// renew renews a round once, for its TTL, and writes down what came of it.
func (u *sharedUse) renew(ctx context.Context, r lockfile.Round) error {
	return u.renewFor(ctx, r, r.Granted)
}

func (u *sharedUse) renewFor(ctx context.Context, r lockfile.Round, ttl time.Duration) error {
	failpoint("round-renewal-unsent")
	client, err := u.h.dialer.dial(ctx, u.h.dialer.of(r.Proxy))
	if err != nil {
		return err
	}
	renewal, err := client.Renew(ctx, wireLeases(r.Leases), ttl)
	failpoint("round-renewal-answered")
	lost, isLost := errors.AsType[*proxyclient.LostError](err)
	if err != nil && !isLost {
		return err
	}
	writing, done := writeContext(ctx)
	defer done()
	werr := u.file.Update(writing, func(tx *lockfile.SharedTx) error {
		now := tx.Round(r.ID)
		switch {
		case now == nil:
		case isLost:
			now.Lost = lost.Error()
		case renewal.Asked.SinceBoot() > now.RenewedAt || now.State == lockfile.RoundRenewing:
			now.RenewedAt, now.RenewEvery = renewal.Asked.SinceBoot(), renewal.RenewEvery
			now.Deadline = renewal.Deadline.SinceBoot()
		}
		return nil
	})
	if isLost {
		return err
	}
	u.h.report.Debugf("renewed %s for %s", strings.Join(r.Names(), ", "), leaseapi.Duration(renewal.TTL))
	return werr
}

// leave implements [part]: it ends the use. The last user gives the lease back, or
// leaves it to linger.
func (u *sharedUse) leave(ctx context.Context) (released []string, err error) {
	if u.ended {
		return nil, nil
	}
	ctx, cancel := releaseContext(ctx)
	defer cancel()
	last, err := u.endUse(ctx)
	if err != nil || !last {
		return nil, err
	}
	failpoint("round-ending")
	if u.round.State == lockfile.RoundRenewing {
		if err := u.leaveLingering(ctx); err == nil {
			return nil, nil
		}
	}
	handle, err := OpenHandle(u.round.Handle)
	if err == nil {
		released, err = u.h.giveBack(ctx, handle, Anything)
	}
	failpoint("round-given-back")
	writing, done := writeContext(ctx)
	defer done()
	return released, errors.Join(err, u.removeRound(writing, handle))
}

// endUse ends the use, unless it is the last one: then it stands until the round's
// end, and the record says what this user is about to do.
func (u *sharedUse) endUse(ctx context.Context) (last bool, err error) {
	err = u.file.Update(ctx, func(tx *lockfile.SharedTx) error {
		u.ended = true
		r := tx.Round(u.use.Round)
		if r == nil || tx.Live(r, u.use.N) {
			return tx.End(u.use)
		}
		last, r.By, r.State = true, u.use.N, lockfile.RoundReleasing
		if u.asked.Linger > 0 && renews(*r) && !u.over(r) && !r.Expired(u.now()) {
			// Whatever becomes of the renewal, the lease lasts until then.
			r.State, r.Deadline = lockfile.RoundRenewing, min(r.Deadline, u.now()+u.asked.Linger)
		}
		u.round = *r
		return nil
	})
	return last, err
}

// leaveLingering renews the lease once more, and leaves it to end. If the proxy does
// not renew it, the lease is to be given back, as the record then says.
func (u *sharedUse) leaveLingering(ctx context.Context) error {
	failed := u.renewFor(ctx, u.round, u.asked.Linger)
	ctx, done := writeContext(ctx)
	defer done()
	return errors.Join(failed, u.file.Update(ctx, func(tx *lockfile.SharedTx) error {
		r := tx.Round(u.use.Round)
		switch {
		case r == nil:
			return tx.End(u.use)
		case failed != nil:
			r.State = lockfile.RoundReleasing
			return nil
		}
		r.State, r.By, r.Lingers = lockfile.RoundHeld, 0, true
		u.h.report.Notef("%s lingers for %s", strings.Join(r.Names(), ", "), leaseapi.Duration((r.Deadline - r.RenewedAt).Round(time.Millisecond)))
		return tx.End(u.use)
	}))
}

// removeRound removes a round whose lease is given back, or owed by its handle.
func (u *sharedUse) removeRound(ctx context.Context, handle lockfile.Handle) error {
	return u.file.Update(ctx, func(tx *lockfile.SharedTx) error {
		if err := tx.End(u.use); err != nil {
			return err
		}
		if stillHeld(handle) {
			return nil // for the next user, or recover
		}
		return tx.Remove(u.use.Round)
	})
}
