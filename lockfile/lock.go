package lockfile

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"syscall"
	"time"

	"github.com/gofrs/flock"

	"github.com/leasectl/leasectl/internal/own"
)

// retryDelay is how long a waiter sleeps between two tries. A critical section takes
// milliseconds, so a waiter loses about as much again. A try is an open, a flock and a close,
// some ten microseconds: even a wait of seconds, behind a release that talks to a dead proxy,
// takes less than 1 % of a core.
const retryDelay = 5 * time.Millisecond

// ErrLocked is the error of [Lock] and [TryLock] if the lock is not free.
var ErrLocked = errors.New("another process holds the lock")

// WithLock runs fn while it holds an exclusive flock(2) on path, which is created with mode
// 0600 if it is missing, and returns fn's error. It blocks until the lock is free or ctx ends;
// then the error wraps ctx.Err(), and fn was not called. A ctx that ends while fn runs has no
// effect. The lock is released however fn ends, also by a panic. If the directory of path does
// not exist, the error is [fs.ErrNotExist].
//
// Only fn itself may remove the lock file, and only as its last act: a process that waited for
// the removed file notices that another file, or none, is at path, and starts over. For the
// same reason a lock file with content must be written in place: a file that is renamed over it
// is not locked.
func WithLock(ctx context.Context, path string, fn func() error) error {
	return underLock(path, waiting(ctx), fn)
}

// Lock takes the lock of [WithLock] and keeps it until unlock is called or the process ends,
// even by a KILL. It does not wait: if the lock is not free, the error is [ErrLocked] at once.
// Keep unlock even if it is never called: the lock is lost when nothing refers to unlock.
func Lock(path string) (unlock func() error, err error) {
	return lockFile(path, try)
}

// TryLock is [WithLock] without the wait: if the lock is not free, the error is [ErrLocked],
// and fn was not called.
func TryLock(path string, fn func() error) error {
	return underLock(path, try, fn)
}

// try takes a lock if it is free.
func try(l *flock.Flock) error {
	free, err := l.TryLock()
	if err == nil && !free {
		err = ErrLocked
	}
	return err
}

func underLock(path string, take func(*flock.Flock) error, fn func() error) (err error) {
	unlock, err := lockFile(path, take)
	if err != nil {
		return err
	}
	defer unlockInto(&err, unlock)
	return fn()
}

// unlockInto calls unlock in a defer statement. Its error counts if there is no other.
func unlockInto(err *error, unlock func() error) {
	if uerr := unlock(); uerr != nil && *err == nil {
		*err = fmt.Errorf("unlock: %w", uerr)
	}
}

// waiting returns a take for lockFile that waits for the lock until ctx ends.
func waiting(ctx context.Context) func(*flock.Flock) error { return waitingEvery(ctx, retryDelay) }

// notFree returns the error for a lock that was not free before its context ended with err.
func notFree(err error) error {
	return fmt.Errorf("not free in time (%w): another process may hold it: try again", err)
}

// waitingEvery is waiting with another pause between two tries.
func waitingEvery(ctx context.Context, pause time.Duration) func(*flock.Flock) error {
	return func(l *flock.Flock) error {
		_, err := l.TryLockContext(ctx, pause)
		if err != nil && errors.Is(err, ctx.Err()) {
			err = notFree(err)
		}
		return err
	}
}

// queueing returns a take for lockFile that waits in the kernel's queue for the lock. Hundreds
// of commands may want one lock at once, each for a fraction of a millisecond: if each of them
// polled, they would do nothing else. If ctx ends, the wait goes on in a goroutine that
// releases the lock when it gets it. It is for directories of ours only: the goroutine does not have the
// rights of [own.As].
func queueing(ctx context.Context) func(*flock.Flock) error {
	return func(l *flock.Flock) error {
		if free, err := l.TryLock(); free || err != nil {
			return err
		}
		got := make(chan error, 1)
		go func() { got <- l.Lock() }()
		select {
		case err := <-got:
			return err
		case <-ctx.Done():
			go func() {
				if <-got == nil {
					l.Unlock()
				}
			}()
			return notFree(ctx.Err())
		}
	}
}

// lockFile takes the lock on path with take, and makes sure that the locked file
// is the one at path.
func lockFile(path string, take func(*flock.Flock) error) (unlock func() error, err error) {
	l, err := openLocked(path, take)
	if err != nil {
		return nil, err
	}
	return l.Unlock, nil
}

// openLocked is lockFile for a caller that looks at the locked file later.
func openLocked(path string, take func(*flock.Flock) error) (l *flock.Flock, err error) {
	err = own.As(filepath.Dir(path), func() error {
		l, err = openLockedAs(path, take)
		return err
	})
	return l, err
}

func openLockedAs(path string, take func(*flock.Flock) error) (*flock.Flock, error) {
	// O_NONBLOCK: opening a pipe must fail the check below, not hang.
	const flags = os.O_CREATE | os.O_RDONLY | syscall.O_NOFOLLOW | syscall.O_NONBLOCK
	for {
		// Checked before the wait, so that nobody waits for a file that is refused afterwards.
		if err := refusal(path); err != nil {
			return nil, fmt.Errorf("lock: %w", err)
		}
		l := flock.New(path, flock.SetFlag(flags), flock.SetPermissions(ownerOnly))
		if err := take(l); err != nil {
			return nil, fmt.Errorf("lock %s: %w", path, err)
		}
		switch same, err := atPath(path, l); {
		case err != nil:
			return nil, errors.Join(fmt.Errorf("lock: %w", err), l.Unlock())
		case same:
			return l, nil
		}
		// The previous holder of the lock removed or replaced the file: nobody else will ever
		// ask for the lock on the old file, which we hold.
		if err := l.Unlock(); err != nil {
			return nil, fmt.Errorf("unlock %s: %w", path, err)
		}
	}
}

// atPath reports whether the file that l has locked is the one at path.
func atPath(path string, l *flock.Flock) (bool, error) {
	locked, err := l.Stat()
	if err != nil {
		return false, err
	}
	if err := checkOwn(path, locked); err != nil {
		return false, err
	}
	// Lstat, so that a symlink to the locked file does not pass for it.
	now, err := os.Lstat(path)
	if errors.Is(err, fs.ErrNotExist) {
		return false, nil
	}
	return err == nil && os.SameFile(locked, now), err
}
