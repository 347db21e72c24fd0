package bolt

import (
	"os"
	"time"

	bolt "go.etcd.io/bbolt"
)

// lockTime is how long an open waits for the server that uses the file to end.
const lockTime = time.Second

// open opens the file at path, and returns bbolt's descriptor of it too, which
// closes with the database.
func open(path string, readOnly bool) (db *bolt.DB, file *os.File, err error) {
	db, err = bolt.Open(path, 0o600, &bolt.Options{
		ReadOnly:     readOnly,
		Timeout:      lockTime,
		FreelistType: bolt.FreelistMapType,
		// The list of free pages would be most of what a commit writes. Without
		// it bbolt searches for them when the file is opened.
		NoFreelistSync: true,
		OpenFile: func(name string, flag int, mode os.FileMode) (*os.File, error) {
			// Without O_CREATE: an empty file in the place of one that has just
			// been removed would be a store without leases.
			file, err = os.OpenFile(name, flag&^os.O_CREATE, mode)
			return file, err
		},
	})
	return db, file, err
}
