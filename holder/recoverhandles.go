package holder

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"slices"
	"strings"
	"time"

	"github.com/leasectl/leasectl/lockfile"
)

// handles gives back what handles of the state directory owe.
func (r *recovery) handles(ctx context.Context) error {
	handles, err := lockfile.Handles(r.h.stateDir)
	if err != nil {
		return err
	}
	for _, handle := range handles {
		if err := r.handle(ctx, handle); err != nil {
			r.failedOf(handle.Path(), fmt.Errorf("handle %s: %w", handle.Path(), err))
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
	if record.State != lockfile.StateReleasing {
		return nil
	}
	if err := r.forgetUnconfirmed(ctx, handle, record.Owed); err != nil {
		return err
	}
	record, err = handle.Read()
	if errors.Is(err, fs.ErrNotExist) || err == nil && record.State != lockfile.StateReleasing {
		return nil // nothing else was owed
	}
	if err != nil {
		return err
	}
	err = r.settleOwed(ctx, handle, record)
	if err != nil && len(record.Owed) > 0 {
		err = unsettled(unconfirmedID(record.Owed[0]), err)
	}
	return err
}

// forgetUnconfirmed drops what a handle owes and is to be forgotten, but for what the
// journal had too.
func (r *recovery) forgetUnconfirmed(ctx context.Context, handle lockfile.Handle, owed []lockfile.Owed) error {
	for _, o := range owed {
		id := unconfirmedID(o)
		if !slices.Contains(r.forget, id) || r.has(func(a Action) bool { return a.ID == id }) {
			continue
		}
		if err := r.forgetOwed(ctx, handle, "", func(o lockfile.Owed) bool { return unconfirmedID(o) == id }); err != nil {
			return err
		}
		r.actions = append(r.actions, Action{Result: Forgotten, ID: id, Handle: handle.Path(), Names: o.Names(),
			Message: fmt.Sprintf("forgotten: %s of handle %s", strings.Join(o.Names(), ", "), handle.Path())})
	}
	return nil
}

// settleOwed gives back what a handle owes. record is what was read of it last.
func (r *recovery) settleOwed(ctx context.Context, handle lockfile.Handle, record lockfile.Record) error {
	proxy := proxyOwed(record)
	if err := r.outage(proxy); err != nil {
		return err
	}
	ctx, cancel := releaseContext(ctx)
	defer cancel()
	var done settlement
	var owed []lockfile.Owed
	err := handle.Update(ctx, func(tx *lockfile.Tx) (err error) {
		if tx.State != lockfile.StateReleasing {
			return nil // somebody was faster
		}
		owed = owedBy(tx.Record)
		done, err = r.releaseCertain(ctx, tx, true)
		if done.unconfirmed {
			owed = tx.Owed
		}
		return err
	})
	if err == nil && !done.unconfirmed {
		r.h.tidyAfter(owed)
	}
	r.noteOutage(proxy, err)
	if done.unconfirmed {
		record.Owed = owed // those that are left
	}
	if act := handleAction(handle, record, done, err); act.Result != "" && !r.unconfirmed(handle) {
		r.actions = append(r.actions, act)
	}
	return err
}

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
