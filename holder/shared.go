package holder

import (
	"context"
	"time"

	"github.com/leasectl/leasectl/lockfile"
	"github.com/leasectl/leasectl/proxyclient"
)

// A shared lease is one that commands of this machine hold together. Its record
// (lockfile.Shared) has the rounds, each the time of one lease, and the uses, each one
// command's part. A newcomer decides under the record's lock what to do: it joins a round that
// is held, begins a round of its own, or waits until another user has done its step. It acts
// without the lock. A newcomer that waits holds nothing and stands in no record: it decides
// anew each time it looks.

// acquireShared joins a round of a shared lease, or begins one.
func (h *Holder) acquireShared(ctx context.Context, r Request) (*Lease, error) {
	lease, err := h.sharedLease(ctx, r)
	if err != nil {
		return nil, err
	}
	s := &sharedAcquire{sharedLease: lease, request: r, begun: proxyclient.Now()}
	if l, err := s.nested(); l != nil || err != nil {
		return l, err
	}
	if err := s.makeDir(); err != nil {
		return nil, err
	}
	<-h.listening
	for {
		c, err := s.choose(ctx)
		if err == nil && c.do == awaitRound {
			c, err = s.await(ctx, c)
		}
		if err != nil {
			return nil, err
		}
		switch c.do {
		case joinRound:
			return s.joined(c), nil
		case beginRound:
			return s.begin(ctx, c)
		case reviveRound:
			if l, err := s.revive(ctx, c); l != nil || err != nil {
				return l, err
			}
		case settleRound:
			if err := s.settle(ctx, c.round.ID); err != nil {
				return nil, err
			}
		}
	}
}

// choose decides under the lock of the record.
func (s *sharedAcquire) choose(ctx context.Context) (c choice, err error) {
	err = s.file.Update(ctx, func(tx *lockfile.SharedTx) (err error) {
		c, err = s.chooseIn(tx)
		if err == nil && (c.do == joinRound || c.do == beginRound || c.do == reviveRound) {
			c, err = s.reserve(ctx, tx, c)
		}
		return err
	})
	return c, err
}

const (
	// sharedLook is the shortest pause between two looks at a record, and sharedLookMax the longest
	// of a newcomer. See pauseAfter.
	sharedLook, sharedLookMax = 2 * time.Millisecond, 250 * time.Millisecond
	// sharedPatience is how long a newcomer waits at least for another user's step. The step
	// takes a round trip to the proxy, which does not count as a wait for the lease.
	sharedPatience = time.Second
)

// pauseAfter returns how long a process that has waited for another's step pauses before it looks
// again: a tenth of that time, from sharedLook to longest.
func pauseAfter(waited, longest time.Duration) time.Duration {
	return min(longest, max(sharedLook, waited/10))
}

// await waits until another user has done its step, or has died before that, and chooses anew.
// It does not take the lock of the record while the record is unchanged.
func (s *sharedAcquire) await(ctx context.Context, c choice) (choice, error) {
	defer s.h.report.Waiting(&Wait{Type: s.request.Type, Begun: time.Now()})()
	for c.do == awaitRound {
		s.missed = true
		if err := s.pauseFor(ctx, c.round.Service); err != nil {
			return choice{}, err
		}
		record, err := s.file.Read()
		r := record.Round(c.round.ID)
		if err == nil && r != nil && r.State == lockfile.RoundStarting && s.serviceLoss(r) != nil {
			return choice{}, s.serviceLoss(r) // this newcomer would wait for the same service as long again
		}
		if err == nil && r != nil && r.State == c.round.State && (s.file.Alive(r.ID, r.By) || s.kept(r)) {
			continue
		}
		if c, err = s.choose(ctx); err != nil {
			return choice{}, err
		}
	}
	return c, nil
}

// pause waits before the next look. It is an error if the wait timeout is over.
func (s *sharedAcquire) pause(ctx context.Context) error { return s.pauseFor(ctx, nil) }

// pauseFor is pause for a newcomer that waits for a service, which does not count as a wait for
// the lease either.
func (s *sharedAcquire) pauseFor(ctx context.Context, service *lockfile.Service) error {
	waited, patience := proxyclient.Now().Sub(s.begun), sharedPatience
	if service != nil {
		patience += service.Timeout + service.Grace
	}
	if waited > max(patience, s.request.WaitTimeout) {
		return &proxyclient.ExhaustedError{Type: s.request.Type, Wait: s.request.WaitTimeout}
	}
	return proxyclient.Sleep(ctx, pauseAfter(waited, sharedLookMax))
}

// settle gives back the lease of a round of dead users, which this acquire cannot join. If that
// fails, it waits before the next try.
func (s *sharedAcquire) settle(ctx context.Context, id string) error {
	err := s.h.settleRound(ctx, s.file, id)
	if err == nil {
		return context.Cause(ctx)
	}
	s.h.report.Debugf("%v", err)
	return s.pause(ctx)
}
