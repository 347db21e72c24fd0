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
	onDisk  files  // as read, and as written since
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

func (tx *Tx) read() (err error) {
	if !tx.nowhere {
		tx.onDisk, err = tx.handle.loadLocked()
	}
	if err == nil {
		tx.Record, _, err = tx.onDisk.record()
	}
	if err != nil {
		return fmt.Errorf("read handle %s: %w", tx.handle.path, err)
	}
	if tx.onDisk.next != nil {
		return nil // a killed process left the rest of a change to us
	}
	tx.saved, err = tx.encode()
	return err
}

// reread learns what a change that failed halfway has left.
func (tx *Tx) reread() {
	tx.saved = nil
	if found, err := tx.handle.loadLocked(); err == nil {
		tx.onDisk = found
	}
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
	changes, after, err := tx.plan(record)
	if err == nil {
		if err = apply(changes...); err != nil {
			tx.reread() // some steps may be done
		}
	}
	if err != nil {
		return fmt.Errorf("write handle %s: %w", tx.handle.path, err)
	}
	tx.onDisk, tx.saved = after, record
	return nil
}

// plan returns the steps that bring the files to tx.Record, such that after
// each of them the files mean what they did before, or what they shall, and the
// files as they are then. What a script has done to them since they were read
// is done as if it came after this change.
//
// The record is written as the next one first, which changes nothing as long
// as the names are those of the old one. The change of the names then makes it
// the one that counts; if the names are the same, it counts at once. Then it
// takes the old one's place. (Without the detour there would be a moment with
// names and a record that do not belong together, whichever is written first,
// and somebody who reads then, or after a kill, would take the names for those
// of a bare handle, or the handle for gone.)
func (tx *Tx) plan(record []byte) (changes []change, after files, err error) {
	switch {
	case tx.State == "" && tx.nowhere:
		return nil, files{}, nil
	case tx.nowhere:
		// Not even if somebody makes the directory meanwhile: we hold no lock.
		return nil, files{}, fmt.Errorf("directory %s does not exist: make it first", filepath.Dir(tx.handle.path))
	case tx.State == "":
		return tx.removal(), files{}, nil
	}
	if err := tx.check(); err != nil {
		return nil, files{}, err
	}
	f, next, json := tx.onDisk, tx.handle.nextPath(), tx.handle.jsonPath()
	after = files{json: record, text: f.text, names: f.names}
	sameNames := f.holdNamesOf(tx.Record)
	if sameNames && f.json == nil && f.next == nil {
		return []change{{path: json, data: record, mode: ownerOnly}}, after, nil
	}
	if _, source, err := f.record(); err == nil && source == nextSuffix {
		changes = append(changes, change{path: json, from: next}) // of a killed process
	}
	changes = append(changes, change{path: next, data: record, mode: ownerOnly})
	switch {
	case sameNames:
	case tx.hasNamesFile():
		after.text, after.names = formatNames(tx.Names()), tx.Names()
		changes = append(changes, change{path: tx.handle.path, data: after.text, mode: ownerOnly})
	default:
		after.text, after.names = nil, nil
		changes = append(changes, change{path: tx.handle.path})
	}
	return append(changes,
		// ext4 starts writing out what is renamed over another file
		// (auto_da_alloc), which takes as long as all the other steps
		// together. Nobody misses the old record here.
		change{path: json},
		change{path: json, from: next},
	), after, nil
}

// removal returns the steps that remove the handle. Its leases were given back,
// so it may be gone early, but must not turn into another one: what does not
// count now, and might without the rest, goes first. Names go before their
// record, since a held record without names is gone, and names without a record
// are a bare handle.
func (tx *Tx) removal() (changes []change) {
	f := tx.onDisk
	_, source, _ := f.record() // broken counts as little as none
	var last []change
	for _, file := range []struct {
		suffix string
		data   []byte
	}{{nextSuffix, f.next}, {jsonSuffix, f.json}, {"", f.text}} {
		step := change{path: tx.handle.path + file.suffix}
		switch {
		case file.data == nil:
		case file.suffix != "" && file.suffix == source:
			last = append(last, step)
		default:
			changes = append(changes, step)
		}
	}
	return append(changes, last...)
}

// removeLock removes the lock file, under its lock, if there is no handle that
// it guards. A lock file that cannot be removed does no harm: it is found
// and used by whoever comes next.
func (tx *Tx) removeLock() {
	if !tx.nowhere && tx.saved != nil && len(tx.saved) == 0 {
		os.Remove(tx.handle.lockPath())
	}
}
