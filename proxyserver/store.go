package proxyserver

import (
	"encoding/binary"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"runtime/debug"
	"time"

	bolt "go.etcd.io/bbolt"
	bolterrors "go.etcd.io/bbolt/errors"

	"github.com/leasectl/leasectl/pool"
)

const (
	storeFile = "leases.db"
	// lockTime is how long the store of a server that is just ending is
	// waited for.
	lockTime = time.Second
)

// ErrInUse is the error of a data directory that another server uses.
var ErrInUse = errors.New("another server uses it")

// store is the durable state of a server, as a bbolt file. All keys are in one
// bucket, so that a commit writes few pages:
//
//	e UNTIL ID   an ended request; UNTIL is 8 bytes, so they stand in the order
//	             in which they come and go
//	l NAME       a lease that is held: a leaseRecord
//	m            a metaRecord
type store struct {
	db         *bolt.DB
	generation uint64 // the last one given, as far as it is durable
}

var bucket = []byte("leasectl")

const (
	keyEnded = 'e'
	keyLease = 'l'
	keyMeta  = 'm'
)

// format is the number of this layout. A server refuses one that it does not
// know, rather than lose what it says.
const format = 1

type metaRecord struct {
	Format     int           `json:"format"`
	Clock      time.Duration `json:"clock"`
	Generation uint64        `json:"generation"`
}

type leaseRecord struct {
	Type        string        `json:"type"`
	Generation  uint64        `json:"generation"`
	Owner       string        `json:"owner,omitempty"`
	RequestID   string        `json:"request_id,omitempty"`
	Count       int           `json:"count"`
	TTL         time.Duration `json:"ttl"`
	Granted     time.Duration `json:"granted"`
	ReleaseAt   time.Duration `json:"release_at,omitempty"`
	Provisional bool          `json:"provisional,omitempty"`
	Broken      string        `json:"broken,omitempty"`
	Expires     time.Duration `json:"expires,omitempty"` // of a broken lease; a restart gives any other its full TTL again
}

func boltOptions() *bolt.Options {
	return &bolt.Options{
		Timeout:      lockTime,
		FreelistType: bolt.FreelistMapType,
		// The list of free pages is found again at the next start; written
		// with each commit it would be what most of them write.
		NoFreelistSync: true,
	}
}

// openStore opens the store in dir, and makes it if there is none. A file that
// is damaged, or is not ours, is an error and stays as it is.
func openStore(dir string) (*store, pool.Snapshot, error) {
	path := filepath.Join(dir, storeFile)
	s, snap, err := openFile(dir, path)
	switch {
	case errors.Is(err, bolterrors.ErrTimeout):
		err = ErrInUse
	case errors.Is(err, bolterrors.ErrInvalid), errors.Is(err, bolterrors.ErrChecksum), errors.Is(err, bolterrors.ErrVersionMismatch):
		err = fmt.Errorf("it is damaged, or no file of ours (%w): move it away to start without leases", err)
	}
	if err != nil {
		return nil, pool.Snapshot{}, fmt.Errorf("open store %s: %w", path, err)
	}
	return s, snap, nil
}

func openFile(dir, path string) (*store, pool.Snapshot, error) {
	if err := create(dir, path); err != nil {
		return nil, pool.Snapshot{}, err
	}
	if err := check(path); err != nil {
		return nil, pool.Snapshot{}, err
	}
	db, err := bolt.Open(path, 0o600, boltOptions())
	if err != nil {
		return nil, pool.Snapshot{}, err
	}
	snap, err := load(db) // again: between the two another server may have run
	if err != nil {
		return nil, pool.Snapshot{}, errors.Join(err, db.Close())
	}
	return &store{db, snap.Generation}, snap, nil
}

// check reports a file that cannot be read from its beginning to its end. bbolt
// itself takes much on trust, and its search for free pages, with which a
// writer begins, ends the process if it finds anything else.
func check(path string) (err error) {
	info, err := os.Stat(path)
	if err != nil {
		return err
	}
	if info.Size() == 0 {
		return fmt.Errorf("it is empty (%w)", bolterrors.ErrInvalid)
	}
	opts := boltOptions()
	opts.ReadOnly = true
	db, err := bolt.Open(path, 0o600, opts)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, db.Close()) }()
	err = db.View(func(tx *bolt.Tx) error {
		if tx.Size() > info.Size() {
			return fmt.Errorf("%d of %d bytes are there (%w)", info.Size(), tx.Size(), bolterrors.ErrInvalid)
		}
		return nil
	})
	if err != nil {
		return err
	}
	_, err = load(db)
	return err
}

// create makes the directory and a store without leases, if there is none. The
// file gets its name when it is complete: one that is empty has lost what was
// in it, and is not taken for a new one.
func create(dir, path string) error {
	if err := os.MkdirAll(dir, 0o700); err != nil {
		return err
	}
	if _, err := os.Lstat(path); !errors.Is(err, fs.ErrNotExist) {
		return err
	}
	f, err := os.CreateTemp(dir, storeFile+".*.new") // mode 0600
	if err != nil {
		return err
	}
	defer os.Remove(f.Name())
	if err := f.Close(); err != nil {
		return err
	}
	db, err := bolt.Open(f.Name(), 0o600, boltOptions())
	if err != nil {
		return err
	}
	err = db.Update(func(tx *bolt.Tx) error {
		b, err := tx.CreateBucket(bucket)
		if err != nil {
			return err
		}
		return put(b, []byte{keyMeta}, metaRecord{Format: format})
	})
	if err := errors.Join(err, db.Close()); err != nil {
		return err
	}
	// Unlike a rename, a link does not replace the file of a server that was
	// faster.
	if err := os.Link(f.Name(), path); err != nil && !errors.Is(err, fs.ErrExist) {
		return err
	}
	return syncDir(dir)
}

func syncDir(dir string) error {
	d, err := os.Open(dir)
	if err != nil {
		return err
	}
	return errors.Join(d.Sync(), d.Close())
}

// load reads all that is in the store.
func load(db *bolt.DB) (snap pool.Snapshot, err error) {
	// A page that says what cannot be is found by a panic, or by a fault that
	// this makes one.
	defer debug.SetPanicOnFault(debug.SetPanicOnFault(true))
	defer func() {
		if cause := recover(); cause != nil {
			err = fmt.Errorf("%v (%w)", cause, bolterrors.ErrInvalid)
		}
	}()
	err = db.View(func(tx *bolt.Tx) error {
		snap, err = read(tx)
		return err
	})
	return snap, err
}

func read(tx *bolt.Tx) (snap pool.Snapshot, err error) {
	b := tx.Bucket(bucket)
	if b == nil {
		return snap, fmt.Errorf("it is another program's (%w)", bolterrors.ErrInvalid)
	}
	var meta metaRecord
	if err := json.Unmarshal(b.Get([]byte{keyMeta}), &meta); err != nil {
		return snap, fmt.Errorf("its format is not known (%w)", bolterrors.ErrInvalid)
	}
	if meta.Format != format {
		return snap, fmt.Errorf("it has format %d, and this program knows format %d: use the program that made it", meta.Format, format)
	}
	snap.Clock, snap.Generation = meta.Clock, meta.Generation
	err = b.ForEach(func(k, v []byte) error {
		switch key := k[1:]; {
		case k[0] == keyLease:
			var r leaseRecord
			if err := json.Unmarshal(v, &r); err != nil {
				return fmt.Errorf("lease %q: %w", key, err)
			}
			snap.Leases = append(snap.Leases, r.lease(string(key)))
		case k[0] == keyEnded && len(key) > 8:
			snap.Ended = append(snap.Ended, pool.Ended{
				ID:    string(key[8:]),
				Until: time.Duration(binary.BigEndian.Uint64(key)),
			})
		case k[0] != keyMeta:
			return fmt.Errorf("key %q is not known", k)
		}
		return nil
	})
	return snap, err
}

func (r leaseRecord) lease(name string) pool.Lease {
	return pool.Lease{
		Name: name, Type: r.Type, Generation: r.Generation, Owner: r.Owner,
		RequestID: r.RequestID, Count: r.Count,
		TTL: r.TTL, Granted: r.Granted, ReleaseAt: r.ReleaseAt, Provisional: r.Provisional,
		Broken: r.Broken, Expires: r.Expires,
	}
}

// close closes the file; without one it does nothing.
func (s *store) close() error {
	if s.db == nil {
		return nil
	}
	if err := s.db.Close(); err != nil {
		return fmt.Errorf("close store: %w", err)
	}
	return nil
}
