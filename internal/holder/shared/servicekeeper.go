package shared

import (
	"context"
	"errors"
	"fmt"
	"os"
	"regexp"
	"strings"
	"time"

	"github.com/leasectl/leasectl/internal/holder"
	"github.com/leasectl/leasectl/internal/holder/cleanup"
	"github.com/leasectl/leasectl/internal/holder/failpoint"
	"github.com/leasectl/leasectl/internal/holder/keeper"
	"github.com/leasectl/leasectl/internal/holder/service"
	"github.com/leasectl/leasectl/leaseapi"
	"github.com/leasectl/leasectl/lockfile"
	"github.com/leasectl/leasectl/proxyclient"
)

// serviceVariable begins, in the environment of a keeper, a variable of its service. The keeper's
// own variables are others: the job's would be taken for flags.
const serviceVariable = "+"

// startService starts the keeper of a round's service, and blocks until the keeper has the round.
// The service runs in dir, with the environment env.
func startService(ctx context.Context, k *keeper.Keepers, file lockfile.Shared, round, dir string, env []string) error {
	environment := make([]string, len(env))
	for i, v := range env {
		environment[i] = serviceVariable + v
	}
	pid, err := k.Launch(ctx, "start a keeper for its service", environment, "--service-of", string(file), "--round", round, "--dir", dir)
	if err != nil {
		return err
	}
	k.Debugf("process %d keeps the service", pid)
	return nil
}

// ServiceOf names the round whose service a keeper looks after.
type ServiceOf struct {
	Shared string // path of the record of the shared lease
	Round  string // id
	Dir    string // where the service runs
}

// serviceKeeper looks after the service of one round.
type serviceKeeper struct {
	lease
	id      string
	running *service.Service // nil: it could not be started
	renewed context.Context  // ends when the lease is lost, with a [holder.Loss]
	over    bool             // the service has ended, and the record says so
	changed chan struct{}    // receives when the record may have changed
	// unwritten is since when the record cannot be written, as on a full disk; zero: it can.
	unwritten proxyclient.Instant
	// unheard: the record does not say what became of the service, and could not be written.
	unheard bool
}

// KeepService is the keeper of a round's service: it starts the service, says in the record when it
// is ready or over, renews the lease, and ends the round when no user is left. It blocks until then.
// It calls ready once it has the round. The error is [holder.ErrReplaced] if the round is not waiting for
// its service.
func KeepService(ctx context.Context, h *holder.Holder, o ServiceOf, ready func()) error {
	k := &serviceKeeper{lease: leaseIn(h, lockfile.Shared(o.Shared)), id: o.Round, changed: make(chan struct{}, 1)}
	round, unlock, err := k.claim(ctx)
	if err != nil {
		return err
	}
	defer unlock()
	failpoint.Here("service-keeper-begun")
	stopListening, err := h.Keepers.Listen(ctx, k.id, k.changed)
	if err != nil {
		return err
	}
	defer stopListening()
	ready()
	failpoint.Here("service-keeper-ready")

	use := &part{lease: k.lease, use: &lockfile.Use{Round: k.id}, round: round}
	renewed, stopRenewing := holder.KeepWith(ctx, 0, func(ctx context.Context, lose func(error)) {
		r := &renewer{part: use, seen: round, margin: serviceMargin, lose: lose, leaseOnly: true}
		r.run(ctx, confirmWithin)
	})
	defer stopRenewing()
	k.renewed = renewed
	k.start(ctx, round, o.Dir)
	if k.running != nil {
		defer k.running.Stop(0) // if this process ends early
	}
	if !k.watch(ctx, round) {
		return context.Cause(ctx)
	}
	return k.end(ctx, round, stopRenewing)
}

// serviceMargin is how long before the end of the lease the service is stopped, with half of that
// as its grace period. Its users are dead by then: see [holder.KeepOptions.Margin].
const serviceMargin = 2 * time.Second

// claim makes this process the keeper of the round.
func (k *serviceKeeper) claim(ctx context.Context) (round lockfile.Round, unlock func() error, err error) {
	err = k.file.Update(ctx, func(tx *lockfile.SharedTx) error {
		r := tx.Round(k.id)
		if r == nil || r.State != lockfile.RoundStarting || r.Service == nil || tx.Boot != k.boot {
			return holder.ErrReplaced
		}
		k.shown, round = tx.Name, *r
		unlock, err = k.file.LockKeeper(ctx, k.id)
		return err
	})
	return round, unlock, err
}

// start starts the service, or says in the record why it could not be started.
func (k *serviceKeeper) start(ctx context.Context, round lockfile.Round, dir string) {
	o := service.Options{Command: round.Service.Command, Dir: dir, Log: k.file.LogPath(k.id)}
	for _, v := range os.Environ() {
		if v, ok := strings.CutPrefix(v, serviceVariable); ok {
			o.Env = append(o.Env, v)
		}
	}
	var err error
	if round.Service.Ready != "" {
		o.Ready, err = regexp.Compile(round.Service.Ready)
	}
	if err == nil {
		o.Guard, err = k.file.OpenGuard(k.id)
	}
	if err == nil {
		k.running, err = service.Start(o)
	}
	if err != nil {
		k.noteOver(ctx, fmt.Sprintf("could not be started: %v", err))
		return
	}
	failpoint.Here("service-started")
	k.noteService(ctx, func(_ *lockfile.Round, s *lockfile.Service) {
		s.Group, s.Since = k.running.Group(), time.Now().Truncate(time.Second)
	})
	failpoint.Here("service-recorded")
}

// watch looks after the service until no user is left, and the round is condemned. It returns
// false if ctx ended before, or if the users can be told of the end of the service only by that of
// this process.
func (k *serviceKeeper) watch(ctx context.Context, round lockfile.Round) (condemned bool) {
	var ready, tooMany, ended <-chan struct{}
	if k.running != nil {
		ready, tooMany, ended = k.running.Ready(), k.running.TooMany(), k.running.Done()
	}
	lost := k.renewed.Done()
	late := time.NewTimer(round.Service.Timeout)
	defer late.Stop()
	look := time.NewTicker(watchEvery)
	defer look.Stop()
	for {
		select {
		case <-ready:
			if ready = nil; k.becomeHeld(ctx) {
				late.Stop()
			}
		case <-ended:
			ended = nil
			over := k.running.Ended()
			if ready != nil {
				over += " before it was ready"
			}
			k.noteOver(ctx, over)
		case <-tooMany:
			k.stop(ctx, round.Service.Grace, fmt.Sprintf("announced more than %d KiB of variables", service.MaxVariables>>10))
			ready, tooMany, ended = nil, nil, nil
		case <-late.C:
			k.stop(ctx, round.Service.Grace, "was not ready within "+leaseapi.Duration(round.Service.Timeout).String())
			ready, ended = nil, nil
		case <-lost:
			lost, ready, ended = nil, nil, nil
			k.stop(ctx, serviceMargin/2, "was stopped, since the lease is lost")
		case <-ctx.Done():
			k.stop(ctx, round.Service.Grace, "was stopped, since its keeper was")
			return k.condemn(context.WithoutCancel(ctx))
		case <-k.changed:
		case <-look.C:
			if ended != nil && k.lostElsewhere() {
				ready, ended = nil, nil
				k.stop(ctx, serviceMargin/2, "was stopped, since the lease is lost")
			}
		}
		if k.condemn(ctx) {
			return true
		}
		if k.unheard && k.used() {
			ready, tooMany, ended = nil, nil, nil
			k.stop(ctx, round.Service.Grace, "was stopped, since its keeper could not write the record of the round")
			if k.unheard { // the users notice that this process ends
				return false
			}
		}
	}
}

// becomeHeld makes the round held: its users may begin. It returns false if the record cannot be
// written.
func (k *serviceKeeper) becomeHeld(ctx context.Context) bool {
	failpoint.Here("service-ready")
	err := k.noteService(ctx, func(r *lockfile.Round, s *lockfile.Service) {
		s.Variables = k.running.Variables()
		if r.State == lockfile.RoundStarting {
			r.State, r.By = lockfile.RoundHeld, 0
		}
	})
	failpoint.Here("service-announced")
	return err == nil
}

// stop stops the service, and says in the record why. The grace period ends before the lease does.
func (k *serviceKeeper) stop(ctx context.Context, grace time.Duration, why string) {
	if k.running == nil || k.over {
		return
	}
	failpoint.Here("service-stopping")
	k.note(ctx, func(tx *lockfile.SharedTx) error { // before the stop, so that nobody joins meanwhile
		if r := tx.Round(k.id); r != nil && r.Service.Over == "" {
			r.Service.Over, r.Service.Said = why, k.running.LastLines()
		}
		return nil
	})
	k.stopWithin(grace)
	k.noteOver(ctx, why)
	failpoint.Here("service-stopped")
}

// stopWithin stops the service, with less of its grace period if the lease is lost meanwhile.
func (k *serviceKeeper) stopWithin(grace time.Duration) {
	left := func(grace time.Duration) time.Duration {
		if l, ok := errors.AsType[*holder.Loss](context.Cause(k.renewed)); ok {
			return l.Grace(grace, serviceMargin/4)
		}
		return grace
	}
	stopped := make(chan struct{})
	go func() {
		defer close(stopped)
		k.running.Stop(left(grace))
	}()
	lost := k.renewed.Done()
	if k.renewed.Err() != nil {
		lost = nil // the grace period has heard of it
	}
	select {
	case <-stopped:
		return
	case <-lost:
	}
	end := time.NewTimer(left(serviceMargin / 2))
	defer end.Stop()
	select {
	case <-stopped:
	case <-end.C:
		k.running.Kill()
		<-stopped
	}
}

// noteOver says in the record why the service is over. If it was never ready, it gives the
// newcomers that wait for it the time to see that.
func (k *serviceKeeper) noteOver(ctx context.Context, why string) {
	starting := false
	k.over = true
	k.noteService(ctx, func(r *lockfile.Round, s *lockfile.Service) {
		starting = r.State == lockfile.RoundStarting
		s.Over = why
		if k.running != nil {
			s.Said = k.running.LastLines()
		}
	})
	if starting {
		proxyclient.Sleep(ctx, lookMax+lookMax/2)
	}
}

// noteService changes what the record says of the service. If the record cannot be written, as on a
// full disk, it tries again for unwrittenTime, but once only if that was in vain before.
func (k *serviceKeeper) noteService(ctx context.Context, change func(*lockfile.Round, *lockfile.Service)) error {
	for begun := proxyclient.Now(); ; {
		err := k.note(ctx, func(tx *lockfile.SharedTx) error {
			if r := tx.Round(k.id); r != nil && r.Service != nil {
				change(r, r.Service)
			}
			return nil
		})
		if err == nil {
			k.unheard = false
			return nil
		}
		k.h.Reporter.Debugf("%v", err)
		if k.unheard || proxyclient.Now().Sub(begun) > unwrittenTime || proxyclient.Sleep(ctx, lookMax) != nil {
			k.unheard = true
			return err
		}
	}
}

// unwrittenTime is how long a keeper tries to write the record before it does without: it ends the
// round, if that has no users, or itself. A newcomer that could join meanwhile would have to write
// the record, too.
const unwrittenTime = 3 * time.Second

// lostElsewhere tells whether the users have lost the lease in a way that renewals do not tell.
func (k *serviceKeeper) lostElsewhere() bool {
	record, err := k.file.Read()
	r := record.Round(k.id)
	return err == nil && (r == nil || roundLoss(r) != nil)
}

// used tells, without the lock of the record, whether a user lives. In doubt one does.
func (k *serviceKeeper) used() bool {
	record, err := k.file.Read()
	r := record.Round(k.id)
	return err != nil || r != nil && k.file.LiveUsers(*r) > 0
}

// condemn tells whether no user is left, and the service does not linger. Then nobody joins the
// round any more.
func (k *serviceKeeper) condemn(ctx context.Context) (condemned bool) {
	if k.used() {
		return false
	}
	err := k.note(ctx, func(tx *lockfile.SharedTx) error {
		r := tx.Round(k.id)
		if r == nil {
			condemned = true
			return nil
		}
		if tx.HasLiveUser(r, 0) || r.State == lockfile.RoundHeld && !k.leaseEnded(r) && !k.over && k.now() < r.Service.LastsUntil {
			return nil
		}
		r.State, r.By = lockfile.RoundReleasing, 0
		r.Peak = k.h.MergePeak(r.RequestID, r.Peak)
		condemned = true
		return nil
	})
	switch {
	case err == nil:
		k.unwritten = proxyclient.Instant{}
		return condemned
	case k.unwritten.IsZero():
		k.unwritten = proxyclient.Now()
	}
	k.h.Reporter.Debugf("%v", err)
	return proxyclient.Now().Sub(k.unwritten) > unwrittenTime // else it is tried again at the next look
}

// end stops the service, whose lease is renewed until then, gives the lease back, and removes the round.
// begun is the round as this process began with it, which counts if somebody has removed the record.
func (k *serviceKeeper) end(ctx context.Context, begun lockfile.Round, stopRenewing func()) error {
	record, err := k.file.Read()
	if err != nil {
		return err
	}
	r := record.Round(k.id)
	if r == nil {
		r = &begun
	}
	k.stop(ctx, r.Service.Grace, "was stopped")
	stopRenewing()
	failpoint.Here("service-gone")
	ctx, cancel := cleanup.Context(ctx)
	defer cancel()
	_, failed := k.releaseLease(ctx, *r)
	failpoint.Here("service-lease-released")
	if failed != nil {
		// Nobody reads what a keeper says: the round stays, and its last user, or the next process that
		// looks, tries again and reports the failure.
		return failed
	}
	return k.note(ctx, func(tx *lockfile.SharedTx) error {
		if tx.Round(k.id) == nil {
			tx.Rounds = append(tx.Rounds, begun) // so that its files go, too
		}
		return tx.Remove(k.id)
	})
}
