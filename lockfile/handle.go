package lockfile

import (
	"bytes"
	"crypto/rand"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"time"
)

// Suffixes of the files beside a handle. No path of a handle ends in one of the first two, so
// the third can only mean the next record.
const (
	lockSuffix = ".lock"
	jsonSuffix = ".json"
	nextSuffix = lockSuffix + jsonSuffix // the record of a change under way
)

// Handle is the path of a handle, whether or not the handle exists. Make it with [OpenHandle].
// It keeps no file open and needs no closing.
type Handle struct {
	path string // absolute
}

// File names have at most 255 bytes, and paths 4,096 with their final NUL. The longest name
// beside a handle is that of the temporary file for its next record.
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
	// This early check shows a mistake before anything is acquired. The check that protects is
	// made on each file after it is opened.
	if err := refusal(abs); err != nil {
		return Handle{}, fmt.Errorf("open handle: %w", err)
	}
	return Handle{path: abs}, nil
}

// NewHandle returns a handle with a new name in the state directory. It creates no file.
func NewHandle(stateDir string) (Handle, error) {
	handle, err := OpenHandle(filepath.Join(stateDir, "lease-"+rand.Text()))
	if err != nil {
		return handle, stateDirError(err)
	}
	return handle, nil
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

// HasRecord reports whether there is a record, which [Handle.Read] may or may not accept. It is cheaper.
func (h Handle) HasRecord() bool {
	_, err := os.Lstat(h.jsonPath())
	return err == nil
}

// Modified returns when the names file was last written; the zero time if there is none. A time
// without a fraction of a second comes from a file system, or an archive, that drops the
// fraction. Modified then returns the end of that second.
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

// files are the contents of the files of a handle.
type files struct {
	text  []byte   // of the names file; each content is nil if there is no such file
	names []string // in text
	json  []byte
	next  []byte
}

// load reads the files as they were at one moment, without the lock. Around every change of the
// names, Update makes the next record appear and disappear. So if two reads in a row find the
// same, no change happened between them. (A removal has no next record, but is over as soon as
// the names are gone.)
//
// If both reads find no record, a handle may have come and gone between them. Then load may
// return its names alone, as those of a bare handle.
func (h Handle) load() (files, error) { return untilSame(h.loadLocked, files.same) }

// untilSame calls read until two results in a row are the same. Each further call means that
// another process made progress.
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
	f.names, err = parseNames(f.text)
	return f, err
}

func (f files) same(g files) bool {
	return bytes.Equal(f.next, g.next) && bytes.Equal(f.json, g.json) && bytes.Equal(f.text, g.text)
}

// record returns the record that the files mean, the zero Record if they are no handle. source
// is the suffix of the file that holds this record, "" if no file does.
//
//   - A record counts if its names are those in the names file. If there are two records, an
//     Update is under way, or was killed: the names tell which of the two counts.
//   - Otherwise the names count without a record: a script copied them here, or the record is
//     missing or broken.
//   - A held record without names does not count, since a script that removes the names file
//     removes the handle. A queued or releasing record counts without names: its request or its
//     leases are still owed.
//   - If a newer program wrote either record, the error is [ErrNewer]. It is not known which
//     record counts, so r has the names and nothing else.
func (f files) record() (r Record, source string, err error) {
	var nameless Record // a record that counts without names
	var broken error
	for _, file := range []struct {
		suffix string
		data   []byte
	}{{nextSuffix, f.next}, {jsonSuffix, f.json}} {
		if file.data == nil {
			continue
		}
		r, err := decode(file.data)
		switch {
		case errors.Is(err, ErrNewer):
			return Record{Leases: bare(f.names).Leases}, "", err
		case err != nil:
			broken = fmt.Errorf("its %s is broken (%w), and there are no names without it: look at that file, and remove it if it is of no use", file.suffix, err)
		case f.holdNamesOf(r):
			return r, file.suffix, nil
		case r.State != HandleHeld && source == "":
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

// bare returns the record of a bare handle with these names.
func bare(names []string) Record {
	r := Record{State: HandleHeld}
	for _, name := range names {
		r.Leases = append(r.Leases, Lease{Name: name})
	}
	return r
}

// holdNamesOf reports whether the names file has the names of r, in any order, and exists if r
// needs one.
func (f files) holdNamesOf(r Record) bool {
	return sameNames(f.names, r.NamesInFile()) && (f.text != nil || !r.hasNamesFile())
}
