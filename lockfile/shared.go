package lockfile

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"syscall"
	"time"

	"github.com/gofrs/flock"
)

// Shared is the path, without its suffixes, of the record of a shared lease: one lease that
// commands of a machine hold together. PATH.json has its rounds, and PATH.lock is the lock
// under which they change; PATH.new is the record that is about to replace PATH.json. A use is
// a file PATH.ROUND.N that its process has locked: if the file is unlocked or missing, the user
// is dead. PATH.ROUND.renew is locked by the user that renews the round. A round with a service
// has three more files: PATH.ROUND.keeper is locked by its keeper, PATH.ROUND.guard by the guard
// of its process group, and PATH.ROUND.log is what it prints.
//
// The record names every other file, and a file is removed before the record forgets it. So
// every file that a kill leaves can be found.
type Shared string

// SharedIn returns the shared leases in a directory; none if the directory is missing.
func SharedIn(dir string) ([]Shared, error) {
	files, err := filesIn(dir)
	if err != nil {
		return nil, fmt.Errorf("list shared leases: %w", err)
	}
	var found []Shared
	for _, f := range files {
		for _, suffix := range []string{jsonSuffix, lockSuffix, newSuffix} { // a kill may leave any one of them
			name, ok := strings.CutSuffix(f.Name(), suffix)
			if path := Shared(filepath.Join(dir, name)); ok && !slices.Contains(found, path) {
				found = append(found, path)
			}
		}
	}
	return found, nil
}

// SharedRecord is the record that the users of a shared lease write for each other. A lease
// that nobody uses has the zero SharedRecord, and no file.
type SharedRecord struct {
	Name   string  `json:"name"`   // for people
	Boot   string  `json:"boot"`   // id of the boot of the machine, from which the times count
	Space  string  `json:"space"`  // id of the PID and time namespaces of its processes
	Rounds []Round `json:"rounds"` // oldest first
}

// Round returns the round with this id, nil if it is gone. It points into r.
func (r *SharedRecord) Round(id string) *Round {
	for i := range r.Rounds {
		if r.Rounds[i].ID == id {
			return &r.Rounds[i]
		}
	}
	return nil
}

// Read returns the record as it was before a change or as it is after it. It takes
// no lock.
func (s Shared) Read() (SharedRecord, error) {
	r, _, err := s.read()
	return r, err
}

func (s Shared) read() (r SharedRecord, data []byte, err error) {
	data, err = readOwn(s.jsonPath())
	var doc sharedDoc
	if err == nil && len(data) > 0 {
		err = unmarshal(data, &doc)
		if err == nil {
			err = doc.check()
		}
	}
	if err != nil {
		return SharedRecord{}, nil, fmt.Errorf("read shared lease %s: %w", s.jsonPath(), err)
	}
	return doc.SharedRecord, data, nil
}

// sharedDoc is a record as it is written to disk.
type sharedDoc struct {
	Format int `json:"format"`
	SharedRecord
}

// SharedTx is a shared lease under its lock, inside [Shared.Update].
type SharedTx struct {
	SharedRecord

	shared Shared
	saved  []byte // the record as it is on disk
}

// sharedLockTime is longer than thousands of users hold the lock, one after the other. A process that was stopped may
// hold it for ever. A test shortens it.
var sharedLockTime = 30 * time.Second

// Update is the only way to change a shared lease. It locks the lease, reads its record, calls
// fn, and writes the record as fn left it, unless fn fails. If no round is left, the files are
// removed. Update blocks for the lock until ctx ends, and for [sharedLockTime] at most. The directory must exist.
func (s Shared) Update(ctx context.Context, fn func(tx *SharedTx) error) (err error) {
	locking, cancel := context.WithTimeout(ctx, sharedLockTime)
	unlock, err := lockFile(s.lockPath(), queueing(locking))
	cancel()
	if err != nil {
		return fmt.Errorf("update shared lease: %w", err)
	}
	defer unlockInto(&err, unlock)
	tx := &SharedTx{shared: s}
	if tx.SharedRecord, tx.saved, err = s.read(); err != nil {
		return err
	}
	defer tx.removeLock()
	if err := fn(tx); err != nil {
		return err
	}
	return tx.save()
}

// save writes the record at once rather than when fn returns.
func (tx *SharedTx) save() error {
	data, err := tx.write()
	if err != nil {
		return fmt.Errorf("write shared lease: %w", err)
	}
	tx.saved = data
	return nil
}

// write writes the record of tx to disk and returns its encoding; nil if there is no round, and
// so no record.
func (tx *SharedTx) write() ([]byte, error) {
	record, next := tx.shared.jsonPath(), tx.shared.newPath()
	if len(tx.Rounds) == 0 {
		return nil, apply(remove(next), remove(record))
	}
	if err := tx.check(); err != nil {
		return nil, err
	}
	data, err := tx.encode()
	if err != nil || bytes.Equal(data, tx.saved) {
		return data, err
	}
	// The lock makes one fixed name enough, so a kill leaves no file of another name.
	if err := writeNew(next, data); err != nil {
		return nil, err
	}
	return data, apply(rename(next, record))
}

func (tx *SharedTx) encode() ([]byte, error) {
	data, err := json.Marshal(sharedDoc{format, tx.SharedRecord})
	return append(data, '\n'), err
}

// writeNew writes data to a file that nobody reads yet.
func writeNew(path string, data []byte) error {
	if err := checkSize(path, data); err != nil {
		return err
	}
	f, err := os.OpenFile(path, os.O_CREATE|os.O_TRUNC|os.O_WRONLY|syscall.O_NOFOLLOW, ownerOnly)
	if err != nil {
		return err
	}
	_, err = f.Write(data)
	if err = errors.Join(err, f.Close()); err != nil {
		os.Remove(path) // on a full disk even a part of it is too much
	}
	return err
}

// removeLock removes the lock file, under its lock, if there is no record.
func (tx *SharedTx) removeLock() {
	if len(tx.saved) == 0 {
		removeLockFile(tx.shared.lockPath())
	}
}

// Use is one command's part in a round. Its process counts as alive as long as something refers
// to the Use and it has not ended.
type Use struct {
	Round string // id
	N     int
	path  string
	end   func() error
}

// Reserve adds a use to a round and writes the record at once: the use counts even if the
// process is killed right after that.
func (tx *SharedTx) Reserve(ctx context.Context, r *Round) (*Use, error) {
	r.Uses++
	if r.Service != nil {
		r.Service.LastsUntil = 0
	}
	r.Users = append(r.Users, r.Uses)
	use := &Use{Round: r.ID, N: r.Uses, path: tx.shared.usePath(r.ID, r.Uses)}
	if err := tx.save(); err != nil {
		return nil, err
	}
	var err error
	use.end, err = lockFile(use.path, queueing(ctx))
	if err != nil {
		return nil, fmt.Errorf("reserve a use: %w", err)
	}
	return use, nil
}

// End ends a use of this process, which lives on.
func (tx *SharedTx) End(u *Use) error {
	err := apply(remove(u.path))
	if r := tx.Round(u.Round); r != nil && err == nil {
		r.dropUser(u.N)
	}
	return errors.Join(err, u.end())
}

// HasLiveUser reports whether a round has a live user beside the use except; zero excepts none. It
// removes the dead users that it finds.
func (tx *SharedTx) HasLiveUser(r *Round, except int) bool {
	for _, n := range slices.Clone(r.Users) {
		switch {
		case n == except:
		case tx.shared.Alive(r.ID, n):
			return true
		case apply(remove(tx.shared.usePath(r.ID, n))) == nil:
			r.dropUser(n)
		}
	}
	return false
}

// Remove removes a round and its files. The round must have no live user.
func (tx *SharedTx) Remove(id string) error {
	r := tx.Round(id)
	if r == nil {
		return nil
	}
	steps := []change{remove(tx.shared.renewPath(id))}
	if r.Service != nil {
		steps = append(steps, remove(tx.shared.LogPath(id)), remove(tx.shared.guardPath(id)), remove(tx.shared.keeperPath(id)))
	}
	for _, n := range r.Users {
		steps = append(steps, remove(tx.shared.usePath(id, n)))
	}
	if err := apply(steps...); err != nil {
		return fmt.Errorf("remove a round: %w", err)
	}
	tx.Rounds = slices.DeleteFunc(tx.Rounds, func(r Round) bool { return r.ID == id })
	return nil
}

// Alive reports whether the process of a use lives and the use has not ended.
func (s Shared) Alive(round string, n int) bool {
	if n == 0 {
		return false
	}
	alive, _ := locked(s.usePath(round, n)) // in doubt the user lives
	return alive
}

// LiveUsers returns the number of live users of a round, as it was read.
func (s Shared) LiveUsers(r Round) int {
	live := 0
	for _, n := range r.Users {
		if s.Alive(r.ID, n) {
			live++
		}
	}
	return live
}

// locked reports whether a process has locked the file at path. If that is not sure, as when the
// file cannot be opened, it counts as locked.
func locked(path string) (is, sure bool) {
	l := flock.New(path, flock.SetFlag(os.O_RDONLY|syscall.O_NOFOLLOW|syscall.O_NONBLOCK))
	free, err := l.TryRLock() // shared, so that two callers do not take each other for the user
	if err != nil {
		missing := errors.Is(err, fs.ErrNotExist)
		return !missing, missing
	}
	if free {
		l.Unlock()
	}
	return !free, true
}

// LockRenewal takes the lock of the user that renews a round, as [Lock] does: if another user
// has it, the error is [ErrLocked].
func (s Shared) LockRenewal(round string) (unlock func() error, err error) {
	return Lock(s.renewPath(round))
}

// LockKeeper takes the lock of the keeper of a round's service. It blocks while others look at
// the lock, and until ctx ends.
func (s Shared) LockKeeper(ctx context.Context, round string) (unlock func() error, err error) {
	return lockFile(s.keeperPath(round), waiting(ctx))
}

// Kept reports whether the keeper of a round's service lives. In doubt it does.
func (s Shared) Kept(round string) bool {
	kept, _ := locked(s.keeperPath(round))
	return kept
}

// OpenGuard returns the file that the guard of a round's service inherits. It is locked until
// every copy of it is closed. It is open for writing, as NFS wants it of a file that is locked.
func (s Shared) OpenGuard(round string) (*os.File, error) {
	f, err := os.OpenFile(s.guardPath(round), os.O_CREATE|os.O_RDWR|syscall.O_NOFOLLOW|syscall.O_NONBLOCK, ownerOnly)
	if err != nil {
		return nil, err
	}
	if err := syscall.Flock(int(f.Fd()), syscall.LOCK_EX); err != nil {
		return nil, errors.Join(fmt.Errorf("lock %s: %w", f.Name(), err), f.Close())
	}
	return f, nil
}

// Guarded reports whether the guard of a round's service lives. If that is sure, the id of the
// service's process group is no other group's of the PID namespace of the record. In doubt the guard
// lives.
func (s Shared) Guarded(round string) (lives, sure bool) { return locked(s.guardPath(round)) }

// LogPath is the file of what a round's service prints.
func (s Shared) LogPath(round string) string { return string(s) + "." + round + ".log" }

// newSuffix is the suffix of a record that is being written.
const newSuffix = ".new"

func (s Shared) jsonPath() string { return string(s) + jsonSuffix }
func (s Shared) lockPath() string { return string(s) + lockSuffix }
func (s Shared) newPath() string  { return string(s) + newSuffix }

func (s Shared) usePath(round string, n int) string {
	return string(s) + "." + round + "." + strconv.Itoa(n)
}

func (s Shared) keeperPath(round string) string { return string(s) + "." + round + ".keeper" }
func (s Shared) guardPath(round string) string  { return string(s) + "." + round + ".guard" }
func (s Shared) renewPath(round string) string  { return string(s) + "." + round + ".renew" }
