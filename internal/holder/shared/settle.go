package shared

import (
	"context"
	"errors"
	"fmt"
	"path/filepath"
	"slices"
	"strings"

	"github.com/leasectl/leasectl/internal/holder"
	"github.com/leasectl/leasectl/internal/holder/cleanup"
	"github.com/leasectl/leasectl/internal/holder/dial"
	"github.com/leasectl/leasectl/internal/holder/failpoint"
	"github.com/leasectl/leasectl/lockfile"
)

// settleRounds gives back the leases at a proxy of all rounds of dead users, within [cleanup.SettleTime].
// It never fails: rounds that it cannot settle are left to the next round, or to recover.
func settleRounds(ctx context.Context, h *holder.Holder, proxy string) {
	ctx, cancel := context.WithTimeout(ctx, cleanup.SettleTime)
	defer cancel()
	files, err := Files(h)
	if err != nil {
		h.Reporter.Debugf("%v", err)
	}
	for _, file := range files {
		_, dead := Dead(h, file)
		for _, r := range dead {
			if dial.Same(r.Proxy, proxy) && ctx.Err() == nil {
				if err := leaseIn(h, file).settleRound(ctx, r.ID); err != nil {
					h.Reporter.Debugf("%v", err)
				}
			}
		}
	}
}

// Files returns the records of all shared leases in the state directory.
func Files(h *holder.Holder) ([]lockfile.Shared, error) {
	files, err := lockfile.SharedIn(dir(h))
	return slices.DeleteFunc(files, func(f lockfile.Shared) bool { return !isDigest(filepath.Base(string(f))) }), err
}

// Dead returns the NAME of a shared lease and its rounds that nobody uses, as read
// without the lock.
func Dead(h *holder.Holder, file lockfile.Shared) (name string, dead []lockfile.Round) {
	record, err := file.Read()
	if err != nil {
		h.Reporter.Debugf("%v", err)
		return "", nil
	}
	l := leaseIn(h, file)
	for _, r := range record.Rounds {
		if l.deserted(record, r) {
			dead = append(dead, r)
		}
	}
	return record.Name, dead
}

// leaseIn returns the shared lease of a record that was found.
func leaseIn(h *holder.Holder, file lockfile.Shared) lease {
	return lease{h: h, file: file, boot: bootID(), space: processSpace()}
}

// deserted tells whether a round has no live user, and does not linger.
func (l lease) deserted(record lockfile.SharedRecord, r lockfile.Round) bool {
	if l.kept(&r) {
		return false
	}
	if r.Lingers && record.Boot == l.boot && !l.leaseEnded(&r) {
		return false
	}
	return l.file.LiveUsers(r) == 0
}

// settleRound gives back the lease of a round that nobody uses, and removes it. A
// round that somebody has joined meanwhile is left alone.
func (l lease) settleRound(ctx context.Context, id string) error {
	released, lingered, err := l.releaseRound(ctx, id)
	switch names := strings.Join(released, ", "); {
	case names == "":
	case lingered:
		l.h.Reporter.Debugf("released %s: it lingered, and nobody came", names)
	default:
		l.h.Reporter.Notef("released %s: no user of its shared lease lives", names)
	}
	return err
}

// releaseRound is settleRound without messages to the user. It returns the names that were
// released, and whether the last user had left the round to linger.
func (l lease) releaseRound(ctx context.Context, id string) (released []string, lingered bool, err error) {
	ctx, cancel := cleanup.Context(ctx)
	defer cancel()
	var round *lockfile.Round
	err = l.file.Update(ctx, func(tx *lockfile.SharedTx) error {
		if r := tx.Round(id); r != nil && !tx.HasLiveUser(r, 0) {
			// From here on nobody joins the round. After a kill here the next command settles
			// it again.
			r.State, r.By, lingered = lockfile.RoundReleasing, 0, r.Lingers
			r.Peak = l.h.MergePeak(r.RequestID, r.Peak)
			round, l.shown = new(*r), tx.Name
		}
		return nil
	})
	if err != nil || round == nil {
		return nil, lingered, err
	}
	failpoint.Here("round-condemned")
	if round.Service != nil && l.file.Kept(id) {
		l.h.Keepers.Wake(id)
		if err := l.awaitKeeper(ctx, id); err != nil {
			return nil, lingered, err
		}
		if gone, err := l.roundGone(ctx, id); err != nil || gone {
			return round.Names(), true, err
		}
	}
	released, err = l.releaseLease(ctx, *round)
	failpoint.Here("round-settled")
	if err != nil && !releaseBegun(*round) {
		return released, lingered, fmt.Errorf("shared lease %s: %w", l.file, err)
	}
	writing, done := cleanup.ForNotes(ctx)
	defer done()
	return released, lingered, errors.Join(err, l.file.Update(writing, func(tx *lockfile.SharedTx) error { return tx.Remove(id) }))
}

// Release gives back the lease of a round that nobody uses, and removes the round. It returns the names that
// were released, and whether the last user had left the round to linger. A round that somebody has joined
// meanwhile is left alone.
func Release(ctx context.Context, h *holder.Holder, file lockfile.Shared, id string) (released []string, lingered bool, err error) {
	return leaseIn(h, file).releaseRound(ctx, id)
}
