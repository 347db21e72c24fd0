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

// recoverHandles gives back the leases that handles in the state directory owe.
func (r *recovery) recoverHandles(ctx context.Context) error {
	handles, err := lockfile.Handles(r.h.stateDir)
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
		err = adviseForget(unconfirmedID(record.Owed[0]), err)
	}
	return err
}

// forgetUnconfirmed drops from a handle the leases that it owes and the user wants to
// forget, unless forgetIntents has done so.
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

// settleOwed gives back the leases that a handle owes. record is the handle's, as read last.
func (r *recovery) settleOwed(ctx context.Context, handle lockfile.Handle, record lockfile.Record) error {
	proxy := proxyOwed(record)
	if err := r.outage(proxy); err != nil {
		return err
	}
	ctx, cancel := releaseContext(ctx)
	defer cancel()
	var done settlement
	var owed, left []lockfile.Owed
	err := handle.Update(ctx, func(tx *lockfile.Tx) (err error) {
		if tx.State != lockfile.StateReleasing {
			return nil // another process was faster
		}
		owed = tx.Owed
		done, err = r.releaseCertain(ctx, tx, true)
		left = tx.Owed
		return err
	})
	switch {
	case done.unconfirmed:
		record.Owed = left
	case err == nil:
		r.h.tidyAfter(owed)
	}
	r.noteOutage(proxy, err)
	if act := handleAction(handle, record, done, err); act.Result != "" && !r.listed(handle) {
		r.actions = append(r.actions, act)
	}
	return err
}

// handleAction says how the leases that a handle owed were settled. It has no Result if there
// is nothing to list.
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

// listed tells whether a journal entry has listed a handle as unconfirmed already.
func (r *recovery) listed(handle lockfile.Handle) bool {
	return r.has(func(a Action) bool { return a.Handle == handle.Path() && a.Result == Unconfirmed })
}
