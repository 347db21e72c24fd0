package bolt

import (
	"cmp"
	"crypto/rand"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"runtime/debug"
	"slices"
	"sync"
	"syscall"
	"time"

	bolt "go.etcd.io/bbolt"
	bolterrors "go.etcd.io/bbolt/errors"

	"github.com/leasectl/leasectl/internal/own"
	"github.com/leasectl/leasectl/internal/pool"
	"github.com/leasectl/leasectl/internal/proxyserver/store"
)

// File is the name of the file in a store's directory.
const File = "leases.db"

// Store is a [store.Store] in a directory. [Open] makes one.
type Store struct {
	db    *bolt.DB
	file  *os.File // the database's
	place place    // of file, at the last look; bbolt never shortens it
	path  string
	id    string
	meta  metaRecord // as the last commit left it; after a failed commit, unknown

	copying sync.Mutex // held while a backup is written beside the store
}

var _ store.Store = (*Store)(nil)

// Open opens the store in dir. It makes the directory, with mode 0700, and the file if they
// do not exist. A path that another user can change is refused, as package own says. Every error is [store.ErrOpen]. If another server uses the store for more
// than a second, the error is [store.ErrInUse] too; if the file is damaged,
// [store.ErrDamaged]. The caller must close the store.
func Open(dir string) (*Store, error) {
	s := &Store{path: filepath.Join(dir, File)}
	if err := s.open(dir); err != nil {
		return nil, s.explain(store.ErrOpen, err)
	}
	return s, nil
}

func (s *Store) open(dir string) (err error) {
	if err := create(dir, s.path, syncDir); err != nil {
		return err
	}
	// To write, bbolt first searches the file for free pages, and a damaged page then ends
	// the process. So the file is verified before.
	if err := verify(s.path); err != nil {
		return err
	}
	if s.db, s.file, err = open(s.path, false); err != nil {
		return err
	}
	info, err := s.file.Stat()
	if err == nil {
		s.place = placeOf(info)
		err = s.begin()
	}
	if err != nil {
		return errors.Join(err, s.db.Close())
	}
	return nil
}

// create makes the directory, and in it a file without leases, if there is no file yet.
// The file gets its name only when it is complete. So an empty file is one that lost its
// content, and is never taken for a new store. sync is called for each directory that has a new entry,
// or may have one that an earlier start made and, since it was killed, did not sync: until then a power
// cut may remove the entry, with all that was committed below it.
func create(dir, path string, sync func(dir string) error) error {
	if err := own.File(path); err != nil {
		return err
	}
	if err := makeDir(dir, sync); err != nil {
		return err
	}
	if info, err := os.Lstat(path); !errors.Is(err, fs.ErrNotExist) {
		if err == nil && info.Mode()&fs.ModeSymlink != 0 {
			return errors.New("it is a link, which is not followed: name the directory that it leads to")
		}
		return cmp.Or(err, syncAgain(dir, sync))
	}
	f, err := os.CreateTemp(dir, filepath.Base(path)+".*.new") // mode 0600
	if err != nil {
		return err
	}
	defer os.Remove(f.Name())
	if err := f.Close(); err != nil {
		return err
	}
	db, _, err := open(f.Name(), false)
	if err != nil {
		return err
	}
	if err := errors.Join(db.Update(initialize), db.Close()); err != nil {
		return err
	}
	// Unlike a rename, a link does not replace the file of a server that was
	// faster.
	if err := os.Link(f.Name(), path); err != nil && !errors.Is(err, fs.ErrExist) {
		return err
	}
	return sync(dir)
}

// makeDir makes dir, and the directories above it that do not exist, like [os.MkdirAll]. It
// calls sync for the parent of each, and for the parent of the first that exists.
func makeDir(dir string, sync func(dir string) error) error {
	parent := filepath.Dir(dir)
	made := os.Mkdir(dir, 0o700)
	if (made == nil || errors.Is(made, fs.ErrNotExist)) && parent != dir {
		if err := makeDir(parent, sync); err != nil {
			return err
		}
		if made != nil {
			made = os.Mkdir(dir, 0o700)
		}
	}
	if made == nil {
		return sync(parent)
	}
	if err := os.MkdirAll(dir, 0o700); err != nil { // unless the directory is there
		return err
	}
	return syncAgain(parent, sync)
}

// syncAgain syncs a directory in which this start has made nothing. The directory may be another's,
// which this server may not read, or on a file system that does not sync directories.
func syncAgain(dir string, sync func(dir string) error) error {
	err := sync(dir)
	if errors.Is(err, fs.ErrPermission) || errors.Is(err, syscall.EINVAL) {
		return nil
	}
	return err
}

// initialize writes a state without leases.
func initialize(tx *bolt.Tx) error {
	b, err := tx.CreateBucket(bucket)
	if err != nil {
		return err
	}
	t := table{bucket: b, meta: metaRecord{Format: format, ID: rand.Text()}}
	return t.finish(tx)
}

func syncDir(dir string) error {
	d, err := os.Open(dir)
	if err != nil {
		return err
	}
	return errors.Join(d.Sync(), d.Close())
}

// begin reads the file.
func (s *Store) begin() error {
	// Another server may have written to the file since verify read it.
	content, err := load(s.file)
	if err != nil {
		return err
	}
	s.meta, s.id = content.meta, content.meta.ID
	return s.look()
}

// The operations that errors name, besides opening.
var (
	errCommit = errors.New("commit to store")
	errCheck  = errors.New("check store")
)

// explain says which operation failed, and what to do about it.
func (s *Store) explain(operation, err error) error {
	switch {
	case errors.Is(err, bolterrors.ErrTimeout):
		err = fmt.Errorf("%w: stop that server, or name another directory with --data", store.ErrInUse)
	case errors.Is(err, store.ErrDamaged):
		err = fmt.Errorf("%w: it stays as it is: put a backup in its place, or move it away to start without leases", err)
	case errors.Is(err, errUnread):
		err = fmt.Errorf("%w: see to the disk, or put a backup on another one", err)
	}
	return fmt.Errorf("%w %s: %w", operation, s.path, err)
}

// Load implements [store.Store].
func (s *Store) Load() (pool.Snapshot, error) {
	content, err := load(s.file)
	if err == nil {
		err = s.look()
	}
	if err != nil {
		return pool.Snapshot{}, s.explain(store.ErrOpen, err)
	}
	s.meta = content.meta
	return content.snapshot, nil
}

// ID implements [store.Store]. The name is known from Open on. ID may be called at any time.
func (s *Store) ID() string { return s.id }

// mostChanges is about how many changes one transaction has. bbolt keeps all pages that a transaction
// changes in memory: those of 100,000 leases, as after a restart, would take more than the leases themselves.
const mostChanges = 5000

// Commit implements [store.Store]. Each commit is one transaction, unless it has more than [mostChanges]. It fails
// with [store.ErrGone] if the file is not under its path before or after the transaction.
func (s *Store) Commit(b store.Batch) error {
	err := s.look() // first, since bbolt may touch mapped memory beyond the end of a cut file
	meta := s.meta
	all := b.Changes
	for from, begun := 0, false; err == nil && (from < len(all) || !begun); begun = true { // without changes there is one, too
		to := endOfPart(all, b.Steps, from)
		b.Changes, from = all[from:to], to
		err = s.update(func(tx *bolt.Tx) (err error) {
			meta, err = write(tx, meta, b)
			return err
		})
	}
	if err == nil {
		err = s.look()
	}
	if err != nil {
		return s.explain(errCommit, err)
	}
	s.meta = meta
	return nil
}

// endOfPart returns where the changes end that go into one transaction, from the one at from on, as
// [store.Batch] says.
func endOfPart(changes []pool.Change, steps []int, from int) (to int) {
	if to = from + mostChanges; to >= len(changes) {
		return len(changes)
	}
	n, found := slices.BinarySearch(steps, to)
	if found {
		return to
	}
	if n > 0 && steps[n-1] > from {
		return steps[n-1]
	}
	for to < len(changes) && changes[to].Kind.Continues() {
		to++
	}
	return to
}

// update runs a transaction. If the file is cut short meanwhile, bbolt's read of mapped
// memory faults. update turns the fault into a panic, and a panic into an error.
func (s *Store) update(f func(tx *bolt.Tx) error) (err error) {
	defer debug.SetPanicOnFault(debug.SetPanicOnFault(true))
	defer func() {
		if cause := recover(); cause != nil {
			err = fmt.Errorf("%w: %v", store.ErrDamaged, cause)
		}
	}()
	return s.db.Update(f)
}

// Check implements [store.Store].
func (s *Store) Check() error {
	if err := s.look(); err != nil {
		return s.explain(errCheck, err)
	}
	return nil
}

// look compares the file under the store's path with the open one.
func (s *Store) look() error {
	there, err := lookAt(s.path)
	if errors.Is(err, fs.ErrNotExist) {
		return fmt.Errorf("%w: it, or its directory, was removed or moved", store.ErrGone)
	}
	if err != nil {
		return err
	}
	if !there.sameFile(s.place) {
		return fmt.Errorf("%w: another file is in its place", store.ErrGone)
	}
	if there.size < s.place.size {
		return fmt.Errorf("%w: it was cut from %d to %d bytes", store.ErrDamaged, s.place.size, there.size)
	}
	s.place.size = there.size
	return nil
}

// Close implements [store.Store].
func (s *Store) Close() error {
	if err := s.db.Close(); err != nil {
		return fmt.Errorf("close store: %w", err)
	}
	return nil
}

// lockTime is how long open waits for another server that uses the file.
const lockTime = time.Second

// open opens the file at path. file is bbolt's own, which closes with the database.
func open(path string, readOnly bool) (db *bolt.DB, file *os.File, err error) {
	db, err = bolt.Open(path, 0o600, &bolt.Options{
		ReadOnly:     readOnly,
		Timeout:      lockTime,
		FreelistType: bolt.FreelistMapType,
		// A stored list of free pages would be most of what a commit writes. Without the
		// list, bbolt searches for free pages when the file is opened.
		NoFreelistSync: true,
		OpenFile: func(name string, flag int, mode os.FileMode) (*os.File, error) {
			// Without O_CREATE: if the file was just removed, bbolt would make an empty
			// one, and that would be a store without leases.
			file, err = os.OpenFile(name, flag&^os.O_CREATE|syscall.O_NOFOLLOW, mode)
			return file, err
		},
	})
	return db, file, err
}

// place identifies the file under a path, and has its length.
type place struct {
	device, inode uint64
	size          int64 // bytes
}

// placeOf returns the place of a file from the result of [os.Stat].
func placeOf(info os.FileInfo) place {
	st := info.Sys().(*syscall.Stat_t)
	return place{device: uint64(st.Dev), inode: st.Ino, size: info.Size()}
}

// sameFile reports whether p and other are places of one file.
func (p place) sameFile(other place) bool { return p.device == other.device && p.inode == other.inode }

// statPlace returns the place of the file under path.
func statPlace(path string) (place, error) {
	info, err := os.Stat(path)
	if err != nil {
		return place{}, err
	}
	return placeOf(info), nil
}
