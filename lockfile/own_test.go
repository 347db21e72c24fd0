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
	"testing"

	"github.com/leasectl/leasectl/internal/own"
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
	t.Run("stranger's, all may write", func(t *testing.T) {
		needRoot(t)
		dir := t.TempDir()
		ok(t, os.Chown(dir, stranger, stranger))
		ok(t, os.Chmod(dir, 0o777))
		const says = "belongs to user 65534, and others can write to it"
		wantError(t, use(dir), dir+" "+says)
		wantError(t, List(filepath.Join(dir, "leases")).CanAppend(t.Context()), says)
		_, err := Handle{path: filepath.Join(dir, "handle")}.Read()
		wantError(t, err, says)
		if left := ls(t, dir); left != "" {
			t.Errorf("it left %s in a directory of another", left)
		}
	})
}

// Root uses the handles and the lists of a user in a directory of that user alone, such as a checkout that is
// mounted into a container, and leaves nothing there that the user cannot use.
func TestRootInDirectoryOfUser(t *testing.T) {
	needRoot(t)
	if _, err := os.Stat("/proc/self/exe"); err != nil {
		t.Skip("another user cannot run the test binary without /proc")
	}
	root, err := os.MkdirTemp("", "lockfile") // not t.TempDir, which is closed to others
	ok(t, err)
	t.Cleanup(func() { os.RemoveAll(root) })
	ok(t, os.Chmod(root, 0o755))
	dir := filepath.Join(root, "checkout")
	ok(t, os.Mkdir(dir, 0o755))
	ok(t, os.Chown(dir, stranger, stranger))
	h, err := OpenHandle(filepath.Join(dir, "handle"))
	ok(t, err)
	list := List(filepath.Join(dir, "leases"))
	held := Record{State: HandleHeld, RequestID: "r", Leases: []Lease{{Name: "a", Generation: 1}}}

	ok(t, h.Update(t.Context(), func(tx *Tx) error { tx.Record = held; return nil }))
	ok(t, list.Append(t.Context(), held.Grants()))
	for _, name := range strings.Fields(ls(t, dir)) {
		fi, err := os.Stat(filepath.Join(dir, name))
		ok(t, err)
		if got := own.OwnerOf(fi); got != (own.Owner{User: stranger, Group: stranger}) {
			t.Errorf("%s belongs to %v", name, got)
		}
	}
	startChild(t, stranger, "checkout", dir).end(t)
	if left := ls(t, dir); left != "leases leases.lock" {
		t.Errorf("left: %s", left)
	}

	// The other way round: a step of the user, and a clean-up by root.
	startChild(t, stranger, "checkout", dir, "hold").end(t)
	again, err := OpenHandle(h.path)
	ok(t, err)
	r, err := again.Read()
	ok(t, err)
	if !slices.Equal(r.Names(), []string{"b"}) {
		t.Errorf("root reads %v", r.Names())
	}
	ok(t, again.Update(t.Context(), func(tx *Tx) error { tx.Record = Record{}; return nil }))
	ok(t, list.Remove(t.Context(), named("b")))
	if left := ls(t, dir); left != "leases leases.lock" {
		t.Errorf("left: %s", left)
	}

	t.Run("a third may write", func(t *testing.T) {
		startChild(t, stranger, "checkout", dir, "hold").end(t)
		ok(t, os.Chmod(dir, 0o777))
		defer os.Chmod(dir, 0o755)
		_, err := OpenHandle(h.path)
		wantError(t, err, h.path+" belongs to user 65534, and this is user 0, who uses files of others only in directories that are theirs alone")
	})
	t.Run("of two users", func(t *testing.T) {
		other := filepath.Join(dir, "other")
		ok(t, os.Mkdir(other, 0o755))
		ok(t, os.Chown(other, stranger-1, stranger-1))
		wantError(t, checkDir(other), "belongs to user 65533, and a directory above it to user 65534")
	})
	// A file of root's that the user links to must not become the user's.
	t.Run("a link to a file of root's", func(t *testing.T) {
		secret := filepath.Join(root, "secret")
		write(t, secret, "")
		ok(t, os.Link(secret, filepath.Join(dir, "linked.lock")))
		TryLock(filepath.Join(dir, "linked.lock"), func() error { return nil })
		fi, err := os.Stat(secret)
		ok(t, err)
		if got := own.OwnerOf(fi); got.User != 0 {
			t.Errorf("it belongs to %v", got)
		}
	})
}

// childCheckout releases what root left in its checkout; with another argument it leaves something itself.
func childCheckout(args []string) error {
	h, err := OpenHandle(filepath.Join(args[0], "handle"))
	if err != nil {
		return err
	}
	list := List(filepath.Join(args[0], "leases"))
	if len(args) > 1 {
		return errors.Join(list.Append(context.Background(), named("b")), h.Update(context.Background(), func(tx *Tx) error {
			tx.Record = Record{State: HandleHeld, Leases: []Lease{{Name: "b"}}}
			return nil
		}))
	}
	r, err := h.Read()
	if err != nil {
		return err
	}
	return errors.Join(list.Remove(context.Background(), r.Grants()),
		h.Update(context.Background(), func(tx *Tx) error { tx.Record = Record{}; return nil }))
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
