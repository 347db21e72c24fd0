package lockfile

import (
	"context"
	"errors"
	"os"
	"path/filepath"
	"slices"
	"testing"
	"time"
)

// The keeper of a round and the guard of its service are seen by their locks. Remove removes their
// files.
func TestSharedKeeper(t *testing.T) {
	s := Shared(filepath.Join(t.TempDir(), "a"))
	ok(t, s.Update(t.Context(), func(tx *SharedTx) error {
		tx.Rounds = []Round{{ID: "R1", State: RoundStarting, Service: new(Service)}}
		return nil
	}))
	if lives, sure := s.Guarded("R1"); s.Kept("R1") || lives || !sure {
		t.Error("a round without keeper and guard has them")
	}
	unlock, err := s.LockKeeper(t.Context(), "R1")
	ok(t, err)
	guard, err := s.OpenGuard("R1")
	ok(t, err)
	if lives, sure := s.Guarded("R1"); !s.Kept("R1") || !lives || !sure {
		t.Error("a round with keeper and guard has them not")
	}
	ok(t, guard.Close())
	if lives, sure := s.Guarded("R1"); !s.Kept("R1") || lives || !sure {
		t.Error("a closed guard is there")
	}
	ok(t, os.Remove(guard.Name()))
	ok(t, os.Symlink("elsewhere", guard.Name())) // nobody opens it
	if lives, sure := s.Guarded("R1"); !lives || sure {
		t.Errorf("a guard that cannot be looked at lives: %t, surely: %t", lives, sure)
	}
	ok(t, os.WriteFile(s.LogPath("R1"), nil, 0o600))
	ok(t, s.Update(t.Context(), func(tx *SharedTx) error { return tx.Remove("R1") }))
	ok(t, unlock())
	if left, _ := filepath.Glob(string(s) + "*"); len(left) > 0 {
		t.Errorf("files are left: %v", left)
	}
}

// A record of a newer program is refused, and stays.
func TestSharedNewer(t *testing.T) {
	s := Shared(filepath.Join(t.TempDir(), "a"))
	const text = `{"format":99,"rounds":"others"}`
	ok(t, os.WriteFile(string(s)+".json", []byte(text), 0o600))
	err := s.Update(t.Context(), func(tx *SharedTx) error { t.Error("fn was called"); return nil })
	if !errors.Is(err, ErrNewer) {
		t.Errorf("update: %v, want ErrNewer", err)
	}
	if _, err := s.Read(); !errors.Is(err, ErrNewer) {
		t.Errorf("read: %v, want ErrNewer", err)
	}
	if got := read(t, string(s)+".json"); got != text {
		t.Errorf("the record became %q", got)
	}
}

// A use counts from its reservation on; its user is alive as long as its lock is held. With the
// last round all files go.
func TestSharedUses(t *testing.T) {
	dir := t.TempDir()
	s := Shared(filepath.Join(dir, "a"))
	var first, second *Use
	ok(t, s.Update(t.Context(), func(tx *SharedTx) (err error) {
		tx.Rounds = []Round{{ID: "R1", State: RoundHeld}}
		if first, err = tx.Reserve(t.Context(), tx.Round("R1")); err != nil {
			return err
		}
		second, err = tx.Reserve(t.Context(), tx.Round("R1"))
		return err
	}))
	unlock, err := s.LockRenewal("R1")
	ok(t, err)
	if _, err := s.LockRenewal("R1"); !errors.Is(err, ErrLocked) {
		t.Errorf("a second user may renew: %v", err)
	}
	ok(t, unlock())
	if !s.Alive("R1", 1) || !s.Alive("R1", 2) || s.Alive("R1", 3) || s.Alive("R1", 0) {
		t.Error("1 and 2 are alive, and nobody else")
	}
	ok(t, first.end()) // as if its process were killed
	ok(t, s.Update(t.Context(), func(tx *SharedTx) error {
		r := tx.Round("R1")
		if !tx.HasLiveUser(r, 0) || tx.HasLiveUser(r, 2) {
			t.Error("2 is live, and nobody beside it")
		}
		if r.Uses != 2 || !slices.Equal(r.Users, []int{2}) {
			t.Errorf("%d uses, users %v: want 2 uses and user 2", r.Uses, r.Users)
		}
		return nil
	}))
	if left := ls(t, dir); left != "a.R1.2 a.R1.renew a.json a.lock" {
		t.Errorf("there are %s", left)
	}
	ok(t, s.Update(t.Context(), func(tx *SharedTx) error { return errors.Join(tx.End(second), tx.Remove("R1")) }))
	if left := ls(t, dir); left != "" {
		t.Errorf("%s are left", left)
	}
}

// A process that gives up waiting for the lock of a record leaves the lock to the others. It gives up by itself if
// the lock stays with one that was stopped.
func TestSharedGivesUpWaiting(t *testing.T) {
	defer func(was time.Duration) { sharedLockTime = was }(sharedLockTime)
	sharedLockTime = 100 * time.Millisecond
	s := Shared(filepath.Join(t.TempDir(), "a"))
	ok(t, s.Update(t.Context(), func(*SharedTx) error {
		ctx, cancel := context.WithTimeout(t.Context(), time.Millisecond)
		defer cancel()
		err := s.Update(ctx, func(*SharedTx) error { t.Error("called without the lock"); return nil })
		again := s.Update(t.Context(), func(*SharedTx) error { t.Error("called without the lock"); return nil })
		for _, err := range []error{err, again} {
			if !errors.Is(err, context.DeadlineExceeded) {
				t.Errorf("%v, want %v", err, context.DeadlineExceeded)
			}
		}
		return nil
	}))
	sharedLockTime = time.Hour
	ok(t, s.Update(t.Context(), func(*SharedTx) error { return nil }))
}

// Files that a kill leaves of a record are found and removed.
func TestSharedLeftovers(t *testing.T) {
	dir := t.TempDir()
	ok(t, os.WriteFile(filepath.Join(dir, "a.new"), []byte("{"), 0o600))
	ok(t, os.WriteFile(filepath.Join(dir, "b.lock"), nil, 0o600))
	found, err := SharedIn(dir)
	ok(t, err)
	if len(found) != 2 {
		t.Errorf("found %v", found)
	}
	for _, s := range found {
		ok(t, s.Update(t.Context(), func(*SharedTx) error { return nil }))
	}
	if left := ls(t, dir); left != "" {
		t.Errorf("%s are left", left)
	}
	if found, err := SharedIn(filepath.Join(dir, "none")); err != nil || len(found) > 0 {
		t.Errorf("without a directory: %v, %v", found, err)
	}
}

// A round is expired after its uses or its age, and closed after its margin.
func TestRoundExpires(t *testing.T) {
	for _, tt := range []struct {
		round           Round
		expired, closed bool
	}{
		{Round{Uses: 1000}, false, false},
		{Round{Uses: 9, MaxUses: 10, Bound: 11}, false, false},
		{Round{Uses: 10, MaxUses: 10, Bound: 11}, true, false},
		{Round{Uses: 11, MaxUses: 10, Bound: 11}, true, true},
		{Round{ExpiresAt: 101, EndsAt: 110}, false, false},
		{Round{ExpiresAt: 100, EndsAt: 110}, true, false},
		{Round{ExpiresAt: 90, EndsAt: 100}, true, true},
	} {
		if expired, closed := tt.round.Expired(100), tt.round.Closed(100); expired != tt.expired || closed != tt.closed {
			t.Errorf("%+v: expired %t, closed %t", tt.round, expired, closed)
		}
	}
}
