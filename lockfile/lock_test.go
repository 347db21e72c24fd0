package lockfile

import (
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"sync/atomic"
	"syscall"
	"testing"
	"testing/synctest"
	"time"

	"github.com/gofrs/flock"
)

const increments = 200

// childCount increments the number in a file under a lock. Now and then it removes the lock
// file, as the last act under the lock.
func childCount(args []string) error {
	path := args[0]
	for i := range increments {
		err := WithLock(context.Background(), path+".lock", func() error {
			data, err := os.ReadFile(path)
			if err != nil {
				return err
			}
			n, err := strconv.Atoi(string(data))
			if err != nil {
				return err
			}
			if err := os.WriteFile(path, []byte(strconv.Itoa(n+1)), 0o600); err != nil {
				return err
			}
			if i%5 == 0 {
				return os.Remove(path + ".lock")
			}
			return nil
		})
		if err != nil {
			return err
		}
	}
	return nil
}

// Increments that are not atomic add up, over processes and goroutines, even if the lock file
// is removed again and again.
func TestWithLockCounts(t *testing.T) {
	path := filepath.Join(t.TempDir(), "n")
	write(t, path, "0")
	a := startChild(t, os.Geteuid(), "count", path)
	b := startChild(t, os.Geteuid(), "count", path)
	done := make(chan error)
	go func() { done <- childCount([]string{path}) }()
	ok(t, <-done)
	a.end(t)
	b.end(t)
	if got, want := read(t, path), strconv.Itoa(3*increments); got != want {
		t.Errorf("%s increments survived, want %s", got, want)
	}
}

// childHold holds a lock until its stdin ends.
func childHold(args []string) error {
	return WithLock(context.Background(), args[0], func() error {
		fmt.Println("held")
		_, err := io.Copy(io.Discard, os.Stdin)
		return err
	})
}

func TestTryLock(t *testing.T) {
	path := filepath.Join(t.TempDir(), "lock")
	c := startChild(t, os.Geteuid(), "hold", path)
	if c.line() != "held" {
		t.Fatal("the child got no lock")
	}
	err := TryLock(path, func() error { t.Error("called without the lock"); return nil })
	if !errors.Is(err, ErrLocked) {
		t.Errorf("held by another process: %v, want ErrLocked", err)
	}
	ok(t, c.Process.Kill())
	c.Wait()
	called := false
	ok(t, TryLock(path, func() error { called = true; return nil }))
	if !called {
		t.Error("not called with the lock of a dead process")
	}
}

func TestLock(t *testing.T) {
	path := filepath.Join(t.TempDir(), "lock")
	unlock, err := Lock(path)
	ok(t, err)
	if _, err := Lock(path); !errors.Is(err, ErrLocked) {
		t.Errorf("held twice: %v, want ErrLocked", err)
	}
	if err := TryLock(path, func() error { return nil }); !errors.Is(err, ErrLocked) {
		t.Errorf("held: %v, want ErrLocked", err)
	}
	ok(t, unlock())
	ok(t, TryLock(path, func() error { return nil }))

	// It starts over like the others.
	unlock, err = Lock(path)
	ok(t, err)
	ok(t, os.Remove(path))
	unlock2, err := Lock(path)
	ok(t, err)
	ok(t, unlock())
	if err := TryLock(path, func() error { return nil }); !errors.Is(err, ErrLocked) {
		t.Errorf("unlocking a removed file let go of the new one: %v", err)
	}
	ok(t, unlock2())
}

// swapped returns a way to take a lock that calls swap, to replace the file, right after it has
// taken the lock for the first time.
func swapped(t *testing.T, path string, swap func()) (take func(*flock.Flock) error, tries *int) {
	tries = new(int)
	return func(l *flock.Flock) error {
		*tries++
		if got, err := l.TryLock(); !got || err != nil {
			t.Fatal(got, err)
		}
		if *tries == 1 {
			swap()
		}
		return nil
	}, tries
}

// A lock on a file that was removed or replaced excludes nobody.
func TestLockStartsOver(t *testing.T) {
	for name, swap := range map[string]func(path string) error{
		"removed": os.Remove,
		"replaced": func(path string) error {
			if err := os.WriteFile(path+".new", nil, 0o600); err != nil {
				return err
			}
			return os.Rename(path+".new", path)
		},
	} {
		t.Run(name, func(t *testing.T) {
			path := filepath.Join(t.TempDir(), "lock")
			take, tries := swapped(t, path, func() { ok(t, swap(path)) })
			unlock, err := lockFile(path, take)
			ok(t, err)
			if *tries != 2 {
				t.Errorf("locked after %d tries, want 2", *tries)
			}
			if err := TryLock(path, func() error { return nil }); !errors.Is(err, ErrLocked) {
				t.Errorf("what is at the path is not locked: %v", err)
			}
			ok(t, unlock())
			ok(t, TryLock(path, func() error { return nil }))
		})
	}
}

// A symlink that leads to the locked file is not the locked file.
func TestLockRefusesSwappedSymlink(t *testing.T) {
	path := filepath.Join(t.TempDir(), "lock")
	take, _ := swapped(t, path, func() {
		ok(t, os.Rename(path, path+".away"))
		ok(t, os.Symlink(path+".away", path))
	})
	_, err := lockFile(path, take)
	wantError(t, err, "is a symlink")
	ok(t, TryLock(path+".away", func() error { return nil })) // nothing stays locked
}

// While one caller is inside, no other is let in, however long it takes. The waiter's time is
// that of the bubble, so the waiter has tried thousands of times before the holder lets go.
func TestWithLockWaits(t *testing.T) {
	path := filepath.Join(t.TempDir(), "lock")
	for name, holder := range map[string]func(path string) (unlock func() error, err error){
		"behind Lock":     Lock,
		"behind WithLock": func(path string) (func() error, error) { return lockFile(path, waiting(t.Context())) },
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				unlock, err := holder(path)
				ok(t, err)
				var inside atomic.Bool // flock orders processes, not memory
				done := make(chan error)
				go func() { done <- WithLock(t.Context(), path, func() error { inside.Store(true); return nil }) }()
				time.Sleep(time.Minute)
				synctest.Wait()
				if inside.Load() {
					t.Error("two are inside")
				}
				ok(t, unlock())
				ok(t, <-done)
				if !inside.Load() {
					t.Error("nobody is let in")
				}
			})
		})
	}
}

func TestWithLockContext(t *testing.T) {
	path := filepath.Join(t.TempDir(), "lock")
	never := func() error { t.Error("called without the lock"); return nil }

	ended, cancel := context.WithCancelCause(t.Context())
	cancel(nil)
	if err := WithLock(ended, path, never); !errors.Is(err, context.Canceled) {
		t.Errorf("ended before: %v", err)
	}

	// The lock is held until the waiter has given up.
	ok(t, WithLock(t.Context(), path, func() error {
		ctx, cancel := context.WithTimeout(t.Context(), 20*time.Millisecond)
		defer cancel()
		err := WithLock(ctx, path, never)
		if !errors.Is(err, context.DeadlineExceeded) {
			t.Errorf("ended while waiting: %v", err)
		}
		wantError(t, err, path)
		wantError(t, err, "another process may hold it: try again")
		return nil
	}))

	ctx, cancel2 := context.WithCancel(t.Context())
	ok(t, WithLock(ctx, path, func() error { cancel2(); return nil }))
}

func TestWithLockLetsGo(t *testing.T) {
	path := filepath.Join(t.TempDir(), "lock")
	boom := errors.New("boom")
	if err := WithLock(t.Context(), path, func() error { return boom }); err != boom {
		t.Errorf("error %v, want fn's own", err)
	}
	ok(t, TryLock(path, func() error { return nil }))

	func() {
		defer func() {
			if r := recover(); r != boom {
				t.Errorf("recovered %v", r)
			}
		}()
		WithLock(t.Context(), path, func() error { panic(boom) })
	}()
	ok(t, TryLock(path, func() error { return nil }))
}

func TestWithLockPlace(t *testing.T) {
	old := syscall.Umask(0)
	defer syscall.Umask(old)
	path := filepath.Join(t.TempDir(), "lock")
	ok(t, WithLock(t.Context(), path, func() error { return nil }))
	fi, err := os.Lstat(path)
	ok(t, err)
	if fi.Mode() != 0o600 {
		t.Errorf("mode %v, want 0600", fi.Mode())
	}
	err = WithLock(t.Context(), filepath.Join(t.TempDir(), "no", "lock"), func() error { return nil })
	if !errors.Is(err, fs.ErrNotExist) {
		t.Errorf("without a directory: %v, want ErrNotExist", err)
	}
}

// refusedFiles are kinds of files that are refused, and the text of the refusal.
var refusedFiles = []struct {
	name string
	make func(t *testing.T, path string)
	says string
}{
	{"symlink", func(t *testing.T, path string) {
		write(t, path+".target", "a\n")
		ok(t, os.Symlink(path+".target", path))
	}, "is a symlink"},
	{"dangling symlink", func(t *testing.T, path string) {
		ok(t, os.Symlink(path+".target", path))
	}, "is a symlink"},
	{"directory", func(t *testing.T, path string) { ok(t, os.Mkdir(path, 0o700)) }, "is a directory"},
	{"pipe", func(t *testing.T, path string) { ok(t, syscall.Mkfifo(path, 0o600)) }, "not a regular file"},
	{"stranger's file", func(t *testing.T, path string) {
		needRoot(t)
		write(t, path, "a\n")
		ok(t, os.Chown(path, stranger, stranger))
	}, "belongs to user 65534, and this is user 0"},
}

func TestWithLockRefuses(t *testing.T) {
	for _, tt := range refusedFiles {
		t.Run(tt.name, func(t *testing.T) {
			path := filepath.Join(t.TempDir(), "lock")
			tt.make(t, path)
			before := ls(t, filepath.Dir(path))
			err := WithLock(t.Context(), path, func() error { t.Error("called"); return nil })
			wantError(t, err, path)
			wantError(t, err, tt.says)
			if after := ls(t, filepath.Dir(path)); after != before {
				t.Errorf("it left %q of %q", after, before)
			}
		})
		// The check before the wait is a courtesy; this one counts.
		t.Run(tt.name+" swapped in", func(t *testing.T) {
			path := filepath.Join(t.TempDir(), "lock")
			var before string
			unlock, err := lockFile(path, func(l *flock.Flock) error {
				tt.make(t, path)
				before = ls(t, filepath.Dir(path))
				_, err := l.TryLock()
				return err
			})
			if err == nil {
				unlock()
				t.Fatal("locked")
			}
			if !strings.Contains(err.Error(), path) {
				t.Errorf("error %q does not say which path", err)
			}
			if after := ls(t, filepath.Dir(path)); after != before {
				t.Errorf("it left %q of %q", after, before)
			}
		})
	}
}

// Whoever waits in the kernel's queue, and gives up, gets the lock later all the same, and lets it go.
func TestQueueingGivesUp(t *testing.T) {
	path := filepath.Join(t.TempDir(), "lock")
	ok(t, TryLock(path, func() error {
		ctx, cancel := context.WithCancel(t.Context())
		cancel()
		err := underLock(path, queueing(ctx), func() error { t.Error("called without the lock"); return nil })
		wantError(t, err, "not free in time")
		return nil
	}))
	ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
	defer cancel()
	ok(t, WithLock(ctx, path, func() error { return nil }))
}

// The error of what was done under a lock is not replaced by that of the unlock.
func TestUnlockInto(t *testing.T) {
	first, second := errors.New("first"), errors.New("second")
	for _, tt := range []struct{ err, unlock, want error }{
		{nil, nil, nil}, {first, nil, first}, {nil, second, second}, {first, second, first},
	} {
		err := tt.err
		unlockInto(&err, func() error { return tt.unlock })
		if !errors.Is(err, tt.want) {
			t.Errorf("%v, and %v of the unlock: %v", tt.err, tt.unlock, err)
		}
	}
}
