package lockfile

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
	"testing"
)

func TestMakeDir(t *testing.T) {
	type test struct {
		name string
		make func(t *testing.T, path string) // nil: it is missing
		says string                          // "": accepted
	}
	dir := func(mode fs.FileMode) func(*testing.T, string) {
		return func(t *testing.T, path string) {
			ok(t, os.Mkdir(path, 0o700))
			ok(t, os.Chmod(path, mode))
		}
	}
	for _, tt := range []test{
		{"missing", nil, ""},
		{"ours", dir(0o700), ""},
		{"others may look", dir(0o755), ""},
		{"group may write", dir(0o770), "chmod 700"},
		{"others may write", dir(0o702), "chmod 700"},
		{"sticky", dir(0o777 | fs.ModeSticky), "chmod 700"},
		{"owner may not", dir(0o500), "cannot be used by its owner"},
		{"file", func(t *testing.T, path string) { write(t, path, "") }, "not a directory"},
		{"symlink", func(t *testing.T, path string) { ok(t, os.Symlink(t.TempDir(), path)) }, "is a symlink"},
		{"dangling symlink", func(t *testing.T, path string) { ok(t, os.Symlink("nowhere", path)) }, "is a symlink"},
		{"stranger's", func(t *testing.T, path string) {
			needRoot(t)
			ok(t, os.Mkdir(path, 0o700))
			ok(t, os.Chown(path, stranger, stranger))
		}, "belongs to user 65534, and this is user 0"},
	} {
		for _, slash := range []string{"", "/"} {
			t.Run(tt.name+slash, func(t *testing.T) {
				path := filepath.Join(t.TempDir(), "state")
				if tt.make != nil {
					tt.make(t, path)
				}
				before, _ := os.Lstat(path)
				err := MakeDir(path + slash)
				after, lerr := os.Lstat(path)
				ok(t, lerr)
				if before != nil && before.Mode() != after.Mode() {
					t.Errorf("mode changed from %v to %v", before.Mode(), after.Mode())
				}
				if tt.says == "" {
					ok(t, err)
					if before == nil && after.Mode() != fs.ModeDir|0o700 {
						t.Errorf("made with mode %v", after.Mode())
					}
					return
				}
				wantError(t, err, tt.says)
				wantError(t, err, path)
			})
		}
	}

	t.Run("one level only", func(t *testing.T) {
		err := MakeDir(filepath.Join(t.TempDir(), "a", "b"))
		if !errors.Is(err, fs.ErrNotExist) {
			t.Errorf("error %v, want ErrNotExist", err)
		}
	})
	t.Run("umask", func(t *testing.T) {
		old := syscall.Umask(0)
		defer syscall.Umask(old)
		path := filepath.Join(t.TempDir(), "state")
		ok(t, MakeDir(path))
		ok(t, MakeDir(path))
	})
}

// Files and locks are refused, each with the path and the reason, in every
// place where they are opened.
func TestFilesRefused(t *testing.T) {
	for _, tt := range refusedFiles {
		for _, suffix := range []string{"", lockSuffix, jsonSuffix} {
			t.Run(tt.name+suffix, func(t *testing.T) {
				h := handleIn(t)
				tt.make(t, h.path+suffix)
				before := ls(t, filepath.Dir(h.path))
				err := h.Update(t.Context(), func(tx *Tx) error { tx.State = StateQueued; return nil })
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
		return h.Update(t.Context(), func(tx *Tx) error { tx.State = StateQueued; return nil })
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

// childStranger uses a directory of root, as somebody else.
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
			tx.Record = Record{State: StateHeld, Leases: []Lease{{Name: "a"}}}
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

// A file that is there and cannot be looked at is not passed over.
func TestAgedFilesThatCannotBeLookedAt(t *testing.T) {
	dir := t.TempDir()
	for _, name := range []string{"a.json", "gone.json", "bad.json", "other"} {
		if err := os.WriteFile(filepath.Join(dir, name), nil, 0o600); err != nil {
			t.Fatal(err)
		}
	}
	found, err := filesIn(dir)
	if err != nil {
		t.Fatal(err)
	}
	for i, f := range found {
		switch f.Name() {
		case "gone.json":
			found[i] = unseen{f, fs.ErrNotExist}
		case "bad.json":
			found[i] = unseen{f, syscall.EIO}
		}
	}
	var names []string
	for _, f := range aged(dir, found, ".json") {
		names = append(names, filepath.Base(f.path))
	}
	if !slices.Equal(names, []string{"bad.json", "a.json"}) {
		t.Errorf("%q", names)
	}
}

// unseen is an entry of a directory that cannot be looked at.
type unseen struct {
	fs.DirEntry
	err error
}

func (u unseen) Info() (fs.FileInfo, error) { return nil, u.err }
