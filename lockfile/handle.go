package lockfile

import (
	"bytes"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"time"
)

// Endings of the files beside a handle. No handle ends in one of the first two,
// so nothing else is ever meant by the third.
const (
	lockSuffix = ".lock"
	jsonSuffix = ".json"
	nextSuffix = lockSuffix + jsonSuffix // the record of a change under way
)

// Handle is the place of a handle, whether or not there is one. Make it with
// [OpenHandle]. It holds nothing open and needs no closing.
type Handle struct {
	path  string // absolute
	wrote *wrote // by this process
}

// Names are of at most 255 bytes, and paths of 4,096. The longest name beside a handle
// is that of a temporary file with its next record.
const (
	maxHandleName = 255 - len("."+nextSuffix+".tmp4294967295")
	maxHandlePath = 4095 - (255 - maxHandleName)
)

// OpenHandle returns the handle at path, a file that need not exist. It
// refuses the empty path, a directory, a symlink, a file of another user, and
// names that end in .lock or .json, or are too long.
func OpenHandle(path string) (Handle, error) {
	if path == "" {
		return Handle{}, errors.New("open handle: the path is empty")
	}
	if os.IsPathSeparator(path[len(path)-1]) {
		return Handle{}, fmt.Errorf("open handle: %s is the path of a directory: add a file name to it", path)
	}
	for _, suffix := range []string{lockSuffix, jsonSuffix} {
		if strings.HasSuffix(path, suffix) {
			return Handle{}, fmt.Errorf("open handle: %s ends in %s, as the files beside a handle do: use the path without it, or another name", path, suffix)
		}
	}
	abs, err := filepath.Abs(path)
	if err != nil {
		return Handle{}, fmt.Errorf("open handle: %w", err)
	}
	if n := len(filepath.Base(abs)); n > maxHandleName {
		return Handle{}, fmt.Errorf("open handle: the name of the file has %d bytes: choose one of at most %d", n, maxHandleName)
	}
	if len(abs) > maxHandlePath {
		return Handle{}, fmt.Errorf("open handle: the path has %d bytes: choose one of at most %d", len(abs), maxHandlePath)
	}
	// Early, so that a mistake shows before anything is acquired; what
	// counts is the check of each file when it is opened.
	if err := refusal(abs); err != nil {
		return Handle{}, fmt.Errorf("open handle: %w", err)
	}
	return Handle{path: abs, wrote: new(wrote)}, nil
}

// Path returns the absolute path of the names file.
func (h Handle) Path() string { return h.path }

func (h Handle) lockPath() string { return h.path + lockSuffix }
func (h Handle) jsonPath() string { return h.path + jsonSuffix }
func (h Handle) nextPath() string { return h.path + nextSuffix }

// Read returns the record of the handle as of now, without the lock. If there
// is no handle, or no directory for one, the error is [fs.ErrNotExist]. If a newer
// program wrote the handle, the error is [ErrNewer], and the Record has the names
// in HANDLE and nothing else.
func (h Handle) Read() (Record, error) {
	err := checkDir(filepath.Dir(h.path))
	var f files
	if err == nil {
		f, err = h.load()
	}
	var r Record
	if err == nil {
		r, _, err = f.record()
	}
	if err == nil && r.State == "" {
		err = fs.ErrNotExist
	}
	if err != nil {
		return r, fmt.Errorf("read handle %s: %w", h.path, err)
	}
	return r, nil
}

// Modified returns when the names file was written; the zero time if there is none.
// A time without a fraction of a second is of a file system, or an archive, that
// drops it: then it is the end of that second.
func (h Handle) Modified() time.Time { return modified(h.path) }

func modified(path string) time.Time {
	fi, err := os.Lstat(path)
	if err != nil {
		return time.Time{}
	}
	at := fi.ModTime()
	if at.Nanosecond() == 0 {
		at = at.Add(time.Second - 1)
	}
	return at
}

// files is what was found on disk.
type files struct {
	text  []byte   // the names file; this and the others are nil if there is none
	names []string // in it
	json  []byte
	next  []byte
	wrote *wrote // of their handle
}

// load reads the files as they were at one moment, without the lock. Around
// every change of the names, Update makes the next record appear and disappear.
// So if two reads in a row find the same, no change went on between them. (A
// removal has no next record, but is over as soon as the names are gone.)
//
// If both reads find no record, a handle may have come and gone in between. Then
// only its names are seen, as those of a bare handle.
func (h Handle) load() (files, error) { return untilSame(h.loadLocked, files.same) }

// untilSame calls read until it returns the same twice in a row. Each further call
// means that another process made progress.
func untilSame[T any](read func() (T, error), same func(T, T) bool) (T, error) {
	v, err := read()
	for err == nil {
		var again T
		if again, err = read(); err == nil && same(v, again) {
			return v, nil
		}
		v = again
	}
	return v, err
}

// loadLocked is load for a caller that holds the lock.
func (h Handle) loadLocked() (f files, err error) {
	for _, file := range []struct {
		path string
		data *[]byte
	}{{h.nextPath(), &f.next}, {h.jsonPath(), &f.json}, {h.path, &f.text}} {
		if *file.data, err = readOwn(file.path); err != nil {
			return files{}, err
		}
	}
	f.wrote = h.wrote
	f.names, err = parseNames(f.text)
	return f, err
}

func (f files) same(g files) bool {
	return bytes.Equal(f.next, g.next) && bytes.Equal(f.json, g.json) && bytes.Equal(f.text, g.text)
}

// record returns the meaning of the files, the zero Record if they are no handle,
// and the ending of the file that holds the record that counts, if one does.
//
//   - A record counts if the names are its own. With two of them, an Update is
//     under way, or was killed: the names tell whether the next one has become
//     the one that counts.
//   - Otherwise names count without a record: a script copied them here, or
//     the record is missing or broken.
//   - Without names a held record is gone, since a script that removes the
//     file of names means the handle. One that is queued or releasing stays
//     without it: its request or its leases are still owed.
//   - If a newer program wrote either record, the error is [ErrNewer]: which one
//     counts is not known, so r has the names and nothing else.
func (f files) record() (r Record, source string, err error) {
	var nameless Record // one that counts without names
	var broken error
	for _, file := range []struct {
		suffix string
		data   []byte
	}{{nextSuffix, f.next}, {jsonSuffix, f.json}} {
		if file.data == nil {
			continue
		}
		r, err := f.wrote.decode(file.data)
		switch {
		case errors.Is(err, ErrNewer):
			return Record{Leases: bare(f.names).Leases}, "", err
		case err != nil:
			broken = fmt.Errorf("its %s is broken (%w), and there are no names without it: remove that file", file.suffix, err)
		case f.holdNamesOf(r):
			return r, file.suffix, nil
		case r.State != StateHeld && source == "":
			nameless, source = r, file.suffix
		}
	}
	switch {
	case len(f.names) > 0:
		return bare(f.names), "", nil
	case source != "":
		return nameless, source, nil
	}
	return Record{}, "", broken
}

// bare returns the record of names without one.
func bare(names []string) Record {
	r := Record{State: StateHeld}
	for _, name := range names {
		r.Leases = append(r.Leases, Lease{Name: name})
	}
	return r
}

// holdNamesOf reports whether the names file is as that of r.
func (f files) holdNamesOf(r Record) bool {
	return sameNames(f.names, r.NamesInFile()) && (f.text != nil || !r.hasNamesFile())
}
