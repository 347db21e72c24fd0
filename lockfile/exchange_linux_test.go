package lockfile

import (
	"errors"
	"fmt"
	"io/fs"
	"math/rand/v2"
	"os"
	"path/filepath"
	"testing"
	"time"

	"golang.org/x/sys/unix"
)

// Root that uses the directory of another user does nothing elsewhere, however often that user puts a link
// in the place of the directory.
func TestDirectoryThatChanges(t *testing.T) {
	if os.Geteuid() != 0 {
		t.Skip("only root can give a file to another user")
	}
	const user = 65532
	victim, parent := t.TempDir(), t.TempDir()
	theirs := filepath.Join(parent, "theirs")
	precious := filepath.Join(victim, "lease")
	for _, err := range []error{
		os.Chmod(victim, 0o755), os.Chmod(parent, 0o755), os.Chmod(filepath.Dir(parent), 0o755), os.WriteFile(precious, []byte("precious\n"), 0o600),
		os.MkdirAll(filepath.Join(theirs, "work"), 0o755), os.Symlink(victim, filepath.Join(theirs, "link")),
		os.Chown(theirs, user, user), os.Chown(filepath.Join(theirs, "work"), user, user), os.Lchown(filepath.Join(theirs, "link"), user, user),
	} {
		if err != nil {
			t.Fatal(err)
		}
	}
	use := func() error {
		handle, err := OpenHandle(filepath.Join(theirs, "work", "lease"))
		for _, record := range []Record{{State: HandleHeld, RequestID: "r", Leases: []Lease{{Name: "a", Generation: 1}}}, {}} {
			if err == nil {
				err = handle.Update(t.Context(), func(tx *Tx) error { tx.Record = record; return nil })
			}
		}
		return err
	}
	if err := use(); errors.Is(err, fs.ErrPermission) {
		t.Skipf("the user does not get there: %v", err)
	} else if err != nil {
		t.Fatal(err)
	}
	stop, stopped := make(chan struct{}), make(chan error, 1)
	go func() {
		for {
			select {
			case <-stop:
				stopped <- nil
				return
			default:
			}
			for range 2 { // there, and back
				if err := unix.Renameat2(unix.AT_FDCWD, filepath.Join(theirs, "work"), unix.AT_FDCWD, filepath.Join(theirs, "link"), unix.RENAME_EXCHANGE); err != nil {
					stopped <- fmt.Errorf("exchange: %w", err)
					return
				}
			}
			time.Sleep(time.Duration(rand.IntN(500)) * time.Microsecond)
		}
	}()
	for range 2000 {
		use()
		List(filepath.Join(theirs, "work", "leases")).Append(t.Context(), nil)
	}
	close(stop)
	if err := <-stopped; err != nil {
		t.Skip(err)
	}
	entries, err := os.ReadDir(victim)
	if text, _ := os.ReadFile(precious); err != nil || len(entries) != 1 || string(text) != "precious\n" {
		t.Errorf("elsewhere there are now %v, and %q (%v)", entries, text, err)
	}
}
