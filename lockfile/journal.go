package lockfile

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"syscall"
	"time"

	"github.com/gofrs/flock"

	"github.com/leasectl/leasectl/leaseapi"
)

// Journal is the path of a directory in which each process writes down, in a file of its own,
// what it is about to do at a proxy. If the process dies, another process can settle that.
//
// It guarantees that the entry of a live process is passed to no other process, and that the
// entry of a dead one can be passed on at once: a process holds a lock (flock(2)) on its entry
// as long as it lives. No pid is compared, so this holds between PID namespaces that share the
// directory.
//
// An incomplete entry was never acted on: [Journal.Begin] returns, and lets its caller act,
// only after the last byte is written.
type Journal string

// Intent is one entry of a [Journal].
type Intent struct {
	ID   string `json:"id"` // names the entry; see [leaseapi.CheckRequestID]
	Kind Kind   `json:"kind"`
	// Request is a request id: that of the acquire, or the one that the handle held when its
	// release began.
	Request string `json:"request,omitempty"`

	Handle string    `json:"handle"` // path
	Proxy  string    `json:"proxy,omitempty"`
	Type   string    `json:"type,omitempty"`
	Count  int       `json:"count,omitempty"`
	Owner  string    `json:"owner,omitempty"`
	PID    int       `json:"pid"` // for people: it may be of another PID namespace
	Begun  time.Time `json:"begun"`

	// Within is the request of the exec within whose command the process runs; "": there is none.
	Within string `json:"within,omitempty"`
	// Taker is who took the leases of Request; zero: everybody, or nobody yet, since no answer came. TTL is
	// how long they last after their last renewal, and Store the id of the store that has them; zero: no answer came.
	Taker leaseapi.Caller `json:"taker,omitzero"`
	TTL   time.Duration   `json:"ttl_ns,omitempty"`
	Store string          `json:"store,omitempty"`

	// Left says that the process was not killed, but gave the entry up; see [Entry.Leave].
	Left bool `json:"left,omitempty"`
	// Dead is when the process had ended, or had left the entry, at the latest; zero: nobody has looked yet.
	Dead time.Time `json:"dead,omitzero"`
}

const (
	// unansweredTime is after how long nothing is left of a request whose process is dead and had no answer: it
	// loses its place in the queue, and a grant ends that nobody confirms.
	unansweredTime = leaseapi.PlaceKept + leaseapi.ProvisionalTTL
	// awayTime is added to the TTL of a lease, which does not run while no server does: longer than an outage.
	awayTime = 24 * time.Hour
)

// Outlived tells whether what an intent of a dead process is about has ended by itself by now, also if there was an
// outage. ttl is how long its leases last, if a renewal may have changed that.
func (in Intent) Outlived(now time.Time, ttl time.Duration) bool {
	after := unansweredTime
	if ttl = max(ttl, in.TTL); ttl > 0 {
		after = ttl + awayTime
	}
	return !in.Dead.IsZero() && now.After(in.Dead.Add(after))
}

// Kind says what a process was about to do.
type Kind string

const (
	// KindAcquire: take leases that outlive the process, once the handle has them.
	KindAcquire Kind = "acquire"
	// KindExec: take leases for the life of the process.
	KindExec Kind = "hold"
	// KindRelease: give back what the handle holds or waits for.
	KindRelease Kind = "release"
	// KindKeep: a process in the background gives back the leases that the handle holds.
	KindKeep Kind = "keep"
)

// Intent returns the journal entry for an operation on the record's request. handle is the path of
// its handle.
func (r Record) Intent(id string, kind Kind, handle string) Intent {
	in := Intent{
		ID: id, Kind: kind, Request: r.RequestID, Handle: handle, Proxy: r.Proxy, Type: r.Type, Count: r.Count, Owner: r.Owner,
	}
	if len(r.Leases) > 0 {
		in.Taker, in.TTL, in.Store = r.Taker, r.TTL, r.Store
	}
	return in
}

// Describe names for people the operation and the process of an intent that a dead process left, and
// says how the process ended.
func (in Intent) Describe() string {
	what := map[Kind]string{KindAcquire: "acquire", KindExec: "exec", KindRelease: "release", KindKeep: "keeper"}[in.Kind]
	how := "was killed"
	if in.Left {
		how = "failed"
	}
	return fmt.Sprintf("%s %s (process %d) %s", what, in.ID, in.PID, how)
}

// Entry is an intent of this process. The process counts as alive as long as something refers
// to the Entry and it is neither settled nor left.
type Entry struct {
	path   string
	intent Intent
	file   *flock.Flock // locked
}

const intentSuffix = ".json"

// Begin writes an intent down and locks its entry. It makes the directory, but not its parent.
// It blocks only while another process looks at the new file, at most until ctx ends. If a
// newer program left an entry with the same id, the error is [ErrNewer].
func (j Journal) Begin(ctx context.Context, in Intent) (*Entry, error) {
	e, err := j.begin(ctx, in)
	if err != nil {
		return nil, fmt.Errorf("begin a journal entry: %w", err)
	}
	return e, nil
}

func (j Journal) begin(ctx context.Context, in Intent) (e *Entry, err error) {
	if err := in.check(); err != nil {
		return nil, err
	}
	data, err := in.encode()
	if err != nil {
		return nil, err
	}
	if err := MakeDir(string(j)); err != nil {
		return nil, err
	}
	// Written in place, since a file renamed over it would not be locked. For a moment the new
	// file is empty and unlocked, like one that a dead process left, and SettleDead may remove it:
	// then lockFile starts over with a new file.
	e = &Entry{path: filepath.Join(string(j), in.ID+intentSuffix), intent: in}
	if e.file, err = openLocked(e.path, waiting(ctx)); err != nil {
		return nil, err
	}
	switch err := fill(e.path, data); {
	case errors.Is(err, ErrNewer):
		return nil, errors.Join(err, e.file.Unlock())
	case err != nil:
		return nil, errors.Join(err, e.Settle())
	}
	return e, nil
}

// intentFile is the content of an entry.
type intentFile struct {
	Format int `json:"format"`
	Intent
}

// encode returns in as it is written to disk.
func (in Intent) encode() ([]byte, error) {
	text, err := json.Marshal(intentFile{format, in})
	return append(text, '\n'), err
}

// fill writes data over the content of an entry: nothing, or an older entry with the same id,
// such as that of a killed process. An entry of a newer format is refused. The same write
// blanks the rest of a longer entry, so that a kill leaves either of them whole. O_TRUNC would
// not, and would make ext4 (auto_da_alloc) write the file out when it is closed, although an
// entry lives for milliseconds and need not survive a power cut.
func fill(path string, data []byte) error {
	f, err := os.OpenFile(path, os.O_RDWR|syscall.O_NOFOLLOW|syscall.O_NONBLOCK, 0)
	if err != nil {
		return err
	}
	old, err := f.Stat()
	if err == nil && old.Size() > 0 {
		err = refuseNewer(f)
	}
	if err == nil {
		_, err = f.WriteAt(append(data, bytes.Repeat([]byte{'\n'}, max(0, int(old.Size())-len(data)))...), 0)
	}
	return errors.Join(err, f.Close())
}

// refuseNewer returns [ErrNewer] if a newer program wrote f.
func refuseNewer(f *os.File) error {
	data, err := io.ReadAll(io.LimitReader(f, maxFile))
	if err != nil {
		return err
	}
	if err := checkFormat(data); errors.Is(err, ErrNewer) {
		return err
	}
	return nil
}

// Kind returns what the process is about to do.
func (e *Entry) Kind() Kind { return e.intent.Kind }

// Request returns the id of the request that the entry is about.
func (e *Entry) Request() string { return e.intent.Request }

// Stands reports whether nobody has called [Journal.Remove] for the entry. An entry that was removed
// in another way, such as with its directory, stands.
func (e *Entry) Stands() bool {
	info, err := e.file.Stat()
	return err != nil || info.Size() > 0
}

// Remove removes the entry with this id, whichever process has made it: what it is about is done.
// The file is emptied first, so that a live process learns of it by [Entry.Stands]; an empty entry,
// which a kill may leave, counts for nothing. An entry that is gone is no error.
func (j Journal) Remove(id string) error {
	if err := leaseapi.CheckRequestID(id); err != nil {
		return err
	}
	path := filepath.Join(string(j), id+intentSuffix)
	f, err := os.OpenFile(path, os.O_WRONLY|os.O_TRUNC|syscall.O_NOFOLLOW|syscall.O_NONBLOCK, 0)
	if err == nil {
		err = errors.Join(f.Close(), os.Remove(path))
	}
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		return fmt.Errorf("settle a journal entry: %w", err)
	}
	return nil
}

// Settle removes the entry and unlocks it: nothing is left to do.
func (e *Entry) Settle() error {
	if err := os.Remove(e.path); err != nil && !errors.Is(err, fs.ErrNotExist) {
		return errors.Join(fmt.Errorf("settle a journal entry: %w", err), e.file.Unlock())
	}
	return e.file.Unlock()
}

// Leave passes the entry to the next process that calls [Journal.SettleDead], and marks it as
// left by a process that was not killed. A kill during Leave leaves the entry with or without
// the mark.
func (e *Entry) Leave() error {
	e.intent.Left, e.intent.Dead = true, now()
	err := e.intent.write(e.path)
	if err != nil {
		err = fmt.Errorf("leave a journal entry: %w", err)
	}
	return errors.Join(err, e.file.Unlock())
}

// now is the time as entries have it.
func now() time.Time { return time.Now().UTC().Round(time.Millisecond) }

// write writes in into its entry, whose lock the caller holds.
func (in Intent) write(path string) error {
	data, err := in.encode()
	if err != nil {
		return err
	}
	return fill(path, data)
}

// SettleDead calls fn with each intent whose process is dead, oldest first, and removes the
// entries that fn settles. No other process gets the same intent until fn returns. SettleDead
// stops when ctx ends, which is no error, and never waits for a lock. An entry that cannot be
// read, that a newer program wrote ([ErrNewer]), or that no leasectl wrote, stays and is in the
// error. One that fn does not settle notes that its process is dead.
func (j Journal) SettleDead(ctx context.Context, fn func(Intent) (settled bool)) error {
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
			if in.Dead.IsZero() { // for the next one
				in.Dead = now()
				return errors.Join(in.write(e.path), os.Chtimes(e.path, time.Time{}, e.at)) // it stays as old as it was
			}
			return nil
		})
		if err != nil && !errors.Is(err, ErrLocked) && !errors.Is(err, fs.ErrNotExist) {
			errs = append(errs, fmt.Errorf("read journal: %w", err))
		}
	}
	return errors.Join(errs...)
}

// Contains reports whether fn is true for one of the intents, of live and of dead processes. It
// takes no locks, and skips entries that cannot be read.
func (j Journal) Contains(fn func(Intent) bool) bool {
	entries, _ := byAge(string(j), intentSuffix)
	for _, e := range entries {
		if in, whole, err := readIntent(e.path); err == nil && whole && fn(in) {
			return true
		}
	}
	return false
}

// runsExec tells whether an exec that lives made a request.
func (j Journal) runsExec(request string) bool {
	path := filepath.Join(string(j), request+intentSuffix)
	if leaseapi.CheckRequestID(request) != nil {
		return false
	}
	in, whole, err := readIntent(path)
	if err != nil || !whole || in.Kind != KindExec {
		return false
	}
	return errors.Is(TryLock(path, func() error { return nil }), ErrLocked)
}

// readIntent reads an entry. The entry is not whole if its process died in Begin, or is still
// there: then it is empty, or the beginning of one. A caller that holds the lock of the entry knows that
// the process is dead.
func readIntent(path string) (in Intent, whole bool, err error) {
	data, err := readOwn(path)
	if err != nil {
		return Intent{}, false, err
	}
	if begun := bytes.TrimRight(data, "\n"); bytes.HasPrefix([]byte(intentStart), begun) ||
		bytes.HasPrefix(begun, []byte(intentStart)) && !json.Valid(begun) {
		return Intent{}, false, nil
	}
	var doc intentFile
	err = unmarshal(data, &doc)
	if err == nil {
		err = doc.check()
	}
	switch {
	case errors.Is(err, ErrNewer):
		return Intent{}, false, fmt.Errorf("%s: %w", path, err)
	case err != nil:
		return Intent{}, false, fmt.Errorf("%s is no entry of the journal (%w): look at it, and remove it if it is of no use", path, err)
	case doc.ID+intentSuffix != filepath.Base(path):
		return Intent{}, false, fmt.Errorf("%s is the entry %s under another name: remove it", path, doc.ID)
	}
	return doc.Intent, true, nil
}

// intentStart is how each entry begins.
const intentStart = `{"format":`
