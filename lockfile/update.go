package lockfile

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"syscall"

	"github.com/leasectl/leasectl/internal/own"
)

// Tx is a handle under its lock, inside [Handle.Update]. Its Record is the record on disk at
// first, and the one to write in the end.
type Tx struct {
	Record

	handle  Handle
	nowhere error  // why there can be no lock, and is no handle; nil: we hold the lock
	onDisk  files  // as read, and as written since
	saved   []byte // Record as it is on disk, encoded; nil: write it in any case
	request string // RequestID of the Record on disk
}

// Update is the only way to change a handle. It locks the handle, reads its record, calls fn, and
// writes the record as fn left it, unless fn did not change it. The zero Record means that there
// is no handle: if fn leaves it, the handle's files are removed, the lock file last.
//
// Update blocks for the lock until ctx ends. From then on ctx has no effect, so that the change is
// always written. If fn fails or panics, nothing is written but what it saved with [Tx.Save]. If a
// newer program wrote the handle, the error is [ErrNewer], and fn is not called.
//
// If the directory of the handle does not exist, or has neither a handle nor room for a lock,
// fn gets the zero Record. Update succeeds if fn leaves it so, since releasing a handle that is
// gone is a success. Any other Record is then an error.
func (h Handle) Update(ctx context.Context, fn func(tx *Tx) error) (err error) {
	tx := &Tx{handle: h}
	unlock, err := h.lock(ctx)
	switch {
	case errors.Is(err, fs.ErrNotExist):
		tx.nowhere = fmt.Errorf("directory %s does not exist: make it first", filepath.Dir(h.path))
	case noRoom(err) && h.absent():
		tx.nowhere = err
	case err != nil:
		return fmt.Errorf("update handle: %w", err)
	default:
		defer unlockInto(&err, unlock)
	}
	defer tx.removeLock()
	if err := tx.read(); err != nil {
		return err
	}
	if err := fn(tx); err != nil {
		return err
	}
	return tx.Save()
}

// Path returns the path of the handle.
func (tx *Tx) Path() string { return tx.handle.path }

// RequestOnDisk returns the request id of the record on disk, as last read or saved; "" if
// there is no record, or it has no id, as in a bare handle.
func (tx *Tx) RequestOnDisk() string { return tx.request }

func (h Handle) lock(ctx context.Context) (unlock func() error, err error) {
	// Checked first, so that not even a lock file is created in a directory of another user.
	if err := checkDir(filepath.Dir(h.path)); err != nil {
		return nil, err
	}
	return lockFile(h.lockPath(), waiting(ctx))
}

// noRoom reports whether err says that a new file cannot be created: the disk or the quota is
// full, or the file system is read-only.
func noRoom(err error) bool {
	return errors.Is(err, syscall.ENOSPC) || errors.Is(err, syscall.EDQUOT) || errors.Is(err, syscall.EROFS)
}

// absent reports whether the handle has no files.
func (h Handle) absent() bool {
	f, err := h.load()
	return err == nil && f.next == nil && f.json == nil && f.text == nil
}

func (tx *Tx) read() (err error) {
	if tx.nowhere == nil {
		tx.onDisk, err = tx.handle.loadLocked()
	}
	if err == nil {
		tx.Record, _, err = tx.onDisk.record()
	}
	if err != nil {
		return fmt.Errorf("read handle %s: %w", tx.handle.path, err)
	}
	tx.request = tx.RequestID
	if tx.onDisk.next != nil {
		return nil // a killed process left its change unfinished: Save finishes it
	}
	tx.saved, err = tx.encode()
	return err
}

// reread reads the files again after a change that failed halfway.
func (tx *Tx) reread() {
	tx.saved = nil
	if found, err := tx.handle.loadLocked(); err == nil {
		tx.onDisk = found
	}
}

// Save writes tx.Record at once rather than when fn returns. It is for data that must be on
// disk before fn goes on, such as a request id before it is sent. After an error the handle has
// its old record or, if a rename failed halfway, the new one; [Handle.Read] tells which.
func (tx *Tx) Save() error {
	record, err := tx.encode()
	if err != nil {
		return fmt.Errorf("write handle %s: %w", tx.handle.path, err)
	}
	// Removal is never skipped: a script that removed the names may have left
	// the other files.
	if tx.State != "" && bytes.Equal(record, tx.saved) {
		return nil
	}
	steps, err := tx.steps(record)
	if err == nil {
		if err = apply(steps...); err != nil {
			tx.reread() // some steps may be done
		}
	}
	if err != nil {
		return fmt.Errorf("write handle %s: %w", tx.handle.path, err)
	}
	tx.onDisk, tx.saved, tx.request = tx.onDisk.after(tx.handle, steps), record, tx.RequestID
	return nil
}

// steps returns the steps that bring the files to tx.Record, encoded as record.
func (tx *Tx) steps(record []byte) ([]change, error) {
	switch {
	case tx.State == "" && tx.nowhere != nil:
		return nil, nil
	case tx.nowhere != nil: // even if a lock could be made now: we hold none
		return nil, tx.nowhere
	case tx.State == "":
		return tx.onDisk.stepsToNone(tx.handle), nil
	}
	return tx.onDisk.stepsTo(tx.handle, tx.Record, record), tx.check()
}

// removeLock removes the lock file, under its lock, if there is no record: a file of names may be any file.
// A lock file that cannot be removed does no harm: the next process uses it.
func (tx *Tx) removeLock() {
	if tx.nowhere == nil && tx.onDisk.json == nil && tx.onDisk.next == nil {
		removeLockFile(tx.handle.lockPath())
	}
}

// removeLockFile removes a lock file under its lock. One with content is not ours, such as Cargo.lock beside
// a handle Cargo.
func removeLockFile(path string) {
	own.As(filepath.Dir(path), func() error {
		if fi, err := os.Lstat(path); err == nil && fi.Size() == 0 {
			os.Remove(path)
		}
		return nil
	})
}
