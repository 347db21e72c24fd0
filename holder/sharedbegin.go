package holder

import (
	"context"
	"crypto/rand"
	"errors"
	mathrand "math/rand/v2"
	"path/filepath"
	"time"

	"github.com/leasectl/leasectl/holder/cleanup"
	"github.com/leasectl/leasectl/holder/failpoint"
	"github.com/leasectl/leasectl/lockfile"
	"github.com/leasectl/leasectl/proxyclient"
)

// sharedAcquire is the acquire of one shared lease.
type sharedAcquire struct {
	sharedLease
	request Request
	begun   proxyclient.Instant
	missed  bool // it has waited for another user's step
}

// reserve writes the use of a choice into the record.
func (s *sharedAcquire) reserve(ctx context.Context, tx *lockfile.SharedTx, c choice) (choice, error) {
	if c.do == beginRound {
		tx.Name, tx.Boot, tx.Space = s.shown, s.boot, s.space
		tx.Rounds = append(tx.Rounds, s.newRound())
		c.round = tx.Rounds[len(tx.Rounds)-1]
	}
	r := tx.Round(c.round.ID)
	if c.do != joinRound {
		r.By = r.Uses + 1
	}
	if c.do == reviveRound {
		r.State = lockfile.RoundRenewing
	}
	use, err := tx.Reserve(ctx, r)
	c.use, c.round = use, *r
	return c, err
}

// newRound returns a round that this process is about to begin.
func (s *sharedAcquire) newRound() lockfile.Round {
	r := s.wanted
	r.ID = rand.Text()
	r.State = lockfile.RoundAcquiring
	r.Handle = filepath.Join(s.h.stateDir, "shared-"+r.ID)
	return r
}

// missedAfter is how long a newcomer waits for another user's acquire before it first asks the
// proxy without waiting, when its own turn comes. Otherwise the newcomers to a silent proxy
// would fail one after the other, each after its whole time.
const missedAfter = 15 * time.Second

// joined returns the lease of a use that was reserved in a held round.
func (s *sharedAcquire) joined(c choice) *Lease {
	failpoint.Here("round-joined")
	s.h.report.Notef("joined %s", describeUse(s.shown, c.round, c.use.N))
	return s.leaseOf(c)
}

// leaseOf returns the lease of a use.
func (s *sharedAcquire) leaseOf(c choice) *Lease {
	s.noticeVersionOne(c.round)
	return roundLease(s.h, c.round, &sharedUse{sharedLease: s.sharedLease, use: c.use, round: c.round})
}

// begin takes the lease of a round that this process has written into the record. If the choice
// is behind an expired round, and no lease is free at once, it joins that round instead.
func (s *sharedAcquire) begin(ctx context.Context, c choice) (*Lease, error) {
	failpoint.Here("round-begun")
	s.h.settleRounds(ctx, c.round.Proxy)
	r := s.request
	r.Shared, r.Private, r.Outlives, r.Replaces, r.owner = nil, true, true, nil, c.round.Owner
	handle, err := OpenHandle(c.round.Handle)
	if err != nil {
		return nil, s.abandon(ctx, c, err)
	}
	r.Handle = handle
	if c.behind != "" || s.missed && proxyclient.Now().Sub(s.begun) > missedAfter {
		once := r
		once.WaitTimeout, once.Jitter = 0, 0
		l, err := s.h.acquire(ctx, once)
		if !errors.Is(err, proxyclient.ErrExhausted) {
			return s.acquired(ctx, c, l, err)
		}
	}
	if c.behind != "" {
		if l, err := s.joinBehind(ctx, c); l != nil || err != nil {
			return l, err
		}
	}
	r.WaitTimeout = max(0, r.WaitTimeout-proxyclient.Now().Sub(s.begun))
	l, err := s.h.acquire(ctx, r)
	return s.acquired(ctx, c, l, err)
}

// acquired makes l the lease of the round. If the acquire failed with err, it ends the round.
func (s *sharedAcquire) acquired(ctx context.Context, c choice, l *Lease, err error) (*Lease, error) {
	if exhausted, ok := errors.AsType[*proxyclient.ExhaustedError](err); ok {
		exhausted.Wait = s.request.WaitTimeout // the wait for other users is a part of it
	}
	if err != nil {
		return nil, s.abandon(ctx, c, err)
	}
	failpoint.Here("round-granted")
	if err := s.recordRound(ctx, &c, l); err != nil {
		return nil, s.abandon(ctx, c, l.rollback(ctx, err))
	}
	failpoint.Here("round-held")
	s.h.journal.Settle(l.record.RequestID) // from here on the record has the lease
	if c.round.Service != nil {
		if err := s.startService(ctx, &c); err != nil {
			return nil, err
		}
	}
	return s.leaseOf(c), nil
}

// errRecordRemoved: somebody removed the record of a shared lease while it was acquired.
var errRecordRemoved = errors.New("the record of the shared lease was removed meanwhile: try again, and let nothing clean the state directory while jobs run")

// recordRound writes the lease of a round into the record, for all users.
func (s *sharedAcquire) recordRound(ctx context.Context, c *choice, l *Lease) error {
	return s.note(ctx, func(tx *lockfile.SharedTx) error {
		r := tx.Round(c.round.ID)
		if r == nil {
			return errRecordRemoved
		}
		if r.State, r.By = lockfile.RoundHeld, 0; r.Service != nil {
			r.State, r.By = lockfile.RoundStarting, c.use.N
		}
		r.Leases, r.Adapter, r.RequestID, r.Granted, r.Since = l.record.Leases, l.record.Adapter, l.record.RequestID, l.grant.TTL, l.record.AcquiredAt
		r.Units, r.Unit = l.grant.Units, l.grant.Unit
		r.RenewedAt = l.grant.Asked.SinceBoot()
		if l.grant.Capabilities.Renews() {
			r.Deadline = l.deadline.SinceBoot()
			r.RenewEvery = min(sharedConfirm, (r.Deadline-r.RenewedAt)/4)
		}
		if r.MaxAge > 0 {
			r.EndsAt = r.RenewedAt + r.MaxAge
			r.ExpiresAt = r.EndsAt - mathrand.N(r.MaxAge/10+1)
		}
		c.round = *r
		return nil
	})
}

// abandon ends a round that got no lease because of err. It returns err, joined with errors of
// its own.
func (s *sharedAcquire) abandon(ctx context.Context, c choice, err error) error {
	return errors.Join(err, s.note(ctx, func(tx *lockfile.SharedTx) error {
		return errors.Join(tx.End(c.use), tx.Remove(c.round.ID))
	}))
}

// joinBehind joins the expired round that a newcomer is behind, since no other lease is free. A
// nil Lease: that round takes no more users, so the newcomer's own round stays, and queues.
func (s *sharedAcquire) joinBehind(ctx context.Context, c choice) (*Lease, error) {
	failpoint.Here("round-none-free")
	var joined *choice
	err := s.file.Update(ctx, func(tx *lockfile.SharedTx) error {
		r := tx.Round(c.behind)
		if r == nil || r.State != lockfile.RoundHeld || s.roundEnded(r) || r.Closed(s.now()) || !tx.HasLiveUser(r, 0) {
			return nil
		}
		behind := *r
		if err := errors.Join(tx.End(c.use), tx.Remove(c.round.ID)); err != nil {
			return err
		}
		next, err := s.reserve(ctx, tx, choice{do: joinRound, round: behind})
		joined = &next
		return err
	})
	if joined == nil || err != nil {
		return nil, err
	}
	return s.joined(*joined), nil
}

// revive joins a round without live users, whose last user left it to linger or was killed. It
// renews the lease first. A nil Lease without an error: the lease has ended.
func (s *sharedAcquire) revive(ctx context.Context, c choice) (*Lease, error) {
	failpoint.Here("round-revived")
	renewing, cancel := context.WithTimeout(ctx, cleanup.Timeout)
	defer cancel()
	err := s.renew(renewing, c.round, c.round.Granted)
	lost := errors.Is(err, proxyclient.ErrLost)
	werr := s.note(ctx, func(tx *lockfile.SharedTx) error {
		r := tx.Round(c.round.ID)
		switch {
		case r == nil:
			return errRecordRemoved
		case lost: // this process settles it when it chooses anew
			r.State = lockfile.RoundReleasing
			return tx.End(c.use)
		case err != nil:
			r.State = lockfile.RoundHeld
			return tx.End(c.use)
		}
		r.State, r.By, r.Lingers = lockfile.RoundHeld, 0, false
		c.round = *r
		return nil
	})
	switch {
	case lost:
		return nil, werr
	case err == nil && werr == nil: // even if ctx has ended: the caller gives the renewed lease back
		return s.joined(c), nil
	case context.Cause(ctx) != nil:
		return nil, context.Cause(ctx)
	}
	return nil, errors.Join(err, werr)
}

// noticeVersionOne tells the user that leases of a version-1 proxy do not linger.
func (s *sharedAcquire) noticeVersionOne(r lockfile.Round) {
	if s.asked.Linger > 0 && !r.Renews() && r.Service == nil {
		s.h.report.Notef("--linger: the proxy speaks version 1, whose leases do not end by themselves: the last user gives the lease back at once")
	}
}
