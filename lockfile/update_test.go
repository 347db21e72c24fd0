package lockfile

import (
	"context"
	"errors"
	"os"
	"os/signal"
	"path/filepath"
	"reflect"
	"syscall"
	"testing"
	"time"
)

// set returns a function for Update that sets the record to r.
func set(r Record) func(*Tx) error {
	return func(tx *Tx) error { tx.Record = r; return nil }
}

func held(id string, names ...string) Record {
	r := Record{State: HandleHeld, RequestID: id, Owner: "me", TTL: time.Minute}
	for i, name := range names {
		r.Leases = append(r.Leases, Lease{Name: name, Generation: uint64(i + 1)})
	}
	return r
}

// wantRecord fails unless the handle reads as want; the zero Record is none.
func wantRecord(t testing.TB, h Handle, want Record) {
	t.Helper()
	got, err := h.Read()
	if errors.Is(err, os.ErrNotExist) {
		err = nil
	}
	if err != nil || !reflect.DeepEqual(got, want) {
		t.Fatalf("it reads as %+v, %v\nwant %+v", got, err, want)
	}
}

func TestUpdateWrites(t *testing.T) {
	for _, umask := range []int{0, 0o077, 0o377} {
		func() {
			h := handleIn(t)
			old := syscall.Umask(umask)
			defer syscall.Umask(old)
			dir := filepath.Dir(h.path)

			ok(t, h.Update(t.Context(), set(Record{State: HandleQueued, RequestID: "r"})))
			wantRecord(t, h, Record{State: HandleQueued, RequestID: "r"})
			if got := ls(t, dir); got != "handle.json handle.lock" {
				t.Errorf("queued, there is %q", got)
			}

			ok(t, h.Update(t.Context(), set(fullRecord)))
			wantRecord(t, h, fullRecord)
			if got := read(t, h.path); got != "a\nb\n" {
				t.Errorf("the names file holds %q", got)
			}
			for _, path := range []string{h.path, h.jsonPath()} {
				fi, err := os.Lstat(path)
				ok(t, err)
				if fi.Mode() != 0o600 {
					t.Errorf("umask %04o: %s has mode %v", umask, path, fi.Mode())
				}
			}

			if got := ls(t, dir); got != "handle handle.json handle.lock" {
				t.Errorf("held, there is %q", got)
			}
			ok(t, h.Update(t.Context(), set(Record{})))
			wantRecord(t, h, Record{})
			if got := ls(t, dir); got != "" {
				t.Errorf("removed, there is %q", got)
			}
		}()
	}
}

// A handle without leases is a handle, until its names file is removed.
func TestUpdateNoLeases(t *testing.T) {
	h := handleIn(t)
	ok(t, h.Update(t.Context(), set(held("r"))))
	wantRecord(t, h, held("r"))
	ok(t, os.Remove(h.path))
	wantRecord(t, h, Record{})
}

// A script that reserves the path with mktemp has no handle yet, and keeps the file until there
// is one.
func TestUpdateReserved(t *testing.T) {
	h := handleIn(t)
	write(t, h.path, "")
	wantRecord(t, h, Record{})
	if err := h.Update(t.Context(), func(*Tx) error { return errAbort }); err != errAbort {
		t.Errorf("error %v", err)
	}
	if got := ls(t, filepath.Dir(h.path)); got != "handle" {
		t.Errorf("after an Update that failed there is %q", got)
	}
	ok(t, h.Update(t.Context(), set(Record{State: HandleQueued, RequestID: "r"})))
	if got := read(t, h.path); got != "" {
		t.Errorf("queued, the file holds %q", got)
	}
	ok(t, h.Update(t.Context(), set(held("r", "a"))))
	wantRecord(t, h, held("r", "a"))
}

// identity changes whenever a file is written again.
func identity(t *testing.T, path string) [2]any {
	fi, err := os.Lstat(path)
	ok(t, err)
	return [2]any{fi.Sys().(*syscall.Stat_t).Ino, fi.ModTime()}
}

func TestUpdateWritesWhatChanged(t *testing.T) {
	h := handleIn(t)
	ok(t, h.Update(t.Context(), set(held("r", "b", "a"))))
	write(t, h.path, "a\r\n\nb") // sorted in an editor
	names, json := identity(t, h.path), identity(t, h.jsonPath())

	ok(t, h.Update(t.Context(), func(*Tx) error { return nil }))
	if identity(t, h.path) != names || identity(t, h.jsonPath()) != json {
		t.Error("what did not change was written")
	}
	ok(t, h.Update(t.Context(), func(tx *Tx) error { tx.KeeperPID = 7; return nil }))
	if identity(t, h.path) != names {
		t.Error("the names were written, and only the record had changed")
	}
	if got := read(t, h.path); got != "a\r\n\nb" {
		t.Errorf("the names file holds %q", got)
	}
	r, err := h.Read()
	if err != nil || r.KeeperPID != 7 {
		t.Errorf("the record was not written: %+v, %v", r, err)
	}
	// In place, where a comparison with the same slice would see no change.
	ok(t, h.Update(t.Context(), func(tx *Tx) error { tx.Leases[0].Generation = 99; return nil }))
	if r, _ := h.Read(); r.Leases[0].Generation != 99 {
		t.Error("a change in place was not written")
	}
}

// A record of a newer version stays as it is while nothing changes.
func TestUpdateLeavesWhatItDoesNotKnow(t *testing.T) {
	h := handleIn(t)
	const newer = `{"format":1,"state":"queued","request_id":"r","future":"x"}`
	write(t, h.jsonPath(), newer)
	ok(t, h.Update(t.Context(), func(*Tx) error { return nil }))
	if got := read(t, h.jsonPath()); got != newer {
		t.Errorf("it is %q", got)
	}
}

// People copy handles about: the names are enough for a handle, and stay enough.
func TestUpdateBare(t *testing.T) {
	for _, lock := range []bool{false, true} {
		h := handleIn(t)
		write(t, h.path, "a\nb\n")
		if lock {
			write(t, h.lockPath(), "")
		}
		bare := Record{State: HandleHeld, Leases: []Lease{{Name: "a"}, {Name: "b"}}}
		ok(t, h.Update(t.Context(), func(tx *Tx) error {
			if !reflect.DeepEqual(tx.Record, bare) {
				t.Errorf("in Update it is %+v", tx.Record)
			}
			return nil
		}))
		if got := ls(t, filepath.Dir(h.path)); got != "handle" {
			t.Errorf("after an Update that changed nothing there is %q", got)
		}
		ok(t, h.Update(t.Context(), set(Record{})))
		if got := ls(t, filepath.Dir(h.path)); got != "" {
			t.Errorf("released, there is %q", got)
		}
	}
}

// A handle whose names somebody removed leaves no other files.
func TestUpdateRemovesRest(t *testing.T) {
	h := handleIn(t)
	ok(t, h.Update(t.Context(), set(held("r", "a"))))
	ok(t, os.Remove(h.path))
	ok(t, h.Update(t.Context(), func(tx *Tx) error {
		if tx.State != "" {
			t.Errorf("in Update it is %+v", tx.Record)
		}
		return nil
	}))
	if got := ls(t, filepath.Dir(h.path)); got != "" {
		t.Errorf("there is %q", got)
	}
}

func TestUpdateFails(t *testing.T) {
	boom := errors.New("boom")
	fail := func(tx *Tx) error { tx.Record = held("new", "z"); return boom }
	t.Run("on a handle", func(t *testing.T) {
		h := handleIn(t)
		ok(t, h.Update(t.Context(), set(held("r", "a"))))
		if err := h.Update(t.Context(), fail); err != boom {
			t.Errorf("error %v, want fn's own", err)
		}
		wantRecord(t, h, held("r", "a"))
	})
	t.Run("on none", func(t *testing.T) {
		h := handleIn(t)
		if err := h.Update(t.Context(), fail); err != boom {
			t.Errorf("error %v, want fn's own", err)
		}
		if got := ls(t, filepath.Dir(h.path)); got != "" {
			t.Errorf("it left %q", got)
		}
	})
	t.Run("after Save", func(t *testing.T) {
		h := handleIn(t)
		ok(t, h.Update(t.Context(), set(held("r1", "a"))))
		queued := Record{State: HandleQueued, RequestID: "r2", Replaces: []Lease{{Name: "a"}}, ReplacesOf: "r1"}
		err := h.Update(t.Context(), func(tx *Tx) error {
			tx.Record = queued
			ok(t, tx.Save())
			wantRecord(t, h, queued) // on disk, for all to see
			tx.Replaces = nil
			return boom
		})
		if err != boom {
			t.Errorf("error %v, want fn's own", err)
		}
		wantRecord(t, h, queued)
	})
	t.Run("removed by Save", func(t *testing.T) {
		h := handleIn(t)
		ok(t, h.Update(t.Context(), set(held("r1", "a"))))
		err := h.Update(t.Context(), func(tx *Tx) error {
			tx.Record = Record{}
			ok(t, tx.Save())
			if err := TryLock(h.lockPath(), func() error { return nil }); !errors.Is(err, ErrLocked) {
				t.Errorf("the lock is gone before fn has ended: %v", err)
			}
			return boom
		})
		if err != boom {
			t.Errorf("error %v, want fn's own", err)
		}
		if got := ls(t, filepath.Dir(h.path)); got != "" {
			t.Errorf("it left %q", got)
		}
	})
	t.Run("by a panic", func(t *testing.T) {
		h := handleIn(t)
		ok(t, h.Update(t.Context(), set(held("r", "a"))))
		func() {
			defer func() {
				if r := recover(); r != boom {
					t.Errorf("recovered %v", r)
				}
			}()
			h.Update(t.Context(), func(tx *Tx) error { tx.Record = Record{}; panic(boom) })
		}()
		wantRecord(t, h, held("r", "a"))
		ok(t, TryLock(h.lockPath(), func() error { return nil }))
	})
	t.Run("by a name", func(t *testing.T) {
		for _, bad := range []Record{
			held("r", "a", "../../etc"),
			{State: HandleQueued, RequestID: "r", Replaces: []Lease{{Name: "a\nb"}}, ReplacesOf: "r1"},
		} {
			h := handleIn(t)
			wantError(t, h.Update(t.Context(), set(bad)), "lease name")
			if got := ls(t, filepath.Dir(h.path)); got != "" {
				t.Errorf("it left %q", got)
			}
		}
	})
	t.Run("by its context", func(t *testing.T) {
		h := handleIn(t)
		ok(t, WithLock(t.Context(), h.lockPath(), func() error {
			ctx, cancel := context.WithTimeout(t.Context(), 20*time.Millisecond)
			defer cancel()
			err := h.Update(ctx, func(*Tx) error { t.Error("called without the lock"); return nil })
			if !errors.Is(err, context.DeadlineExceeded) {
				t.Errorf("error %v", err)
			}
			return nil
		}))
		// Once it has the lock, what it does is written.
		ctx, cancel := context.WithCancel(t.Context())
		ok(t, h.Update(ctx, func(tx *Tx) error { cancel(); tx.Record = held("r", "a"); return nil }))
		wantRecord(t, h, held("r", "a"))
	})
}

func TestUpdateWithoutDirectory(t *testing.T) {
	dir := filepath.Join(t.TempDir(), "gone")
	h, err := OpenHandle(filepath.Join(dir, "handle"))
	ok(t, err)
	called := false
	ok(t, h.Update(t.Context(), func(tx *Tx) error {
		called = true
		if !reflect.DeepEqual(tx.Record, Record{}) {
			t.Errorf("in Update it is %+v", tx.Record)
		}
		return tx.Save()
	}))
	if !called {
		t.Error("fn was not called")
	}
	err = h.Update(t.Context(), set(held("r", "a")))
	wantError(t, err, dir+" does not exist: make it first")
	if errors.Is(err, os.ErrNotExist) {
		t.Error("a handle that could not be written passes for none")
	}
	// Nobody writes without the lock, not even if there is a place by now.
	err = h.Update(t.Context(), func(tx *Tx) error {
		ok(t, os.Mkdir(dir, 0o700))
		tx.Record = held("r", "a")
		return nil
	})
	wantError(t, err, "does not exist")
	if got := ls(t, dir); got != "" {
		t.Errorf("it left %q", got)
	}
}

// childFullDisk updates a handle where no file can grow beyond ten bytes.
func childFullDisk(args []string) error {
	signal.Ignore(syscall.SIGXFSZ)
	limit := syscall.Rlimit{Cur: 10, Max: 10}
	if err := syscall.Setrlimit(syscall.RLIMIT_FSIZE, &limit); err != nil {
		return err
	}
	h := Handle{path: args[0]}
	err := h.Update(context.Background(), set(held("r2", "a-name-of-more-than-ten-bytes")))
	if !errors.Is(err, syscall.EFBIG) {
		return errors.Join(errors.New("Update did not fail"), err)
	}
	l := List(args[1])
	for _, err := range []error{l.CanAppend(context.Background()), l.Append(context.Background(), named("another-name"))} {
		if !errors.Is(err, syscall.EFBIG) {
			return errors.Join(errors.New("the list did not fail"), err)
		}
	}
	return nil
}

// A full disk is an error that changes nothing.
func TestFullDisk(t *testing.T) {
	h := handleIn(t)
	l := List(filepath.Join(filepath.Dir(h.path), "leases"))
	ok(t, h.Update(t.Context(), set(held("r1", "a"))))
	ok(t, l.Append(t.Context(), named("b")))
	before := ls(t, filepath.Dir(h.path))
	startChild(t, os.Geteuid(), "full-disk", h.path, string(l)).end(t)
	wantRecord(t, h, held("r1", "a"))
	if got := read(t, string(l)); got != "b\n" {
		t.Errorf("the list holds %q", got)
	}
	if after := ls(t, filepath.Dir(h.path)); after != before {
		t.Errorf("there is %q, and was %q", after, before)
	}
}

// A step that fails ends the change, and leaves no temporary file.
func TestApplyFails(t *testing.T) {
	dir := t.TempDir()
	a, b, c := filepath.Join(dir, "a"), filepath.Join(dir, "b"), filepath.Join(dir, "c")
	ok(t, os.Mkdir(b, 0o700))
	data := []byte("x")
	if err := apply(change{a, data, ownerOnly, ""}, change{b, data, ownerOnly, ""}, change{c, data, ownerOnly, ""}); err == nil {
		t.Error("a directory was replaced")
	}
	if got := ls(t, dir); got != "a b" {
		t.Errorf("there is %q, want the first file and the directory", got)
	}
	if err := apply(change{path: a, from: c}); !errors.Is(err, os.ErrNotExist) {
		t.Errorf("what is not there was renamed: %v", err)
	}
}
