package bolt

import (
	"crypto/rand"
	"errors"
	"io/fs"
	"os"
	"path/filepath"

	bolt "go.etcd.io/bbolt"
)

// create makes the directory, and in it a file without leases, if there is no file yet.
// The file gets its name only when it is complete. So an empty file is one that lost its
// content, and is never taken for a new store.
func create(dir, path string) error {
	if err := makeDir(dir, syncDir); err != nil {
		return err
	}
	if _, err := os.Lstat(path); !errors.Is(err, fs.ErrNotExist) {
		return err
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
	return syncDir(dir)
}

// makeDir makes dir, and the directories above it that do not exist, like [os.MkdirAll]. It
// calls sync for the parent of each: until the parent is synced, a power cut may remove the new
// directory with all that was committed in it.
func makeDir(dir string, sync func(dir string) error) error {
	parent := filepath.Dir(dir)
	err := os.Mkdir(dir, 0o700)
	if errors.Is(err, fs.ErrNotExist) && parent != dir {
		if err := makeDir(parent, sync); err != nil {
			return err
		}
		err = os.Mkdir(dir, 0o700)
	}
	if err != nil {
		return os.MkdirAll(dir, 0o700) // an error, unless the directory is there
	}
	return sync(parent)
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
