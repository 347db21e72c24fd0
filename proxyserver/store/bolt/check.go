package bolt

import (
	"errors"
	"fmt"
	"os"
	"runtime/debug"
	"time"

	bolt "go.etcd.io/bbolt"
	bolterrors "go.etcd.io/bbolt/errors"

	"github.com/leasectl/leasectl/pool"
)

// lockTime is how long an open waits for the server that uses the file to end.
const lockTime = time.Second

func options() *bolt.Options {
	return &bolt.Options{
		Timeout:      lockTime,
		FreelistType: bolt.FreelistMapType,
		// The list of free pages would be most of what a commit writes. Without
		// it bbolt searches for them when the file is opened.
		NoFreelistSync: true,
	}
}

// check reports a file that cannot be read from its beginning to its end. It
// comes before a writer opens the file, which begins with the search for free
// pages: on a damaged page bbolt ends the process there.
func check(path string) (err error) {
	info, err := os.Stat(path)
	if err != nil {
		return err
	}
	if info.Size() == 0 {
		return fmt.Errorf("it is empty (%w)", bolterrors.ErrInvalid)
	}
	opts := options()
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

// load reads all that is in the store. A damaged page makes bbolt panic, or read
// memory that is not there, which is made a panic too: load returns both as an
// error.
func load(db *bolt.DB) (snap pool.Snapshot, err error) {
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
