package holder

import (
	"context"
	"errors"
	"fmt"
	"strings"

	"github.com/leasectl/leasectl/holder/cleanup"
	"github.com/leasectl/leasectl/holder/dial"
	"github.com/leasectl/leasectl/holder/failpoint"
	"github.com/leasectl/leasectl/lockfile"
)

// settleRounds gives back the leases at a proxy of all rounds of dead users, within settleTime.
// It never fails: rounds that it cannot settle are left to the next round, or to recover.
func (h *Holder) settleRounds(ctx context.Context, proxy string) {
	ctx, cancel := context.WithTimeout(ctx, settleTime)
	defer cancel()
	files, err := lockfile.SharedIn(h.sharedDir())
	if err != nil {
		h.report.Debugf("%v", err)
	}
	for _, file := range files {
		_, dead := h.deadRounds(file)
		for _, r := range dead {
			if dial.Same(r.Proxy, proxy) && ctx.Err() == nil {
				if err := h.settleRound(ctx, file, r.ID); err != nil {
					h.report.Debugf("%v", err)
				}
			}
		}
	}
}

// deadRounds returns the NAME of a shared lease and its rounds that nobody uses, as read
// without the lock.
func (h *Holder) deadRounds(file lockfile.Shared) (name string, dead []lockfile.Round) {
	record, err := file.Read()
	if err != nil {
		h.report.Debugf("%v", err)
		return "", nil
	}
	l := h.sharedOf(file)
	for _, r := range record.Rounds {
		if l.deserted(record, r) {
			dead = append(dead, r)
		}
	}
	return record.Name, dead
}

// sharedOf returns the shared lease of a record that was found.
func (h *Holder) sharedOf(file lockfile.Shared) sharedLease {
	return sharedLease{h: h, file: file, boot: bootID(), space: processSpace()}
}

// deserted tells whether a round has no live user, and does not linger.
func (l sharedLease) deserted(record lockfile.SharedRecord, r lockfile.Round) bool {
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
func (h *Holder) settleRound(ctx context.Context, file lockfile.Shared, id string) error {
	released, lingered, err := h.releaseRound(ctx, file, id)
	switch names := strings.Join(released, ", "); {
	case names == "":
	case lingered:
		h.report.Debugf("released %s: it lingered, and nobody came", names)
	default:
		h.report.Notef("released %s: the users of its shared lease were killed", names)
	}
	return err
}

// releaseRound is settleRound without messages to the user. It returns the names that were
// released, and whether the last user had left the round to linger.
func (h *Holder) releaseRound(ctx context.Context, file lockfile.Shared, id string) (released []string, lingered bool, err error) {
	ctx, cancel := cleanup.Context(ctx)
	defer cancel()
	var round *lockfile.Round
	var name string
	err = file.Update(ctx, func(tx *lockfile.SharedTx) error {
		if r := tx.Round(id); r != nil && !tx.HasLiveUser(r, 0) {
			// From here on nobody joins the round. After a kill here the next command settles
			// it again.
			r.State, r.By, lingered = lockfile.RoundReleasing, 0, r.Lingers
			h.endings.mergePeak(r)
			round, name = new(*r), tx.Name
		}
		return nil
	})
	if err != nil || round == nil {
		return nil, lingered, err
	}
	failpoint.Here("round-condemned")
	if round.Service != nil && file.Kept(id) {
		h.Keepers.Wake(id)
		if err := h.awaitKeeper(ctx, file, id, name); err != nil {
			return nil, lingered, err
		}
		if gone, err := h.sharedOf(file).roundGone(ctx, id); err != nil || gone {
			return round.Names(), true, err
		}
	}
	released, err = h.giveBackRound(ctx, file, *round)
	failpoint.Here("round-settled")
	if err != nil && stillHeld(*round) {
		return released, lingered, fmt.Errorf("shared lease %s: %w", file, err)
	}
	writing, done := cleanup.ForNotes(ctx)
	defer done()
	return released, lingered, errors.Join(err, file.Update(writing, func(tx *lockfile.SharedTx) error { return tx.Remove(id) }))
}
