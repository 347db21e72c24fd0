// Package recovery gives back what killed processes left: the leases that they asked for, held or had begun to
// release, and their files. [Run] is leasectl recover. An acquire settles by itself what stands in its way: the
// entries of dead processes at its proxy (holder), and the rounds of dead users (holder/shared).
package recovery

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/leasectl/leasectl/internal/holder"
	"github.com/leasectl/leasectl/internal/holder/cleanup"
	"github.com/leasectl/leasectl/internal/holder/shared"
	v1 "github.com/leasectl/leasectl/internal/holder/v1"
	"github.com/leasectl/leasectl/lockfile"
	"github.com/leasectl/leasectl/proxyclient"
)

// Run gives back the leases that processes asked for, held or had begun to release when
// they were killed, as the journal, the records of shared leases and the handles in the state
// directory say. It removes the files that these processes left. It lists the leases of version-1
// proxies that may still be held although they were released. It drops the journal entries and the
// listed leases with the ids and names in forget, without releasing anything. It leaves the leases
// of live processes alone.
//
// It goes on after a failure, and returns all failures. Each proxy that does not answer, or
// answers only with errors, costs one [cleanup.Timeout].
func Run(ctx context.Context, h *holder.Holder, forget []string) (actions []Action, failures []error) {
	r := &recovery{h: h, forget: forget, outages: make(map[string]error)}
	if err := lockfile.CheckStateDir(h.StateDir); err != nil {
		return nil, []error{err}
	}
	r.forgetIntents(ctx)
	r.forgetNames(ctx)
	r.fail(r.recoverIntents(ctx))
	r.fail(r.recoverRounds(ctx))
	r.fail(r.recoverHandles(ctx))
	r.listUnsettled()
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
	requests := make(map[string]bool)
	for range 2 { // once more for the releases of the same requests
		_ = r.h.Journal.Journal().SettleDead(ctx, func(in lockfile.Intent) bool {
			forget := slices.Contains(r.forget, in.ID) || in.Kind == lockfile.KindRelease && requests[in.Request]
			if forget {
				requests[in.Request] = true
				r.fail(r.forgetInHandle(ctx, in))
				r.addAction(in, holder.Settled{}, Forgotten)
			}
			return forget
		})
	}
}

// recoverIntents settles the journal entries of dead processes.
func (r *recovery) recoverIntents(ctx context.Context) error {
	return r.h.Journal.Journal().SettleDead(ctx, func(in lockfile.Intent) bool {
		if err := r.outage(in.Proxy); err != nil {
			r.unsettledIntent(in, err)
			return false
		}
		ctx, cancel := cleanup.Context(ctx)
		defer cancel()
		done, err := r.h.SettleIntent(ctx, in)
		if err != nil {
			r.noteOutage(in.Proxy, err)
			r.unsettledIntent(in, err)
		}
		switch {
		case done.Listed: // listUnsettled names what is unconfirmed
			r.failedHandles = append(r.failedHandles, in.Handle)
			if len(done.Released) > 0 {
				r.addAction(in, done, Released)
			}
		case done.Unconfirmed:
			r.addAction(in, done, Unconfirmed)
		case len(done.Released) > 0:
			r.addAction(in, done, Released)
		case err == nil && len(done.Kept) > 0:
			r.addAction(in, done, Kept)
		case err == nil && in.Kind != lockfile.KindKeep:
			r.addAction(in, done, Withdrawn)
		}
		return err == nil && !done.Unsure && (!done.Unconfirmed || done.Listed)
	})
}

// unsettledIntent notes that an entry could not be settled, and that its handle failed with it.
func (r *recovery) unsettledIntent(in lockfile.Intent, err error) {
	r.fail(holder.AdviseForget(in.ID, fmt.Errorf("%s: %w", in.Describe(), err)))
	r.failedHandles = append(r.failedHandles, in.Handle)
}

// forgetInHandle drops from its handle what an entry is about, unless the handle has got something
// else since.
func (r *recovery) forgetInHandle(ctx context.Context, in lockfile.Intent) error {
	handle, err := lockfile.OpenHandle(in.Handle)
	if err != nil {
		return nil // it is no longer a handle
	}
	ctx, cancel := cleanup.Context(ctx)
	defer cancel()
	return handle.Update(ctx, func(tx *lockfile.Tx) error {
		ours := in.Request != "" && tx.RequestID == in.Request
		if ours && (in.Kind != lockfile.KindAcquire || tx.State != lockfile.HandleHeld) {
			tx.Record = lockfile.Record{}
		}
		return nil
	})
}

// forgetNames drops the leases that the adapter lists and the user wants to forget.
func (r *recovery) forgetNames(ctx context.Context) {
	for _, name := range r.forget {
		forgotten, err := r.h.Dialer.Adapter.Forget(ctx, name)
		if len(forgotten) > 0 || r.has(func(a Action) bool { return a.ID == name }) {
			r.fail(err)
		}
		for _, held := range forgotten {
			r.fail(r.forgetReleasing(ctx, held))
			r.actions = append(r.actions, Action{Result: Forgotten, ID: name, Handle: held.Handle, Names: []string{name}, Proxy: proxyclient.Redacted(held.Proxy), Since: held.Since,
				Message: fmt.Sprintf("forgotten: %s at %s", name, proxyclient.Redacted(held.Proxy))})
		}
	}
}

// forgetReleasing removes the handle whose release left a name unconfirmed, if it has no others.
func (r *recovery) forgetReleasing(ctx context.Context, held v1.Held) error {
	handle, err := lockfile.OpenHandle(held.Handle)
	if err != nil {
		return nil
	}
	ctx, cancel := cleanup.Context(ctx)
	defer cancel()
	return handle.Update(ctx, func(tx *lockfile.Tx) error {
		if tx.State == lockfile.HandleReleasing && len(tx.Leases) == 1 && tx.Leases[0] == (lockfile.Lease{Name: held.Name, Generation: held.Generation}) {
			tx.Record = lockfile.Record{}
		}
		return nil
	})
}

// listUnsettled lists the leases of version-1 proxies that may still be held.
func (r *recovery) listUnsettled() {
	unsettled, err := r.h.Dialer.Adapter.Unsettled()
	r.fail(err)
	for _, held := range unsettled {
		r.actions = append(r.actions, Action{Result: Unconfirmed, ID: held.Name, Handle: held.Handle, Names: []string{held.Name}, Proxy: proxyclient.Redacted(held.Proxy), Since: held.Since,
			Message: fmt.Sprintf("unconfirmed: %s may still be held behind %s since %s: %s: if the pool behind the proxy does not count it as held any more, leasectl recover --forget %s drops this",
				held.Name, proxyclient.Redacted(held.Proxy), held.Since.Format(time.RFC3339), held.Why, held.Name)})
	}
}

// addAction adds how an entry was settled.
func (r *recovery) addAction(in lockfile.Intent, done holder.Settled, result Result) {
	act := Action{
		Result: result, ID: in.ID, Handle: in.Handle, Type: in.Type, Count: in.Count,
		Proxy: proxyclient.Redacted(in.Proxy), PID: in.PID, Since: in.Begun,
		Names:   slices.Concat(done.Released, done.Kept),
		Message: done.Text(in),
	}
	if result == Forgotten {
		act.Message = fmt.Sprintf("forgotten: %s", in.Describe())
	}
	r.actions = append(r.actions, act)
}

// recoverRounds gives back the shared leases whose users were all killed.
func (r *recovery) recoverRounds(ctx context.Context) error {
	files, err := shared.Files(r.h)
	if err != nil {
		return err
	}
	for _, file := range files {
		name, rounds := shared.Dead(r.h, file)
		for _, dead := range rounds {
			if err := r.outage(dead.Proxy); err != nil {
				r.failHandle(dead.Handle, fmt.Errorf("shared lease %s: %w", file, err))
				continue
			}
			released, lingered, err := shared.Release(ctx, r.h, file, dead.ID)
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
	act := Action{Result: Released, Handle: round.Handle, Names: released, Type: round.Type, Count: round.Count, Proxy: proxyclient.Redacted(round.Proxy), Since: round.Since}
	act.Message = fmt.Sprintf("released %s: no user of shared lease %q lives", strings.Join(released, ", "), name)
	if len(released) == 0 || lingered {
		act.Result, act.Message = Removed, fmt.Sprintf("removed a round of shared lease %q: its lease has ended", name)
	}
	return act
}

// sweep removes the files that killed processes left and that no handle needs.
func (r *recovery) sweep() {
	old := time.Now().Add(-leftoverAge)
	temps, err := lockfile.SweepTemp(r.h.StateDir, old)
	r.fail(err)
	for _, path := range append(temps, r.h.Keepers.Sweep(old)...) {
		r.removed(path, path)
	}
}

// leftoverAge is the age at which a file that belongs to no handle is removed: no operation
// takes a day.
const leftoverAge = 24 * time.Hour

// Action is something that [Run] did or found.
type Action struct {
	Result  Result    `json:"result"`
	ID      string    `json:"id,omitempty"` // of the journal entry
	Handle  string    `json:"handle,omitempty"`
	Names   []string  `json:"names,omitempty"`
	Type    string    `json:"type,omitempty"`
	Count   int       `json:"count,omitempty"`
	Proxy   string    `json:"proxy,omitempty"`
	PID     int       `json:"pid,omitempty"`
	Since   time.Time `json:"since,omitzero"`
	Path    string    `json:"path,omitempty"`
	Message string    `json:"message"`
}

// Result is the fate of a lease, request or file that a killed run left.
type Result string

// Results of actions.
const (
	Released    Result = "released"
	Withdrawn   Result = "withdrawn"
	Kept        Result = "kept"
	Unconfirmed Result = "unconfirmed" // it is not known whether the lease is held; the entry stays
	Forgotten   Result = "forgotten"
	Removed     Result = "removed" // a file
)

// recovery is one [Run].
type recovery struct {
	h      *holder.Holder
	forget []string

	actions       []Action
	failures      []error
	outages       map[string]error // of proxies that did not answer, or with errors only: each is asked once
	failedHandles []string         // paths of the handles that a failure is about
}

func (r *recovery) fail(err error) {
	if err != nil {
		r.failures = append(r.failures, err)
	}
}

// failHandle is fail for the first failure of a handle. It drops further ones.
func (r *recovery) failHandle(handle string, err error) {
	if err != nil && !slices.Contains(r.failedHandles, handle) {
		r.failedHandles = append(r.failedHandles, handle)
		r.fail(err)
	}
}

func (r *recovery) has(is func(Action) bool) bool { return slices.ContainsFunc(r.actions, is) }

func (r *recovery) removed(path, what string) {
	r.actions = append(r.actions, Action{Result: Removed, Path: path, Message: "removed " + what})
}

// noteOutage notes an err which says that a recorded proxy, or the proxy that is asked in its
// place, did not answer, or answered only with errors.
func (r *recovery) noteOutage(proxy string, err error) {
	if out := proxyclient.Outage(err); out != nil {
		r.outages[r.h.Dialer.Noted(proxy)] = out
	}
}

// outage returns why the proxy that is asked in the place of a recorded one must not be asked
// again; nil if it was not asked yet, or answered.
func (r *recovery) outage(proxy string) error { return r.outages[r.h.Dialer.Noted(proxy)] }

// recoverHandles gives back what handles in the state directory say is being released.
func (r *recovery) recoverHandles(ctx context.Context) error {
	handles, err := lockfile.Handles(r.h.StateDir)
	if err != nil {
		return err
	}
	for _, handle := range handles {
		if err := r.recoverHandle(ctx, handle); err != nil {
			r.failHandle(handle.Path(), fmt.Errorf("handle %s: %w", handle.Path(), err))
		}
	}
	return nil
}

func (r *recovery) recoverHandle(ctx context.Context, handle lockfile.Handle) error {
	record, err := handle.Read()
	if err != nil {
		removed, err := handle.Sweep(ctx, time.Now().Add(-leftoverAge))
		if removed {
			r.removed(handle.Path(), "the rest of handle "+handle.Path())
		}
		return err
	}
	if record.State != lockfile.HandleReleasing || slices.Contains(r.failedHandles, handle.Path()) {
		return nil
	}
	if err := r.outage(record.Proxy); err != nil {
		return err
	}
	in := record.Intent("", lockfile.KindRelease, handle.Path())
	ctx, cancel := cleanup.Context(ctx)
	defer cancel()
	done, found, err := r.h.SettleHandle(ctx, handle, in)
	r.noteOutage(record.Proxy, err)
	act := Action{Handle: handle.Path(), Names: done.Released, Proxy: proxyclient.Redacted(record.Proxy)}
	switch {
	case len(done.Released) > 0:
		act.Result, act.Message = Released, fmt.Sprintf("released %s: handle %s owed it", strings.Join(done.Released, ", "), handle.Path())
	case err == nil && !done.Listed && found:
		act.Result, act.Message = Removed, fmt.Sprintf("removed handle %s: nothing was left to release", handle.Path())
	default:
		return err
	}
	r.actions = append(r.actions, act)
	return err
}
