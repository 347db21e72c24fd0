package lockfile

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"syscall"
	"time"

	"github.com/leasectl/leasectl/leaseapi"
	"github.com/leasectl/leasectl/leaseapi/object"
)

// Journal is the path of a directory in which processes write down what they
// are about to do at a proxy, each in a file of its own, so that it can be
// settled if they die over it.
//
// It guarantees that the entry of a live process is handed to nobody else, and
// that the entry of a dead one can be handed on at once: a process holds a lock
// (flock(2)) on its entry as long as it lives. No pid is looked at, so this holds
// between PID namespaces that share the directory.
//
// An entry whose content is not whole was never acted on: [Journal.Begin]
// returns, and lets its caller act, only after the last byte is written.
type Journal string

// Intent is one entry of a [Journal].
type Intent struct {
	ID   string `json:"id"` // names the entry; see [leaseapi.CheckRequestID]
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

	// Left says that its process was not killed, but gave it up; see [Entry.Leave].
	Left bool `json:"left,omitempty"`
	// Unconfirmed are names that the proxy no longer knows, though no
	// release of them succeeded.
	Unconfirmed []string `json:"unconfirmed,omitempty"`
}

// Kind says what a process was about to do. Its values are what older programs
// wrote: they must stay.
type Kind string

const (
	// KindAcquire: leases that outlive the process, once the handle has them.
	KindAcquire Kind = "acquire"
	// KindExec: leases for the life of the process.
	KindExec Kind = "hold"
	// KindRelease: giving back what the handle held or owed.
	KindRelease Kind = "release"
	// KindKeep: a process in the background is to give back what the handle holds.
	KindKeep Kind = "keep"
)

// Entry is an intent of this process, which is alive as long as the Entry is
// referred to and neither settled nor left.
type Entry struct {
	path   string
	intent Intent
	unlock func() error
}

const intentSuffix = ".json"

// Begin writes an intent down and holds it. It makes the directory, but not the
// one above it. It blocks only while somebody looks at the new file, at most
// until ctx ends.
func (j Journal) Begin(ctx context.Context, in Intent) (*Entry, error) {
	e, err := j.begin(ctx, in)
	if err != nil {
		return nil, fmt.Errorf("begin a journal entry: %w", err)
	}
	return e, nil
}

func (j Journal) begin(ctx context.Context, in Intent) (e *Entry, err error) {
	if err := leaseapi.CheckRequestID(in.ID); err != nil {
		return nil, err
	}
	data, err := in.encode()
	if err != nil {
		return nil, err
	}
	if err := MakeDir(string(j)); err != nil {
		return nil, err
	}
	// Written in place, since a file renamed over it would not be locked. For a
	// moment it is empty and unlocked, as an entry of a dead process may be, and
	// Dead may remove it: then lockFile starts over with a new one.
	e = &Entry{path: filepath.Join(string(j), in.ID+intentSuffix), intent: in}
	if e.unlock, err = lockFile(e.path, waiting(ctx)); err != nil {
		return nil, err
	}
	switch err := fill(e.path, data); {
	case errors.Is(err, ErrNewer):
		return nil, errors.Join(err, e.unlock())
	case err != nil:
		return nil, errors.Join(err, e.Settle())
	}
	return e, nil
}

// encode returns in as it stands on disk.
func (in Intent) encode() ([]byte, error) {
	o := object.New()
	o.Int("format", plainFormat)
	o.StringIf("id", in.ID)
	o.StringIf("kind", string(in.Kind))
	o.StringIf("request", in.Request)
	o.StringIf("handle", in.Handle)
	o.StringIf("proxy", in.Proxy)
	o.StringIf("type", in.Type)
	o.IntIf("count", int64(in.Count))
	o.StringIf("owner", in.Owner)
	o.IntIf("pid", int64(in.PID))
	o.TimeIf("begun", in.Begun)
	o.TrueIf("left", in.Left)
	if len(in.Unconfirmed) > 0 {
		o.Value("unconfirmed", in.Unconfirmed)
	}
	return append(o.End(), '\n'), o.Err()
}

// fill writes data over the content of a file: nothing, or the entry that a
// killed process left under the same id, unless that is of a newer format. The
// rest of a longer entry is made blank by the same write, so that a kill leaves
// either of them whole. (Not O_TRUNC, for that reason, and since it makes ext4
// write the file out when it is closed, auto_da_alloc, though an entry lives for
// milliseconds and need not survive a power cut.)
func fill(path string, data []byte) error {
	f, err := os.OpenFile(path, os.O_RDWR|syscall.O_NOFOLLOW, 0)
	if err != nil {
		return err
	}
	old, err := f.Stat()
	if err == nil && old.Size() > 0 {
		err = checkFormatOf(f)
	}
	if err == nil {
		_, err = f.WriteAt(append(data, bytes.Repeat([]byte{'\n'}, max(0, int(old.Size())-len(data)))...), 0)
	}
	return errors.Join(err, f.Close())
}

// checkFormatOf is checkFormat of a file.
func checkFormatOf(f *os.File) error {
	data, err := io.ReadAll(io.LimitReader(f, maxFile))
	if err != nil {
		return err
	}
	return checkFormat(data)
}

// Kind returns what the process is about to do.
func (e *Entry) Kind() Kind { return e.intent.Kind }

// Request returns the id of the request that the entry is about.
func (e *Entry) Request() string { return e.intent.Request }

// Settle removes the entry: nothing is left to do.
func (e *Entry) Settle() error {
	if err := os.Remove(e.path); err != nil && !errors.Is(err, fs.ErrNotExist) {
		return errors.Join(fmt.Errorf("settle a journal entry: %w", err), e.unlock())
	}
	return e.unlock()
}

// Leave hands the entry on to the next process that calls [Journal.Dead], and says
// in it that this one was not killed. A kill leaves the entry with or without that.
func (e *Entry) Leave() error {
	e.intent.Left = true
	data, err := e.intent.encode()
	if err == nil {
		err = fill(e.path, data)
	}
	if err != nil {
		err = fmt.Errorf("leave a journal entry: %w", err)
	}
	return errors.Join(err, e.unlock())
}

// Dead calls fn with each intent whose process is dead, oldest first, and
// removes those that fn settles. No other process is given the same intent
// until fn returns. It stops when ctx ends, and never waits for a lock. An
// entry that cannot be read, or that a newer program wrote ([ErrNewer]), stays and
// is in the error.
func (j Journal) Dead(ctx context.Context, fn func(Intent) (settled bool)) error {
	entries, err := byAge(string(j), intentSuffix)
	if err != nil {
		return fmt.Errorf("read journal %s: %w", j, err)
	}
	var errs []error
	for _, e := range entries {
		if ctx.Err() != nil {
			break
		}
		err := TryLock(e.path, func() error {
			in, whole, err := readIntent(e.path)
			if err != nil {
				return err
			}
			if !whole || fn(in) {
				return os.Remove(e.path)
			}
			return nil
		})
		if err != nil && !errors.Is(err, ErrLocked) && !errors.Is(err, fs.ErrNotExist) {
			errs = append(errs, fmt.Errorf("read journal: %w", err))
		}
	}
	return errors.Join(errs...)
}

// Contains reports whether fn says so of one of the intents, of processes that live or
// are dead. It takes no locks, and passes over entries that cannot be read.
func (j Journal) Contains(fn func(Intent) bool) bool {
	entries, _ := byAge(string(j), intentSuffix)
	for _, e := range entries {
		if in, whole, err := readIntent(e.path); err == nil && whole && fn(in) {
			return true
		}
	}
	return false
}

// readIntent reads an entry. It is not whole if its process died before Begin
// returned, or has not come that far: who holds the lock of the entry knows which.
func readIntent(path string) (in Intent, whole bool, err error) {
	data, err := readOwn(path)
	if err != nil {
		return Intent{}, false, err
	}
	var doc struct {
		Format int `json:"format"`
		Intent
	}
	switch err := unmarshal(data, &doc, &doc.Format); {
	case errors.Is(err, ErrNewer):
		return Intent{}, false, fmt.Errorf("%s: %w", path, err)
	case err != nil:
		return Intent{}, false, nil
	}
	return doc.Intent, doc.ID+intentSuffix == filepath.Base(path), nil
}
