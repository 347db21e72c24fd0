package holder

import (
	"context"
	"errors"
	"time"

	"github.com/leasectl/leasectl/internal/holder/usage"
	"github.com/leasectl/leasectl/lockfile"
	"github.com/leasectl/leasectl/proxyclient"
)

// Errors to compare with [errors.Is], beside [usage.Err] and those of proxyclient.
var (
	// ErrHeld: the handle holds, waits for or owes a lease already.
	ErrHeld = errors.New("the handle is taken")
	// ErrReplaced: another process released the handle, or acquired into it, while this process
	// was waiting.
	ErrReplaced = errors.New("released by another process while waiting")
	// ErrService: the service that comes with a shared lease did not become ready.
	ErrService = errors.New("no service")
	// ErrCallerGone: the process that ran a delayed release was killed.
	ErrCallerGone = errors.New("cancelled: the process that ran the release is gone")
)

// unreadError says that a handle could not be locked or read. Nothing was done with the handle.
type unreadError struct{ err error }

func (e unreadError) Error() string { return e.err.Error() }
func (e unreadError) Unwrap() error { return e.err }

func isUnread(err error) bool {
	_, unread := errors.AsType[unreadError](err)
	return unread
}

// updateHandle is handle.Update, whose lock must be free within most. The error is an [unreadError] if
// the handle cannot be locked or read, so that fn is not called, unless ctx has ended.
func updateHandle(ctx context.Context, most time.Duration, handle lockfile.Handle, fn func(tx *lockfile.Tx) error) error {
	locking, cancel := context.WithTimeout(ctx, most)
	defer cancel()
	called := false
	err := handle.Update(locking, func(tx *lockfile.Tx) error {
		called = true
		return fn(tx)
	})
	if err != nil && !called && ctx.Err() == nil {
		return unreadError{err}
	}
	return err
}

// Denied tells whether an acquire failed with err because it got no lease, so that a caller to
// whom the lease is optional may go on without one. It is false if the request was wrong, if
// another process or request decided it, and if ctx has ended.
func Denied(ctx context.Context, err error) bool {
	for _, decided := range []error{usage.Err, ErrService, ErrHeld, ErrReplaced, proxyclient.ErrCoalesced, proxyclient.ErrSuperseded} {
		if errors.Is(err, decided) {
			return false
		}
	}
	return ctx.Err() == nil
}
