package bolt

import (
	"errors"
	"fmt"
	"path/filepath"

	bolt "go.etcd.io/bbolt"
	bolterrors "go.etcd.io/bbolt/errors"

	"github.com/leasectl/leasectl/pool"
	"github.com/leasectl/leasectl/proxyserver/store"
)

// File is the name of the file in the directory of a store.
const File = "leases.db"

// Store is a [store.Store] in a directory. [Open] makes one.
type Store struct {
	db   *bolt.DB
	path string
}

var _ store.Store = (*Store)(nil)

// Open opens the store in dir. It makes the directory, with mode 0700, and the
// file if they are not there. It waits up to a second for another server to end,
// and then fails with [store.ErrInUse]. The caller must close the store.
func Open(dir string) (*Store, error) {
	path := filepath.Join(dir, File)
	db, err := open(dir, path)
	if err != nil {
		return nil, explain("open", path, err)
	}
	return &Store{db, path}, nil
}

func open(dir, path string) (*bolt.DB, error) {
	if err := create(dir, path); err != nil {
		return nil, err
	}
	if err := check(path); err != nil {
		return nil, err
	}
	return bolt.Open(path, 0o600, options())
}

// explain says what to do about an error of bbolt.
func explain(operation, path string, err error) error {
	switch {
	case errors.Is(err, bolterrors.ErrTimeout):
		err = store.ErrInUse
	case errors.Is(err, bolterrors.ErrInvalid), errors.Is(err, bolterrors.ErrChecksum), errors.Is(err, bolterrors.ErrVersionMismatch):
		err = fmt.Errorf("it is damaged, or no file of ours (%w): move it away to start without leases", err)
	}
	return fmt.Errorf("%s store %s: %w", operation, path, err)
}

// Load implements [store.Store]. The file was checked when it was opened, but
// another server may have written to it between the two.
func (s *Store) Load() (pool.Snapshot, error) {
	snap, err := load(s.db)
	if err != nil {
		return pool.Snapshot{}, explain("load", s.path, err)
	}
	return snap, nil
}

// Commit implements [store.Store].
func (s *Store) Commit(b store.Batch) error {
	err := s.db.Update(func(tx *bolt.Tx) error { return write(tx, b) })
	if err != nil {
		return fmt.Errorf("commit to %s: %w", s.path, err)
	}
	return nil
}

// Close implements [store.Store].
func (s *Store) Close() error {
	if err := s.db.Close(); err != nil {
		return fmt.Errorf("close store: %w", err)
	}
	return nil
}
