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
	"strings"
	"syscall"
	"time"
)

// Journal is the path of a directory in which processes write down what they
// are about to do at a proxy, each in a file of its own, so that it can be
// settled if they die over it.
//
// It guarantees that an entry whose process lives is never handed to anybody
// else, and that one whose process is dead is, at once: the process holds a
// lock on its entry (flock(2)), which no pid is needed to judge by. Hence it
// holds between PID namespaces that share the directory.
//
// An entry whose content is not whole was never acted on: [Journal.Begin]
// returns, and lets its caller act, only after the last byte is written.
type Journal string

// Intent is one entry of a [Journal].
type Intent struct {
	ID   string `json:"id"` // names the entry: letters, digits and dashes
	Kind Kind   `json:"kind"`
	// Request is the id of the request that it is about: that of an acquire,
	// or the one that the handle held when its release began.
	Request string `json:"request,omitempty"`

	Handle string    `json:"handle"` // path
	Proxy  string    `json:"proxy,omitempty"`
	Type   string    `json:"type,omitempty"`
	Count  int       `json:"count,omitempty"`
	Owner  string    `json:"owner,omitempty"`
	PID    int       `json:"pid"` // for people: it may be of another PID namespace
	Begun  time.Time `json:"begun"`
}

// Kind says what a process was about to do.
type Kind string

const (
	// Acquiring: leases that outlive the process, once the handle has them.
	Acquiring Kind = "acquire"
	// Holding: leases for the life of the process.
	Holding Kind = "hold"
	// Releasing: giving back what the handle held or owed.
	Releasing Kind = "release"
)

// Entry is an intent of this process, which is alive as long as the Entry is
// referred to and neither settled nor left.
type Entry struct {
	path   string
	unlock func() error
}

const intentSuffix = ".json"

// Begin writes an intent down and holds it. It makes the directory, but not the
// one above it. It blocks only while somebody looks at the new file, at most
// until ctx ends.
func (j Journal) Begin(ctx context.Context, in Intent) (e *Entry, err error) {
	defer func() {
		if err != nil {
			err = fmt.Errorf("begin a journal entry: %w", err)
		}
	}()
	data, err := json.Marshal(in)
	if err != nil {
		return nil, err
	}
	if err := MakeDir(string(j)); err != nil {
		return nil, err
	}
	// Written in place, since a renamed file would not be the locked one. It is
	// empty and free for a moment, in which somebody may take it for a dead
	// one's and remove it: then the lock is not on it any more, and taken anew.
	e = &Entry{path: filepath.Join(string(j), in.ID+intentSuffix)}
	if e.unlock, err = lock(e.path, waiting(ctx)); err != nil {
		return nil, err
	}
	if err := fill(e.path, append(data, '\n')); err != nil {
		return nil, errors.Join(err, e.Settle())
	}
	return e, nil
}

// fill writes data over what is in a file: nothing, or the entry that a killed
// process has left under the same id, of which a longer rest is made blank. It is
// one write, so that a kill leaves either of them whole. (Not O_TRUNC, for that
// reason, and since it makes ext4 write the file out when it is closed,
// auto_da_alloc, though it lives for milliseconds and need not survive a power cut.)
func fill(path string, data []byte) error {
	f, err := os.OpenFile(path, os.O_WRONLY|syscall.O_NOFOLLOW, 0)
	if err != nil {
		return err
	}
	old, err := f.Stat()
	if err == nil {
		_, err = f.Write(append(data, bytes.Repeat([]byte{'\n'}, max(0, int(old.Size())-len(data)))...))
	}
	return errors.Join(err, f.Close())
}

// Settle removes the entry: what it was about is over.
func (e *Entry) Settle() error {
	if err := os.Remove(e.path); err != nil && !errors.Is(err, fs.ErrNotExist) {
		return errors.Join(fmt.Errorf("settle a journal entry: %w", err), e.unlock())
	}
	return e.unlock()
}

// Leave hands the entry on to whoever asks for those of the dead next.
func (e *Entry) Leave() error { return e.unlock() }

// Dead calls fn with each intent whose process is dead, oldest first, and
// removes those that fn settles. No other process is given the same intent
// until fn returns. It stops when ctx ends, and never waits for a lock. An
// entry that cannot be read is in the error, and stays.
func (j Journal) Dead(ctx context.Context, fn func(Intent) (settled bool)) error {
	names, err := j.entries()
	if err != nil {
		return fmt.Errorf("read journal %s: %w", j, err)
	}
	var errs []error
	for _, name := range names {
		if ctx.Err() != nil {
			break
		}
		path := filepath.Join(string(j), name)
		err := TryLock(path, func() error {
			in, whole, err := readIntent(path)
			if err != nil {
				return err
			}
			if !whole || fn(in) {
				return os.Remove(path)
			}
			return nil
		})
		if err != nil && !errors.Is(err, ErrLocked) && !errors.Is(err, fs.ErrNotExist) {
			errs = append(errs, fmt.Errorf("read journal: %w", err))
		}
	}
	return errors.Join(errs...)
}

// entries are the names of the files that are entries, the oldest first.
func (j Journal) entries() ([]string, error) {
	if err := checkDir(string(j)); err != nil {
		if errors.Is(err, fs.ErrNotExist) {
			return nil, nil
		}
		return nil, err
	}
	dir, err := os.ReadDir(string(j))
	if err != nil {
		return nil, err
	}
	type file struct {
		name string
		at   time.Time
	}
	var files []file
	for _, f := range dir {
		if !strings.HasSuffix(f.Name(), intentSuffix) {
			continue
		}
		if info, err := f.Info(); err == nil { // else it was settled meanwhile
			files = append(files, file{f.Name(), info.ModTime()})
		}
	}
	slices.SortStableFunc(files, func(a, b file) int { return a.at.Compare(b.at) })
	names := make([]string, len(files))
	for i, f := range files {
		names[i] = f.name
	}
	return names, nil
}

// readIntent reads an entry whose lock is held. It is not whole if its process
// died before Begin returned.
func readIntent(path string) (in Intent, whole bool, err error) {
	data, err := readOwn(path)
	if err != nil {
		return Intent{}, false, err
	}
	if json.Unmarshal(data, &in) != nil {
		return Intent{}, false, nil
	}
	return in, in.ID+intentSuffix == filepath.Base(path), nil
}
