package lockfile

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
)

// Tx is a handle under its lock, inside [Handle.Update]. Its Record is what
// was read, and what is written.
type Tx struct {
	Record

	handle  Handle
	nowhere bool   // there is no directory, hence no lock and no handle
	saved   []byte // Record as it is on disk, encoded; nil: write it in any case
}

// Update is the one way to change a handle: it locks it, reads it, calls fn,
// and writes what fn made of tx.Record. The zero Record stands for no handle,
// before and after: if fn leaves a Record with State "", the handle's files
// are removed, the lock file last. What fn did not change is not written.
//
// It blocks for the lock until ctx ends; from then on ctx has no effect, so
// that what fn did is always written. If fn fails or panics, nothing is
// written beyond what it saved with [Tx.Save].
//
// If the directory of the handle does not exist, fn sees no handle, and may
// leave it at that: releasing what is gone is a success. Anything else is an
// error.
func (h Handle) Update(ctx context.Context, fn func(tx *Tx) error) (err error) {
	tx := &Tx{handle: h}
	unlock, err := h.lock(ctx)
	switch {
	case errors.Is(err, fs.ErrNotExist):
		tx.nowhere = true
	case err != nil:
		return fmt.Errorf("update handle: %w", err)
	default:
		defer unlockInto(&err, unlock)
	}
	if err := tx.read(); err != nil {
		return err
	}
	defer tx.removeLock()
	if err := fn(tx); err != nil {
		return err
	}
	return tx.Save()
}

func (h Handle) lock(ctx context.Context) (unlock func() error, err error) {
	// First, so that not even a lock file is put into another's directory.
	if err := checkDir(filepath.Dir(h.path)); err != nil {
		return nil, err
	}
	return lock(h.lockPath(), waiting(ctx))
}

func (tx *Tx) read() error {
	var f files
	var err error
	if !tx.nowhere {
		f, err = tx.handle.loadLocked()
	}
	if err == nil {
		tx.Record, _, err = f.record()
	}
	if err != nil {
		return fmt.Errorf("read handle %s: %w", tx.handle.path, err)
	}
	if f.next != nil {
		return nil // a killed process left the rest of a change to us
	}
	tx.saved, err = tx.encode()
	return err
}

// Save writes tx.Record now rather than when fn returns: what must be on disk
// before the next step of fn is begun, such as a request id before it is sent.
// After an error the handle is what it was before, or, if a rename failed
// halfway, what it was to be; [Handle.Read] tells.
func (tx *Tx) Save() error {
	record, err := tx.encode()
	if err != nil {
		return fmt.Errorf("write handle %s: %w", tx.handle.path, err)
	}
	// No handle is no reason to write nothing: a script that removed the
	// names may have left the rest.
	if tx.State != "" && bytes.Equal(record, tx.saved) {
		return nil
	}
	changes, err := tx.plan(record)
	if err == nil {
		tx.saved = nil // unknown, should a step fail
		err = apply(changes...)
	}
	if err != nil {
		return fmt.Errorf("write handle %s: %w", tx.handle.path, err)
	}
	tx.saved = record
	return nil
}

// plan returns the steps that bring the files to tx.Record, such that after
// each of them the files mean what they did before, or what they shall.
//
// The record is written as the next one first, which changes nothing as long
// as the names are those of the old one. The change of the names then makes it
// the one that counts; if the names are the same, it counts at once. Then it
// takes the old one's place. (Without the detour there would be a moment with
// names and a record that do not belong together, whichever is written first,
// and somebody who reads then, or after a kill, would take the names for those
// of a bare handle, or the handle for gone.)
func (tx *Tx) plan(record []byte) ([]change, error) {
	switch {
	case tx.State == "" && tx.nowhere:
		return nil, nil
	case tx.nowhere:
		// Not even if somebody makes the directory meanwhile: we hold no lock.
		return nil, fmt.Errorf("directory %s does not exist: make it first", filepath.Dir(tx.handle.path))
	}
	f, err := tx.handle.loadLocked()
	if err != nil {
		return nil, err
	}
	if tx.State == "" {
		return tx.removal(f), nil
	}
	if err := tx.check(); err != nil {
		return nil, err
	}
	next, json := tx.handle.nextPath(), tx.handle.jsonPath()
	var changes []change
	if _, source, err := f.record(); err == nil && source == nextSuffix {
		changes = append(changes, change{path: json, from: next}) // of a killed process
	}
	changes = append(changes, change{path: next, data: record, mode: ownerOnly})
	switch {
	case f.holdNamesOf(tx.Record):
	case tx.hasNamesFile():
		changes = append(changes, change{path: tx.handle.path, data: formatNames(tx.Names()), mode: ownerOnly})
	default:
		changes = append(changes, change{path: tx.handle.path})
	}
	return append(changes,
		// ext4 starts writing out what is renamed over another file
		// (auto_da_alloc), which takes as long as all the other steps
		// together. Nobody misses the old record here.
		change{path: json},
		change{path: json, from: next},
	), nil
}

// removal returns the steps that remove the handle. Its leases were given back,
// so it may be gone early, but must not turn into another one: what does not
// count now, and might without the rest, goes first. Names go before their
// record, since a held record without names is gone, and names without a record
// are a bare handle.
func (tx *Tx) removal(f files) []change {
	_, source, _ := f.record() // broken counts as little as none
	var changes []change
	for _, suffix := range []string{nextSuffix, jsonSuffix} {
		if suffix != source {
			changes = append(changes, change{path: tx.handle.path + suffix})
		}
	}
	changes = append(changes, change{path: tx.handle.path})
	if source != "" {
		changes = append(changes, change{path: tx.handle.path + source})
	}
	return changes
}

// removeLock removes the lock file, under its lock, if there is no handle that
// it guards. A lock file that cannot be removed does no harm: it is found
// and used by whoever comes next.
func (tx *Tx) removeLock() {
	none, err := Record{}.encode()
	if err == nil && !tx.nowhere && bytes.Equal(tx.saved, none) {
		os.Remove(tx.handle.lockPath())
	}
}
