package bolt

import (
	"os"
	"time"

	bolt "go.etcd.io/bbolt"
)

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
			file, err = os.OpenFile(name, flag&^os.O_CREATE, mode)
			return file, err
		},
	})
	return db, file, err
}
