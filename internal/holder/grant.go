package holder

import (
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	mathrand "math/rand/v2"
	"sync"
	"time"

	"github.com/leasectl/leasectl/internal/holder/cleanup"
	"github.com/leasectl/leasectl/internal/holder/failpoint"
	v1 "github.com/leasectl/leasectl/internal/holder/v1"
	"github.com/leasectl/leasectl/leaseapi"
	"github.com/leasectl/leasectl/lockfile"
	"github.com/leasectl/leasectl/proxyclient"
)

// awaitedIn tells, by the handle's record, whether the handle still waits for this lease.
func (l *Lease) awaitedIn(r lockfile.Record) bool {
	if l.private {
		return r.State == ""
	}
	return l.Is(r) && r.State == lockfile.HandleQueued
}

// awaitGrant blocks until the proxy grants the lease, the wait timeout is over, or another
// process takes the handle. If a grant ended before its answer came, it asks again under
// another request id: nobody gave that lease back, so a lease is still wanted. It asks ever more rarely, at least
// once, and until the wait timeout is over.
func (l *Lease) awaitGrant(ctx context.Context, r Request) error {
	timeout := r.WaitTimeout
	for pause := askAnewAfter; ; pause = min(2*pause, leaseapi.ProvisionalTTL) {
		err := l.awaitFreshGrant(ctx, &r)
		failpoint.Here("acquire-answered")
		if err == nil {
			l.h.sayGrant(l.grant, r)
		}
		if !endedUnconfirmed(err) {
			return err
		}
		l.phase, l.grant = enqueued, nil
		if r.WaitTimeout == 0 && pause > askAnewAfter {
			return &proxyclient.ExhaustedError{Type: r.Type, Wait: timeout, Refused: "each grant ended before its answer came"}
		}
		l.h.Reporter.Notef("a lease was granted, and ended before the answer came: asking again")
		if err := proxyclient.Sleep(ctx, pause); err != nil {
			return err
		}
		r.WaitTimeout = max(0, r.WaitTimeout-pause)
		if err := l.requestAnew(ctx); err != nil {
			return err
		}
	}
}

// askAnewAfter is the pause before the second request. A network that loses answers needs none, but the server may
// be wrong, or lie.
const askAnewAfter = 100 * time.Millisecond

// awaitFreshGrant is awaitAnswer, but asks once more if the answer is old: the proxy then gives
// the grant its whole time again, or says that the grant has ended. It accepts a second answer
// however old, since a proxy may need long for each.
func (l *Lease) awaitFreshGrant(ctx context.Context, r *Request) error {
	err := l.awaitAnswer(ctx, r)
	if err == nil && l.aged() {
		l.h.Reporter.Debugf("the answer is old: asking whether the lease still stands")
		once := *r
		// The same request again, which now waits for the answer of the proxy and not for a
		// lease.
		once.WaitTimeout = max(once.WaitTimeout, leaseapi.ProvisionalTTL)
		err = l.awaitAnswer(ctx, &once)
		r.WaitTimeout = min(r.WaitTimeout, once.WaitTimeout)
	}
	return err
}

// requestAnew gives the request another id: first in the journal, then in the handle if the
// handle still waits for the request.
func (l *Lease) requestAnew(ctx context.Context) error {
	ctx, cancel := cleanup.Context(ctx)
	defer cancel()
	old, next := l.record.RequestID, l.record
	next.RequestID = rand.Text()
	next = l.h.Dialer.Seal(next)
	if err := l.h.Journal.Begin(ctx, next.Intent(next.RequestID, l.kind, l.handle.Path())); err != nil {
		return err
	}
	err := l.handle.Update(ctx, func(tx *lockfile.Tx) error {
		if !l.awaitedIn(tx.Record) {
			return ErrReplaced
		}
		if !l.private {
			tx.Record = next
		}
		return nil
	})
	if err != nil {
		l.h.Journal.Settle(next.RequestID) // nothing was sent
		return err
	}
	l.record = next
	l.h.Journal.Settle(old) // the old request has ended
	failpoint.Here("request-anew")
	return nil
}

// awaitAnswer asks the proxy once, and blocks like awaitGrant. It holds no lock while it
// blocks. It leaves in r the rest of the wait timeout, and no jitter.
func (l *Lease) awaitAnswer(ctx context.Context, r *Request) error {
	ctx, cancel := context.WithCancelCause(ctx)
	var watch sync.WaitGroup
	defer watch.Wait()
	defer cancel(nil)
	if !l.private {
		watch.Go(func() {
			if l.handle.Watch(ctx, l.awaitedIn) == nil {
				cancel(ErrReplaced)
			}
		})
	}
	if r.Jitter > 0 {
		d := mathrand.N(r.Jitter + 1)
		l.h.Reporter.Notef("jitter: asking for the lease in %s", leaseapi.Duration(d.Round(time.Second)))
		if err := proxyclient.Sleep(ctx, d); err != nil {
			return err
		}
		r.Jitter = 0
	}
	begun := proxyclient.Now()
	grant, err := l.sendRequest(ctx, *r)
	r.WaitTimeout = max(0, r.WaitTimeout-proxyclient.Now().Sub(begun))
	switch cause := context.Cause(ctx); {
	case err == nil:
		l.phase, l.grant, l.deadline = granted, grant, grant.Deadline()
		return nil
	case cause == nil && endedUnconfirmed(err):
		return err
	case errors.Is(err, proxyclient.ErrEnded):
		return ErrReplaced // the handle was released: the proxy says so before Watch does
	case cause != nil && errors.Is(err, proxyclient.ErrUnconfirmed):
		return fmt.Errorf("%w: %w", cause, err)
	case cause != nil:
		return cause
	}
	return err
}

// sendRequest sends the request, and reports the wait to the user.
func (l *Lease) sendRequest(ctx context.Context, r Request) (*v1.Grant, error) {
	wait := &Wait{Type: r.Type, Begun: time.Now()}
	wait.GivesUp = wait.Begun.Add(r.WaitTimeout)
	defer l.h.Reporter.Waiting(wait)()
	l.h.Reporter.Debugf("asking %s for a lease of type %q for %s, request %s", proxyclient.Redacted(l.record.Proxy), r.Type, l.record.Owner, l.record.RequestID)
	failpoint.Here("acquire-unsent")
	grant, err := l.proxy.Acquire(ctx, proxyclient.Request{
		Ask:       r.Ask,
		Owner:     l.record.Owner,
		RequestID: l.record.RequestID,
		TTL:       r.TTL,
		Wait:      r.WaitTimeout,
		Replaces:  lockfile.Wire(l.record.Replaces),
		OnTaken:   func() { l.taken = true },
		OnQueued:  func(q leaseapi.Queued) { wait.SetQueued(l.markOwn(q)) },
		OnTrouble: wait.SetTrouble,
		OnRetry: func(err error) {
			if leaseapi.SaysExhausted(err.Error()) {
				wait.SetQueued(leaseapi.Queued{Reason: leaseapi.WaitReason{Kind: leaseapi.WaitFull}})
			}
			l.h.Reporter.Debugf("%v: trying again", err)
		},
	}, l.handle.Path())
	if exhausted, ok := errors.AsType[*proxyclient.ExhaustedError](err); ok && exhausted.Last != nil {
		*exhausted.Last = l.markOwn(*exhausted.Last)
	}
	return grant, err
}

// endedUnconfirmed tells whether a grant of the request ended because nobody confirmed it.
func endedUnconfirmed(err error) bool {
	ended, ok := errors.AsType[*proxyclient.EndedError](err)
	return ok && ended.Unconfirmed
}

// sayGrant reports what was granted, and whether its TTL is shorter than requested.
func (h *Holder) sayGrant(g *v1.Grant, r Request) {
	for _, lease := range g.Leases {
		h.Reporter.Debugf("granted %s, generation %d, TTL %s", lease.Name, lease.Generation, leaseapi.Duration(g.TTL))
	}
	if g.Units > 0 {
		h.Reporter.Debugf("it holds %d units", g.Units)
	}
	if g.TTL > 0 && g.TTL < r.TTL {
		h.Reporter.Notef("the lease has a TTL of %s, not the %s that were asked for: the proxy allows no more for type %s", leaseapi.Duration(g.TTL), leaseapi.Duration(r.TTL), leaseapi.AnyOf(r.Type, r.Also))
	}
}
