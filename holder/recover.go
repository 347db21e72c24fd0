package holder

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/leasectl/leasectl/lockfile"
	"github.com/leasectl/leasectl/proxyclient"
)

// leftoverAge is how old a file of no handle must be to be removed: nothing that
// is still going on takes a day.
const leftoverAge = 24 * time.Hour

// Action is something that [Holder.Recover] did or found.
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

// Result says what became of what a killed run left.
type Result string

// Results of actions.
const (
	Released    Result = "released"
	Withdrawn   Result = "withdrawn"
	Kept        Result = "kept"
	Unconfirmed Result = "unconfirmed" // nobody can know; it stays in the journal
	Forgotten   Result = "forgotten"
	Removed     Result = "removed" // a file
)

// Recover gives back what processes had asked for, held or begun to release when
// they were killed, as their journal and the handles in the state directory
// say, and removes the files they left. The ids in forget are dropped from the
// journal unseen. What live processes are about is not touched.
//
// It goes on after a failure, and returns all of them. Each proxy that does not
// answer costs one [ReleaseTimeout].
func (h *Holder) Recover(ctx context.Context, forget []string) (actions []Action, failures []error) {
	r := &recovery{forget: forget, silent: make(map[string]error)}
	if err := checkStateDir(h.stateDir); err != nil {
		return nil, []error{err}
	}
	r.settling = settling{h: h, proxyOf: h.dialer.of}
	r.failed(r.intents(ctx))
	r.failed(r.rounds(ctx))
	r.failed(r.handles(ctx))
	r.sweep()
	for _, id := range forget {
		if !r.has(func(a Action) bool { return a.Result == Forgotten && a.ID == id }) {
			r.failed(fmt.Errorf("--forget %s: no such request of a dead process", id))
		}
	}
	return r.actions, r.failures
}

// recovery is one Recover.
type recovery struct {
	settling
	forget []string

	actions  []Action
	failures []error
	silent   map[string]error // proxies that did not answer: each is asked once
}

func (r *recovery) failed(err error) {
	if err != nil {
		r.failures = append(r.failures, err)
	}
}

func (r *recovery) has(is func(Action) bool) bool { return slices.ContainsFunc(r.actions, is) }

// intents settles the journal.
func (r *recovery) intents(ctx context.Context) error {
	return r.h.journal.file().Dead(ctx, func(in lockfile.Intent) bool {
		if slices.Contains(r.forget, in.ID) {
			r.failed(r.forgetInHandle(ctx, in))
			r.did(in, settlement{}, Forgotten)
			return true
		}
		if err := r.silent[in.Proxy]; err != nil {
			r.failed(err)
			return false
		}
		ctx, cancel := releaseContext(ctx)
		defer cancel()
		done, err := r.settle(ctx, in)
		if err != nil {
			r.noteSilence(in.Proxy, err)
			r.failed(fmt.Errorf("%s: %w", describeIntent(in), err))
		}
		switch {
		case done.unconfirmed:
			r.did(in, done, Unconfirmed)
		case len(done.released) > 0:
			r.did(in, done, Released)
		case err == nil && len(done.kept) > 0:
			r.did(in, done, Kept)
		case err == nil && in.Kind != lockfile.KindKeep:
			r.did(in, done, Withdrawn)
		}
		return err == nil && !done.unconfirmed
	})
}

// forgetInHandle drops what an entry says is unconfirmed from its handle.
func (r *recovery) forgetInHandle(ctx context.Context, in lockfile.Intent) error {
	handle, err := lockfile.OpenHandle(in.Handle)
	if err != nil || in.Kind != lockfile.KindRelease {
		return nil // it is no handle any more, or has nothing
	}
	_, err = r.forgetOwed(ctx, handle, func(o lockfile.Owed) bool { return o.RequestID == in.Request })
	return err
}

// forgetOwed drops what is owed from a handle, and says whether there was any.
func (r *recovery) forgetOwed(ctx context.Context, handle lockfile.Handle, which func(lockfile.Owed) bool) (found bool, err error) {
	ctx, cancel := releaseContext(ctx)
	defer cancel()
	err = handle.Update(ctx, func(tx *lockfile.Tx) error {
		if found = slices.ContainsFunc(tx.Owed, which); !found {
			return nil
		}
		if tx.Owed = slices.DeleteFunc(tx.Owed, which); len(tx.Owed) == 0 && tx.State == lockfile.StateReleasing {
			tx.Record = lockfile.Record{}
		}
		return nil
	})
	return found, err
}

func (r *recovery) noteSilence(proxy string, err error) {
	if isUnreachable(err) {
		r.silent[proxy] = err
	}
}

func (r *recovery) did(in lockfile.Intent, done settlement, result Result) {
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

// rounds gives back the shared leases whose users were all killed.
func (r *recovery) rounds(ctx context.Context) error {
	files, err := lockfile.SharedIn(r.h.sharedDir())
	if err != nil {
		return err
	}
	for _, file := range files {
		name := ""
		for _, dead := range r.h.deadRounds(file) {
			if err := r.silent[dead.Proxy]; err != nil {
				r.failed(err)
				continue
			}
			if record, err := file.Read(); err == nil {
				name = record.Name
			}
			released, err := r.h.releaseRound(ctx, file, dead.ID)
			r.noteSilence(dead.Proxy, err)
			r.failed(err)
			if err == nil {
				r.actions = append(r.actions, roundAction(name, dead, released))
			}
		}
		// A kill may have left the other files of a record that is gone: Update removes
		// them.
		r.failed(file.Update(ctx, func(*lockfile.SharedTx) error { return nil }))
	}
	return nil
}

// roundAction is what became of a round that nobody uses.
func roundAction(name string, round lockfile.Round, released []string) Action {
	act := Action{Result: Released, Handle: round.Handle, Names: released, Type: round.Type, Count: round.Count, Proxy: round.Proxy, Since: round.Since}
	act.Message = fmt.Sprintf("released %s: the users of shared lease %q were killed", strings.Join(released, ", "), name)
	if len(released) == 0 {
		act.Result, act.Message = Removed, fmt.Sprintf("removed a round of shared lease %q: its lease has ended", name)
	}
	return act
}

// handles gives back what handles of the state directory owe.
func (r *recovery) handles(ctx context.Context) error {
	handles, err := lockfile.Handles(r.h.stateDir)
	if err != nil {
		return err
	}
	for _, handle := range handles {
		if err := r.handle(ctx, handle); err != nil {
			r.failed(fmt.Errorf("handle %s: %w", handle.Path(), err))
		}
	}
	return nil
}

func (r *recovery) handle(ctx context.Context, handle lockfile.Handle) error {
	record, err := handle.Read()
	if err != nil {
		removed, err := handle.Sweep(ctx, time.Now().Add(-leftoverAge))
		if removed {
			r.removed(handle.Path(), "the rest of handle "+handle.Path())
		}
		return err
	}
	if !due(record) {
		return nil
	}
	if err := r.forgetUnconfirmed(ctx, handle, record.Owed); err != nil {
		return err
	}
	if record, err = handle.Read(); err != nil || !due(record) {
		return nil
	}
	return r.releaseOwed(ctx, handle, record)
}

// forgetUnconfirmed drops what a handle owes and is to be forgotten, but for what the
// journal had too.
func (r *recovery) forgetUnconfirmed(ctx context.Context, handle lockfile.Handle, owed []lockfile.Owed) error {
	for _, o := range owed {
		id := unconfirmedID(o)
		if !slices.Contains(r.forget, id) || r.has(func(a Action) bool { return a.ID == id }) {
			continue
		}
		if _, err := r.forgetOwed(ctx, handle, func(o lockfile.Owed) bool { return unconfirmedID(o) == id }); err != nil {
			return err
		}
		r.actions = append(r.actions, Action{Result: Forgotten, ID: id, Handle: handle.Path(), Names: o.Names(),
			Message: fmt.Sprintf("forgotten: %s of handle %s", strings.Join(o.Names(), ", "), handle.Path())})
	}
	return nil
}

// releaseOwed gives back what a handle owes, of which record was the last that was
// read.
func (r *recovery) releaseOwed(ctx context.Context, handle lockfile.Handle, record lockfile.Record) error {
	proxy := proxyOwed(record)
	if err := r.silent[proxy]; err != nil {
		return err
	}
	ctx, cancel := releaseContext(ctx)
	defer cancel()
	var done settlement
	var owed []lockfile.Owed
	err := handle.Update(ctx, func(tx *lockfile.Tx) error {
		if !due(tx.Record) {
			return nil // somebody was faster
		}
		owed = owedBy(tx.Record)
		err := r.releaseAll(ctx, tx, true, &done)
		if done.unconfirmed {
			owed = tx.Owed
		}
		return err
	})
	if err == nil && !done.unconfirmed {
		r.h.settle(owed)
	}
	r.noteSilence(proxy, err)
	if done.unconfirmed {
		record.Owed = owed // those that are left
	}
	if act := handleAction(handle, record, done, err); act.Result != "" && !r.unconfirmed(handle) {
		r.actions = append(r.actions, act)
	}
	return err
}

// due tells whether a handle owes what it should have given back by now.
func due(record lockfile.Record) bool { return record.State == lockfile.StateReleasing }

// handleAction is what became of what a handle owed; without a result, nothing
// that is worth a line.
func handleAction(handle lockfile.Handle, record lockfile.Record, done settlement, err error) Action {
	act := Action{Handle: handle.Path(), Names: done.released, Proxy: proxyOwed(record)}
	switch {
	case done.unconfirmed:
		act.Result, act.Names = Unconfirmed, namesOf(record.Owed)
		if len(record.Owed) > 0 {
			act.ID = unconfirmedID(record.Owed[0])
		}
		act.Message = fmt.Sprintf("unconfirmed: %s of handle %s may still be held at %s: if it is, leasectl release --handle %s gives it back; else leasectl recover --forget %s",
			strings.Join(act.Names, ", "), handle.Path(), act.Proxy, handle.Path(), act.ID)
	case len(done.released) > 0:
		act.Result = Released
		act.Message = fmt.Sprintf("released %s: handle %s owed it", strings.Join(done.released, ", "), handle.Path())
	case err == nil:
		act.Result = Removed
		act.Message = fmt.Sprintf("removed handle %s: nothing was left to release", handle.Path())
	}
	return act
}

// unconfirmed tells whether a handle is listed by way of the journal already.
func (r *recovery) unconfirmed(handle lockfile.Handle) bool {
	return r.has(func(a Action) bool { return a.Handle == handle.Path() && a.Result == Unconfirmed })
}

func (r *recovery) removed(path, what string) {
	r.actions = append(r.actions, Action{Result: Removed, Path: path, Message: "removed " + what})
}

// sweep removes what killed processes left that no handle needs.
func (r *recovery) sweep() {
	old := time.Now().Add(-leftoverAge)
	temps, err := lockfile.SweepTemp(r.h.stateDir, old)
	r.failed(err)
	for _, path := range append(temps, r.h.keepers.sweep(old)...) {
		r.removed(path, path)
	}
}

// isUnreachable tells whether a proxy gave no answer, or not soon enough.
func isUnreachable(err error) bool { return errors.Is(err, proxyclient.ErrUnreachable) }
