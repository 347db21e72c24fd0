package shared

import (
	"context"
	"errors"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/leasectl/leasectl/internal/holder"
	"github.com/leasectl/leasectl/internal/holder/holdertest"
	"github.com/leasectl/leasectl/lockfile"
	"github.com/leasectl/leasectl/proxyclient"
)

// record returns the path of the only record of a shared lease, without its ending.
func (w *world) record(t *testing.T) string {
	t.Helper()
	records, err := filepath.Glob(filepath.Join(dir(w.Holder), "*.json"))
	if err != nil || len(records) != 1 {
		t.Fatalf("records %q, %v", records, err)
	}
	return strings.TrimSuffix(records[0], ".json")
}

// changeRound changes the only round of the only shared lease.
func (w *world) changeRound(t *testing.T, change func(r *lockfile.Round, now time.Duration)) {
	t.Helper()
	err := lockfile.Shared(w.record(t)).Update(holdertest.Within(t), func(tx *lockfile.SharedTx) error {
		r := tx.Rounds[0]
		change(&r, proxyclient.Now().SinceBoot())
		tx.Rounds[0] = r
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
}

// lossOf keeps a lease until it is lost, and returns the loss.
func lossOf(t *testing.T, l *holder.Lease) *holder.Loss {
	t.Helper()
	kept, stop := l.Keep(t.Context(), holder.KeepOptions{})
	defer stop()
	select {
	case <-kept.Done():
	case <-holdertest.Within(t).Done():
		t.Fatal("the lease is not lost")
	}
	loss, ok := errors.AsType[*holder.Loss](context.Cause(kept))
	if !ok {
		t.Fatalf("lost because of %v", context.Cause(kept))
	}
	return loss
}

// users choose one of the two leases of [world.within].
var users = map[string]func(outer, inner *holder.Lease) *holder.Lease{
	"a user":                func(outer, _ *holder.Lease) *holder.Lease { return outer },
	"a command within that": func(_, inner *holder.Lease) *holder.Lease { return inner },
}

// Who hears from another user that the lease is lost, after a stop of all, has no grace period: the
// lease ended long ago.
func TestLateLoss(t *testing.T) {
	for name, user := range users {
		t.Run(name, func(t *testing.T) {
			w := newWorld(t)
			outer, inner := w.within(t)
			w.changeRound(t, func(r *lockfile.Round, now time.Duration) {
				r.Lost, r.RenewedAt, r.Deadline = "somebody else has it", now-time.Hour, now-time.Minute
			})
			loss := lossOf(t, user(outer, inner))
			if left := loss.Grace(10*time.Second, time.Second); left != 0 || !strings.Contains(loss.Error(), "somebody else has it") {
				t.Errorf("%v left to end: %v", left, loss)
			}
			outer.Release(holdertest.Within(t)) // fails: the lease is lost
		})
	}
}

// While nobody can read the record, as after an update to a newer program, nobody knows of renewals: at
// its end the lease is lost.
func TestUnreadableRecord(t *testing.T) {
	for name, user := range users {
		t.Run(name, func(t *testing.T) {
			w := newWorld(t)
			first, _ := w.within(t)
			w.changeRound(t, func(r *lockfile.Round, now time.Duration) { r.RenewedAt, r.Deadline = now, now+2*time.Second })
			joins, inner := w.within(t)
			path := w.record(t) + ".json"
			before, err := os.ReadFile(path)
			if err != nil {
				t.Fatal(err)
			}
			if err := os.WriteFile(path, []byte(`{"format":9999}`), 0o600); err != nil {
				t.Fatal(err)
			}
			loss := lossOf(t, user(joins, inner))
			if !errors.Is(loss, proxyclient.ErrLost) || loss.Deadline.IsZero() {
				t.Errorf("lost until %v: %v", loss.Deadline, loss)
			}
			if err := os.WriteFile(path, before, 0o600); err != nil {
				t.Fatal(err)
			}
			for _, l := range []*holder.Lease{joins, first} {
				l.Release(holdertest.Within(t)) // so that no lease is left
			}
		})
	}
}
