package lockfile

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"testing"
)

// Files and locks are refused, with the path and the reason, wherever they are opened.
func TestFilesRefused(t *testing.T) {
	for _, tt := range refusedFiles {
		for _, suffix := range []string{"", lockSuffix, jsonSuffix} {
			t.Run(tt.name+suffix, func(t *testing.T) {
				h := handleIn(t)
				tt.make(t, h.path+suffix)
				before := ls(t, filepath.Dir(h.path))
				err := h.Update(t.Context(), func(tx *Tx) error { tx.Record = Record{State: HandleQueued, RequestID: "r"}; return nil })
				wantError(t, err, h.path+suffix)
				wantError(t, err, tt.says)
				after := strings.Fields(ls(t, filepath.Dir(h.path)))
				for _, name := range after {
					if !strings.Contains(before, name) && name != "handle.lock" {
						t.Errorf("it left %s", name)
					}
				}
				if suffix == lockSuffix {
					return // which a Read does not look at
				}
				_, err = h.Read()
				wantError(t, err, h.path+suffix)
				wantError(t, err, tt.says)
				if errors.Is(err, fs.ErrNotExist) {
					t.Error("a refusal passes for no handle")
				}
			})
		}
		t.Run(tt.name+" list", func(t *testing.T) {
			l := List(filepath.Join(t.TempDir(), "leases"))
			tt.make(t, string(l))
			wantError(t, l.Append(t.Context(), named("b")), tt.says)
			wantError(t, l.Remove(t.Context(), named("a")), tt.says)
			wantError(t, l.CanAppend(t.Context()), tt.says)
			_, _, err := l.Read()
			wantError(t, err, tt.says)
		})
	}
}

// A directory may be ours or root's, whoever else can write to it.
func TestDirectories(t *testing.T) {
	use := func(dir string) error {
		h, err := OpenHandle(filepath.Join(dir, "handle"))
		if err != nil {
			return err
		}
		return h.Update(t.Context(), func(tx *Tx) error { tx.Record = Record{State: HandleQueued, RequestID: "r"}; return nil })
	}
	for _, mode := range []fs.FileMode{0o700, 0o755, 0o777, 0o777 | fs.ModeSticky, 0o777 | fs.ModeSetgid} {
		dir := t.TempDir()
		ok(t, os.Chmod(dir, mode))
		if err := use(dir); err != nil {
			t.Errorf("mode %v: %v", mode, err)
		}
	}
	t.Run("behind a symlink", func(t *testing.T) {
		link := filepath.Join(t.TempDir(), "link")
		ok(t, os.Symlink(t.TempDir(), link))
		ok(t, use(link))
	})
	t.Run("stranger's", func(t *testing.T) {
		needRoot(t)
		dir := t.TempDir()
		ok(t, os.Chown(dir, stranger, stranger))
		err := use(dir)
		wantError(t, err, "directory "+dir+" belongs to user 65534, and this is user 0")
		wantError(t, List(filepath.Join(dir, "leases")).CanAppend(t.Context()), "belongs to user 65534")
		_, err = Handle{path: filepath.Join(dir, "handle")}.Read()
		wantError(t, err, "belongs to user 65534")
		if left := ls(t, dir); left != "" {
			t.Errorf("it left %s in a directory of another", left)
		}
	})
}

// childStranger uses a directory of root as another user.
func childStranger(args []string) error {
	dir := args[0]
	for _, name := range []string{"private", "public"} {
		_, err := Handle{path: filepath.Join(dir, name)}.Read()
		fmt.Println(err)
	}
	err := TryLock(filepath.Join(dir, "locked"), func() error { return nil })
	fmt.Println(err)
	h, err := OpenHandle(filepath.Join(dir, "mine"))
	if err == nil {
		err = h.Update(context.Background(), func(tx *Tx) error {
			tx.Record = Record{State: HandleHeld, Leases: []Lease{{Name: "a"}}}
			return nil
		})
	}
	fmt.Println(err)
	return nil
}

func TestStranger(t *testing.T) {
	needRoot(t)
	if _, err := os.Stat("/proc/self/exe"); err != nil {
		t.Skip("another user cannot run the test binary without /proc")
	}
	dir, err := os.MkdirTemp("", "lockfile") // not t.TempDir, which is closed to others
	ok(t, err)
	t.Cleanup(func() { os.RemoveAll(dir) })
	ok(t, os.Chmod(dir, 0o777|fs.ModeSticky))
	write(t, filepath.Join(dir, "private"), "a\n")
	write(t, filepath.Join(dir, "public"), "a\n")
	ok(t, os.Chmod(filepath.Join(dir, "public"), 0o644))
	write(t, filepath.Join(dir, "locked"), "")

	c := startChild(t, stranger, "stranger", dir)
	for _, name := range []string{"private", "public", "locked"} {
		want := filepath.Join(dir, name) + " belongs to user 0, and this is user 65534"
		if got := c.line(); !strings.Contains(got, want) {
			t.Errorf("%s: %q, want %q in it", name, got, want)
		}
	}
	if got := c.line(); got != "<nil>" {
		t.Errorf("a handle of one's own in a sticky directory of root: %s", got)
	}
	c.end(t)
}

func TestReadOwnBounded(t *testing.T) {
	path := filepath.Join(t.TempDir(), "big")
	write(t, path, strings.Repeat("x", maxFile+1))
	_, err := readOwn(path)
	wantError(t, err, "larger than")
	ok(t, os.Truncate(path, maxFile))
	data, err := readOwn(path)
	if err != nil || len(data) != maxFile {
		t.Errorf("%d bytes, %v", len(data), err)
	}
}
