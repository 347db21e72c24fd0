package shared

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"time"

	"github.com/leasectl/leasectl/internal/holder"
	"github.com/leasectl/leasectl/internal/holder/cleanup"
	"github.com/leasectl/leasectl/internal/holder/failpoint"
	v1 "github.com/leasectl/leasectl/internal/holder/v1"
	"github.com/leasectl/leasectl/leaseapi"
	"github.com/leasectl/leasectl/lockfile"
)

// part is this command's part in a round. It is a [holder.Part].
type part struct {
	lease
	use   *lockfile.Use
	round lockfile.Round // as it was when the use began
	ended bool
}

// join returns the lease of a round, with p as the part of the caller.
func (l lease) join(r lockfile.Round, p holder.Part) *holder.Lease {
	handle, _ := lockfile.OpenHandle(r.Handle) // no error: it was opened when the round began
	grant := v1.GrantOf(r.Leases, r.Adapter)
	units := r.Units
	if units > 0 { // a resize writes the new number into the handle
		if now, err := handle.Read(); err == nil && now.RequestID == r.RequestID && now.Units > 0 {
			units = now.Units
		}
	}
	grant.RequestID, grant.Units, grant.Unit, grant.TTL, grant.RenewEvery = r.RequestID, units, r.Unit, r.Granted, r.RenewEvery
	return l.h.Join(handle, l.recordOf(r), grant, p)
}

// recordOf returns the record of the handle of a round.
func (l lease) recordOf(r lockfile.Round) lockfile.Record {
	return l.h.Dialer.Seal(lockfile.Record{
		State: lockfile.HandleHeld, RequestID: r.RequestID, Owner: r.Owner, Ask: leaseapi.Ask{Type: r.Type, Count: r.Count},
		Proxy: r.Proxy, TTL: r.Granted, Leases: r.Leases, Adapter: r.Adapter, AcquiredAt: r.Since, Taker: r.Taker, Store: r.Store,
	})
}

// variablesOf returns the variables that the service of a round has announced.
func variablesOf(r lockfile.Round) []string {
	if r.Service == nil {
		return nil
	}
	return r.Service.Variables
}

// Variables implements [holder.Part].
func (u *part) Variables() []string { return variablesOf(u.round) }

// Uses implements [holder.Part].
func (u *part) Uses() string {
	own := fmt.Sprintf("%s/%s/%d", u.key(), u.use.Round, u.use.N)
	if u.options.Within == "" {
		return own
	}
	return u.options.Within + "," + own
}

// Release implements [holder.Part]: it ends the use. The last user gives the lease back, or leaves it
// to linger.
func (u *part) Release(ctx context.Context) (released []string, err error) {
	if u.ended {
		return nil, nil
	}
	caller := ctx
	ctx, cancel := cleanup.Context(ctx)
	defer cancel()
	left, err := u.endUse(ctx)
	if err != nil {
		left, err = u.endUnwritten(ctx, err)
	}
	round := left.round
	if err != nil || round == nil {
		return nil, err
	}
	if left.kept {
		return u.leaveService(caller, left)
	}
	failpoint.Here("round-ending")
	if round.State == lockfile.RoundRenewing {
		if err := u.leaveLingering(ctx, *round); err == nil {
			return nil, nil
		}
	}
	released, err = u.releaseLease(ctx, *round)
	failpoint.Here("round-given-back")
	return released, errors.Join(err, u.removeRound(ctx, *round, err))
}

// releaseLease gives back the lease of a round that nobody uses, even if a command has
// changed its handle. The handle is the round's alone, so a lease that a reacquire has put
// there is given back, too. If the round has no lease yet, the handle may have a request. The
// service of the round is dead before that.
func (l lease) releaseLease(ctx context.Context, r lockfile.Round) (released []string, err error) {
	if err := l.endService(ctx, r); err != nil {
		return nil, err
	}
	same := holder.Anything
	if lockfile.Certain(r.Leases) {
		same = func(r lockfile.Record) bool { return !r.Bare() } // a bare handle may be any text
	}
	return l.h.ReleaseAtPath(ctx, r.Handle, same, l.recordOf(r))
}

// leftRound is a round whose last user has left it.
type leftRound struct {
	round   *lockfile.Round // nil: it has other users, or is gone
	kept    bool            // a keeper ends it
	lingers bool            // the keeper leaves it to those who come next
}

// endUse ends the use, unless it is the last one. The last use stands until the round's end:
// endUse writes into the record what this user is about to do, and returns the round. If the round
// has a keeper, the last use ends, too.
func (u *part) endUse(ctx context.Context) (left leftRound, err error) {
	err = u.file.Update(ctx, func(tx *lockfile.SharedTx) error {
		u.ended = true
		r := tx.Round(u.use.Round)
		if r != nil {
			r.Peak = u.h.MergePeak(r.RequestID, r.Peak)
		}
		if r == nil || tx.HasLiveUser(r, u.use.N) {
			return tx.End(u.use)
		}
		if u.kept(r) {
			left.kept = true
			left.lingers = u.options.Linger > 0 && r.State == lockfile.RoundHeld && !u.roundEnded(r) && !r.Expired(u.now())
			if left.lingers {
				r.Service.LastsUntil = u.now() + u.options.Linger
			}
			left.round = new(*r)
			return tx.End(u.use)
		}
		r.By, r.State = u.use.N, lockfile.RoundReleasing
		if u.options.Linger > 0 && r.Renews() && !u.roundEnded(r) && !r.Expired(u.now()) {
			// The lease lasts until this deadline even if the renewal fails.
			r.State, r.Deadline = lockfile.RoundRenewing, min(r.Deadline, u.now()+u.options.Linger)
		}
		left.round = new(*r)
		return nil
	})
	return left, err
}

// endUnwritten is endUse if that failed because the record could not be written, as on a full disk,
// where files can still be removed. If this is the last use of the only round, it removes the record,
// and returns the round: its lease is given back all the same. A lease that would not end by itself
// stays in the record, for the next process that looks.
func (u *part) endUnwritten(ctx context.Context, failed error) (left leftRound, err error) {
	record, err := u.file.Read()
	r := record.Round(u.use.Round)
	if err != nil || r == nil || len(record.Rounds) > 1 || !r.Renews() || u.kept(r) || u.endService(ctx, *r) != nil {
		return leftRound{}, failed
	}
	err = u.file.Update(ctx, func(tx *lockfile.SharedTx) error {
		r := tx.Round(u.use.Round)
		if r == nil || len(tx.Rounds) > 1 || tx.HasLiveUser(r, u.use.N) {
			return failed
		}
		left.round = new(*r)
		left.round.State = lockfile.RoundReleasing
		return errors.Join(tx.End(u.use), tx.Remove(r.ID))
	})
	if err != nil {
		return leftRound{}, failed
	}
	u.h.Reporter.Notef("%v", failed)
	return left, nil
}

// leaveLingering renews the lease once more, and leaves it to end by itself. If the renewal
// fails, the record says that this user gives the lease back.
func (u *part) leaveLingering(ctx context.Context, round lockfile.Round) error {
	failed := u.renew(ctx, round, u.options.Linger)
	return errors.Join(failed, u.note(ctx, func(tx *lockfile.SharedTx) error {
		r := tx.Round(u.use.Round)
		switch {
		case r == nil:
			return tx.End(u.use)
		case failed != nil:
			r.State = lockfile.RoundReleasing
			return nil
		}
		r.State, r.By, r.Lingers = lockfile.RoundHeld, 0, true
		u.h.Reporter.Notef("%s lingers for %s", strings.Join(r.Names(), ", "), leaseapi.Duration((r.Deadline - r.RenewedAt).Round(time.Millisecond)))
		return tx.End(u.use)
	}))
}

// removeRound ends the use, and removes the round, unless the release failed and nothing else is left
// to tell of the lease.
func (u *part) removeRound(ctx context.Context, round lockfile.Round, failed error) error {
	return u.note(ctx, func(tx *lockfile.SharedTx) error {
		if err := tx.End(u.use); err != nil {
			return err
		}
		if failed != nil && !releaseBegun(round) {
			return nil // the next user or recover settles it
		}
		return tx.Remove(u.use.Round)
	})
}
