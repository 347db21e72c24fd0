package holder

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/leasectl/leasectl/lockfile"
)

// Recover gives back the leases that processes asked for, held or had begun to release when
// they were killed, as the journal, the records of shared leases and the handles in the state
// directory say. It removes the files that these processes left. It drops the journal entries
// with the ids in forget without releasing anything. It leaves the leases of live processes
// alone.
//
// It goes on after a failure, and returns all failures. Each proxy that does not answer, or
// answers only with errors, costs one [ReleaseTimeout].
func (h *Holder) Recover(ctx context.Context, forget []string) (actions []Action, failures []error) {
	r := &recovery{forget: forget, outages: make(map[string]error)}
	if err := checkStateDir(h.stateDir); err != nil {
		return nil, []error{err}
	}
	r.settling = settling{h: h, proxyOf: h.dialer.proxyOf}
	r.forgetIntents(ctx)
	r.fail(r.recoverIntents(ctx))
	r.fail(r.recoverRounds(ctx))
	r.fail(r.recoverHandles(ctx))
	r.sweep()
	for _, id := range forget {
		if !r.has(func(a Action) bool { return a.Result == Forgotten && a.ID == id }) {
			r.fail(fmt.Errorf("--forget %s: no such request of a dead process: leasectl recover lists them", id))
		}
	}
	return r.actions, r.failures
}

// forgetIntents drops the entries that the user wants to forget. It comes before the other
// entries are settled: these may be about the same handle, as after a release that was tried
// again.
func (r *recovery) forgetIntents(ctx context.Context) {
	if len(r.forget) == 0 {
		return
	}
	// recoverIntents reads the same entries and has the same errors.
	_ = r.h.journal.file().SettleDead(ctx, func(in lockfile.Intent) bool {
		forget := slices.Contains(r.forget, in.ID)
		if forget {
			r.fail(r.forgetInHandle(ctx, in))
			r.addAction(in, settlement{}, Forgotten)
		}
		return forget
	})
}

// recoverIntents settles the journal entries of dead processes.
func (r *recovery) recoverIntents(ctx context.Context) error {
	return r.h.journal.file().SettleDead(ctx, func(in lockfile.Intent) bool {
		if err := r.outage(in.Proxy); err != nil {
			r.unsettledIntent(in, err)
			return false
		}
		ctx, cancel := releaseContext(ctx)
		defer cancel()
		done, err := r.settleIntent(ctx, in)
		if err != nil {
			r.noteOutage(in.Proxy, err)
			r.unsettledIntent(in, err)
		}
		switch {
		case done.unconfirmed:
			r.addAction(in, done, Unconfirmed)
		case len(done.released) > 0:
			r.addAction(in, done, Released)
		case err == nil && len(done.kept) > 0:
			r.addAction(in, done, Kept)
		case err == nil && in.Kind != lockfile.KindKeep:
			r.addAction(in, done, Withdrawn)
		}
		return err == nil && !done.unconfirmed
	})
}

// unsettledIntent notes that an entry could not be settled, and that its handle failed with it.
func (r *recovery) unsettledIntent(in lockfile.Intent, err error) {
	r.fail(adviseForget(in.ID, fmt.Errorf("%s: %w", describeIntent(in), err)))
	r.failedHandles = append(r.failedHandles, in.Handle)
}

// forgetInHandle drops the lease of an entry from its handle.
func (r *recovery) forgetInHandle(ctx context.Context, in lockfile.Intent) error {
	handle, err := lockfile.OpenHandle(in.Handle)
	if err != nil {
		return nil // it is no longer a handle
	}
	dead := ""
	if in.Kind == lockfile.KindExec {
		dead = in.Request
	}
	all := in.Kind == lockfile.KindRelease && in.Request == "" // the release of a handle that only owed leases
	return r.forgetOwed(ctx, handle, dead, func(o lockfile.Owed) bool { return all || o.RequestID == in.Request })
}

// addAction adds how an entry was settled.
func (r *recovery) addAction(in lockfile.Intent, done settlement, result Result) {
	act := Action{
		Result: result, ID: in.ID, Handle: in.Handle, Type: in.Type, Count: in.Count,
		Proxy: in.Proxy, PID: in.PID, Since: in.Begun,
		Names:   slices.Concat(done.released, done.kept, in.Unconfirmed),
		Message: done.text(in),
	}
	if result == Forgotten {
		act.Message = fmt.Sprintf("forgotten: %s", describeIntent(in))
	}
	r.actions = append(r.actions, act)
}

// recoverRounds gives back the shared leases whose users were all killed.
func (r *recovery) recoverRounds(ctx context.Context) error {
	files, err := lockfile.SharedIn(r.h.sharedDir())
	if err != nil {
		return err
	}
	for _, file := range files {
		name, rounds := r.h.deadRounds(file)
		for _, dead := range rounds {
			if err := r.outage(dead.Proxy); err != nil {
				r.failHandle(dead.Handle, fmt.Errorf("shared lease %s: %w", file, err))
				continue
			}
			released, lingered, err := r.h.releaseRound(ctx, file, dead.ID)
			r.noteOutage(dead.Proxy, err)
			r.failHandle(dead.Handle, err)
			if err == nil {
				r.actions = append(r.actions, roundAction(name, dead, released, lingered))
			}
		}
		// A kill may have left the other files of a record that is gone: Update removes
		// them.
		r.fail(file.Update(ctx, func(*lockfile.SharedTx) error { return nil }))
	}
	return nil
}

// roundAction says how a round that nobody uses was settled.
func roundAction(name string, round lockfile.Round, released []string, lingered bool) Action {
	act := Action{Result: Released, Handle: round.Handle, Names: released, Type: round.Type, Count: round.Count, Proxy: round.Proxy, Since: round.Since}
	act.Message = fmt.Sprintf("released %s: the users of shared lease %q were killed", strings.Join(released, ", "), name)
	if len(released) == 0 || lingered {
		act.Result, act.Message = Removed, fmt.Sprintf("removed a round of shared lease %q: its lease has ended", name)
	}
	return act
}

// sweep removes the files that killed processes left and that no handle needs.
func (r *recovery) sweep() {
	old := time.Now().Add(-leftoverAge)
	temps, err := lockfile.SweepTemp(r.h.stateDir, old)
	r.fail(err)
	for _, path := range append(temps, r.h.keepers.sweep(old)...) {
		r.removed(path, path)
	}
}
