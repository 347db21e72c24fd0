package lockfile

import (
	"errors"
	"path/filepath"
	"syscall"
	"testing"
)

// A missing handle holds nothing, even where no lock file can be made: on a full or a read-only
// disk.
func TestUpdateWithoutRoom(t *testing.T) {
	for name, tt := range map[string]struct {
		flags   uintptr
		options string
		err     error
	}{
		"full":      {0, "nr_inodes=1", syscall.ENOSPC},
		"read-only": {syscall.MS_RDONLY, "", syscall.EROFS},
	} {
		t.Run(name, func(t *testing.T) {
			dir := t.TempDir()
			if err := syscall.Mount("none", dir, "tmpfs", tt.flags, tt.options); err != nil {
				t.Skipf("no mounts here: %v", err)
			}
			defer syscall.Unmount(dir, syscall.MNT_DETACH)
			h, err := OpenHandle(filepath.Join(dir, "h"))
			if err != nil {
				t.Fatal(err)
			}
			seen := false
			err = h.Update(t.Context(), func(tx *Tx) error {
				seen = tx.State == ""
				return nil
			})
			if err != nil || !seen {
				t.Errorf("%v, called %t", err, seen)
			}
			err = h.Update(t.Context(), func(tx *Tx) error {
				tx.Record = Record{State: HandleQueued, RequestID: "r"}
				return nil
			})
			if !errors.Is(err, tt.err) {
				t.Errorf("%v, want %v", err, tt.err)
			}
		})
	}
}
