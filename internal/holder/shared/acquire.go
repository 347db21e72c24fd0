package shared

import (
	"context"
	"crypto/rand"
	"errors"
	mathrand "math/rand/v2"
	"path/filepath"
	"time"

	"github.com/leasectl/leasectl/internal/holder"
	"github.com/leasectl/leasectl/internal/holder/cleanup"
	"github.com/leasectl/leasectl/internal/holder/failpoint"
	"github.com/leasectl/leasectl/lockfile"
	"github.com/leasectl/leasectl/proxyclient"
)

// Options say how to share a lease. The first user of a round sets its limits of uses and age.
type Options struct {
	Name string // any text but the empty one
	// MaxUses is the number of uses after which a round is expired; zero: it never is. While no
	// other lease is free, more users may join: Percent % of MaxUses.
	MaxUses, Percent int
	// MaxAge is the age at which a round is expired at the latest; zero: it never is.
	MaxAge time.Duration
	// Linger is how long the last user leaves the lease for others to join; zero: the last user
	// gives the lease back at once.
	Linger time.Duration
	// Service is the process that comes with the lease; nil: there is none.
	Service *Service
	// AnyTTL says that the TTL of the request is a default: a round with another TTL will do.
	AnyTTL bool
	// Within names the uses that this process runs under, as [holder.Lease.Uses] of the leasectl above
	// it returned them.
	Within string
}

// newcomer is the acquire of one shared lease.
type newcomer struct {
	lease
	request holder.Request
	begun   proxyclient.Instant
	missed  bool // it has waited for another user's step
}

// Acquire joins a round of a shared lease, or begins one with r. It blocks as [holder.Holder.Acquire] does,
// and has the same errors, and [holder.ErrService]. The lease has a handle of its own instead of that of r.
func Acquire(ctx context.Context, h *holder.Holder, o Options, r holder.Request) (*holder.Lease, error) {
	of, err := leaseFor(ctx, h, o, r)
	if err != nil {
		return nil, err
	}
	n := &newcomer{lease: of, request: r, begun: proxyclient.Now()}
	if l, err := n.nested(); l != nil || err != nil {
		return l, err
	}
	if o.Service != nil {
		if err := h.CanKeep(); err != nil {
			return nil, err
		}
	}
	if err := n.makeDir(); err != nil {
		return nil, err
	}
	for {
		c, err := n.choose(ctx)
		if err == nil && c.do == awaitRound {
			c, err = n.await(ctx, c)
		}
		if err != nil {
			return nil, err
		}
		switch c.do {
		case joinRound:
			return n.joined(c), nil
		case beginRound:
			return n.begin(ctx, c)
		case reviveRound:
			if l, err := n.revive(ctx, c); l != nil || err != nil {
				return l, err
			}
		case settleRound:
			if err := n.settle(ctx, c.round.ID); err != nil {
				return nil, err
			}
		}
	}
}

// choose decides under the lock of the record.
func (n *newcomer) choose(ctx context.Context) (c choice, err error) {
	err = n.file.Update(ctx, func(tx *lockfile.SharedTx) (err error) {
		c, err = n.chooseIn(tx)
		if err == nil && (c.do == joinRound || c.do == beginRound || c.do == reviveRound) {
			c, err = n.reserve(ctx, tx, c)
		}
		return err
	})
	return c, err
}

const (
	// lookMin is the shortest pause between two looks at a record, and lookMax the longest
	// of a newcomer. See pauseAfter.
	lookMin, lookMax = 2 * time.Millisecond, 250 * time.Millisecond
	// patience is how long a newcomer waits at least for another user's step. The step
	// takes a round trip to the proxy, which does not count as a wait for the lease.
	patience = time.Second
)

// pauseAfter returns how long a process that has waited for another's step pauses before it looks
// again: a tenth of that time, from lookMin to longest.
func pauseAfter(waited, longest time.Duration) time.Duration {
	return min(longest, max(lookMin, waited/10))
}

// await waits until another user has done its step, or has died before that, and chooses anew.
// It does not take the lock of the record while the record is unchanged.
func (n *newcomer) await(ctx context.Context, c choice) (choice, error) {
	defer n.h.Reporter.Waiting(&holder.Wait{Type: n.request.Type, Begun: time.Now()})()
	for c.do == awaitRound {
		n.missed = true
		if err := n.pauseFor(ctx, c.round.Service); err != nil {
			return choice{}, err
		}
		record, err := n.file.Read()
		r := record.Round(c.round.ID)
		if err == nil && r != nil && r.State == lockfile.RoundStarting && n.serviceLoss(r) != nil {
			return choice{}, n.serviceLoss(r) // this newcomer would wait for the same service as long again
		}
		if err == nil && r != nil && r.State == c.round.State && (n.file.Alive(r.ID, r.By) || n.kept(r)) {
			continue
		}
		if c, err = n.choose(ctx); err != nil {
			return choice{}, err
		}
	}
	return c, nil
}

// pause waits before the next look. It is an error if the wait timeout is over.
func (n *newcomer) pause(ctx context.Context) error { return n.pauseFor(ctx, nil) }

// pauseFor is pause for a newcomer that waits for a service, which does not count as a wait for
// the lease either.
func (n *newcomer) pauseFor(ctx context.Context, service *lockfile.Service) error {
	waited, least := proxyclient.Now().Sub(n.begun), patience
	if service != nil {
		least += service.Timeout + service.Grace
	}
	if waited > max(least, n.request.WaitTimeout) {
		return &proxyclient.ExhaustedError{Type: n.request.Type, Wait: n.request.WaitTimeout}
	}
	return proxyclient.Sleep(ctx, pauseAfter(waited, lookMax))
}

// settle gives back the lease of a round of dead users, which this acquire cannot join. If that
// fails, it waits before the next try.
func (n *newcomer) settle(ctx context.Context, id string) error {
	err := n.settleRound(ctx, id)
	if err == nil {
		return context.Cause(ctx)
	}
	n.h.Reporter.Debugf("%v", err)
	return n.pause(ctx)
}

// reserve writes the use of a choice into the record.
func (n *newcomer) reserve(ctx context.Context, tx *lockfile.SharedTx, c choice) (choice, error) {
	if c.do == beginRound {
		tx.Name, tx.Boot, tx.Space = n.shown, n.boot, n.space
		tx.Rounds = append(tx.Rounds, n.newRound())
		c.round = tx.Rounds[len(tx.Rounds)-1]
	}
	r := tx.Round(c.round.ID)
	if c.do != joinRound {
		r.By = r.Uses + 1
	}
	if c.do == reviveRound { // the server may have the renewal even if this process is killed before it knows
		r.State, r.Lingers = lockfile.RoundRenewing, false
	}
	use, err := tx.Reserve(ctx, r)
	c.use, c.round = use, *r
	return c, err
}

// newRound returns a round that this process is about to begin.
func (n *newcomer) newRound() lockfile.Round {
	r := n.wanted
	r.ID = rand.Text()
	r.State = lockfile.RoundAcquiring
	r.Handle = filepath.Join(n.h.StateDir, "shared-"+r.ID)
	return r
}

// missedAfter is how long a newcomer waits for another user's acquire before it first asks the
// proxy without waiting, when its own turn comes. Otherwise the newcomers to a silent proxy
// would fail one after the other, each after its whole time.
const missedAfter = 15 * time.Second

// joined returns the lease of a use that was reserved in a held round.
func (n *newcomer) joined(c choice) *holder.Lease {
	failpoint.Here("round-joined")
	n.h.Reporter.Notef("joined %s", describeUse(n.shown, c.round, c.use.N))
	return n.leaseOf(c)
}

// partOf returns this command's part in the round of a use.
func (n *newcomer) partOf(c choice) *part {
	return &part{lease: n.lease, use: c.use, round: c.round}
}

// leaseOf returns the lease of a use.
func (n *newcomer) leaseOf(c choice) *holder.Lease {
	n.noticeVersionOne(c.round)
	return n.join(c.round, n.partOf(c))
}

// begin takes the lease of a round that this process has written into the record. If the choice
// is behind an expired round, and no lease is free at once, it joins that round instead.
func (n *newcomer) begin(ctx context.Context, c choice) (*holder.Lease, error) {
	failpoint.Here("round-begun")
	settleRounds(ctx, n.h, c.round.Proxy)
	r := n.request
	r.Private, r.Outlives, r.Replaces, r.Owner = true, true, nil, c.round.Owner
	handle, err := holder.OpenHandle(c.round.Handle)
	if err != nil {
		return nil, n.abandon(ctx, c, err)
	}
	r.Handle = handle
	if c.behind != "" || n.missed && proxyclient.Now().Sub(n.begun) > missedAfter {
		once := r
		once.WaitTimeout, once.Jitter = 0, 0
		l, err := n.h.Acquire(ctx, once)
		if !errors.Is(err, proxyclient.ErrExhausted) {
			return n.acquired(ctx, c, l, err)
		}
	}
	if c.behind != "" {
		if l, err := n.joinBehind(ctx, c); l != nil || err != nil {
			return l, err
		}
	}
	r.WaitTimeout = max(0, r.WaitTimeout-proxyclient.Now().Sub(n.begun))
	l, err := n.h.Acquire(ctx, r)
	return n.acquired(ctx, c, l, err)
}

// acquired makes l the lease of the round. If the acquire failed with err, it ends the round.
func (n *newcomer) acquired(ctx context.Context, c choice, l *holder.Lease, err error) (*holder.Lease, error) {
	if exhausted, ok := errors.AsType[*proxyclient.ExhaustedError](err); ok {
		exhausted.Wait = n.request.WaitTimeout // the wait for other users is a part of it
	}
	if err != nil {
		return nil, n.abandon(ctx, c, err)
	}
	failpoint.Here("round-granted")
	err = l.Transfer(ctx, func() error {
		if err := n.recordRound(ctx, &c, l); err != nil {
			return err
		}
		failpoint.Here("round-held")
		return nil // from here on the record has the lease
	})
	if err != nil {
		return nil, n.abandon(ctx, c, err)
	}
	if c.round.Service != nil {
		if err := n.startService(ctx, &c); err != nil {
			return nil, err
		}
	}
	return n.leaseOf(c), nil
}

// errRecordRemoved: somebody removed the record of a shared lease while it was acquired.
var errRecordRemoved = errors.New("the record of the shared lease was removed meanwhile: try again, and let nothing clean the state directory while jobs run")

// recordRound writes the lease of a round into the record, for all users.
func (n *newcomer) recordRound(ctx context.Context, c *choice, l *holder.Lease) error {
	return n.note(ctx, func(tx *lockfile.SharedTx) error {
		r := tx.Round(c.round.ID)
		if r == nil {
			return errRecordRemoved
		}
		if r.State, r.By = lockfile.RoundHeld, 0; r.Service != nil {
			r.State, r.By = lockfile.RoundStarting, c.use.N
		}
		record, grant := l.Record(), l.Grant()
		r.Leases, r.Adapter, r.RequestID, r.Granted, r.Since = record.Leases, record.Adapter, record.RequestID, grant.TTL, record.AcquiredAt
		r.Units, r.Unit, r.Taker, r.Store = grant.Units, grant.Unit, grant.Caller, record.Store
		r.RenewedAt = grant.Asked.SinceBoot()
		if grant.Capabilities == proxyclient.Ours {
			r.Deadline = grant.Deadline().SinceBoot()
			r.RenewEvery = min(holder.ConfirmAfter, (r.Deadline-r.RenewedAt)/4)
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
func (n *newcomer) abandon(ctx context.Context, c choice, err error) error {
	return errors.Join(err, n.note(ctx, func(tx *lockfile.SharedTx) error {
		return errors.Join(tx.End(c.use), tx.Remove(c.round.ID))
	}))
}

// joinBehind joins the expired round that a newcomer is behind, since no other lease is free. A
// nil Lease: that round takes no more users, so the newcomer's own round stays, and queues.
func (n *newcomer) joinBehind(ctx context.Context, c choice) (*holder.Lease, error) {
	failpoint.Here("round-none-free")
	var joined *choice
	err := n.file.Update(ctx, func(tx *lockfile.SharedTx) error {
		r := tx.Round(c.behind)
		if r == nil || r.State != lockfile.RoundHeld || n.roundEnded(r) || r.Closed(n.now()) || !tx.HasLiveUser(r, 0) {
			return nil
		}
		behind := *r
		if err := errors.Join(tx.End(c.use), tx.Remove(c.round.ID)); err != nil {
			return err
		}
		next, err := n.reserve(ctx, tx, choice{do: joinRound, round: behind})
		joined = &next
		return err
	})
	if joined == nil || err != nil {
		return nil, err
	}
	return n.joined(*joined), nil
}

// revive joins a round without live users, whose last user left it to linger or was killed. It
// renews the lease first. A nil Lease without an error: the lease has ended.
func (n *newcomer) revive(ctx context.Context, c choice) (*holder.Lease, error) {
	failpoint.Here("round-revived")
	renewing, cancel := context.WithTimeout(ctx, cleanup.Timeout)
	defer cancel()
	err := n.renew(renewing, c.round, c.round.Granted)
	lost := errors.Is(err, proxyclient.ErrLost)
	werr := n.note(ctx, func(tx *lockfile.SharedTx) error {
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
		r.State, r.By = lockfile.RoundHeld, 0
		c.round = *r
		return nil
	})
	switch {
	case lost:
		return nil, werr
	case err == nil && werr == nil: // even if ctx has ended: the caller gives the renewed lease back
		return n.joined(c), nil
	case context.Cause(ctx) != nil:
		return nil, context.Cause(ctx)
	}
	return nil, errors.Join(err, werr)
}

// noticeVersionOne tells the user that leases of a version-1 proxy do not linger.
func (n *newcomer) noticeVersionOne(r lockfile.Round) {
	if n.options.Linger > 0 && !r.Renews() && r.Service == nil {
		n.h.Reporter.Notef("--linger: the proxy speaks version 1, whose leases do not end by themselves: the last user gives the lease back at once")
	}
}
