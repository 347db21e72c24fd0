package main

import (
	"context"
	"errors"
	"math"
	"os"

	"github.com/spf13/pflag"
	"golang.org/x/sys/unix"

	"github.com/leasectl/leasectl/internal/process"
)

// bindOwnerPID binds --owner-pid, which names the process that a lease is for.
func bindOwnerPID(flags *pflag.FlagSet, pid *int, usage string) {
	flags.Var(intValue(pid, 0, 1, math.MaxInt32), "owner-pid", usage)
}

// checkOwnerPID refuses leasectl's own pid, which is always a mistake.
func checkOwnerPID(pid int) error {
	if pid == os.Getpid() {
		return usagef("--owner-pid %d: that is leasectl itself: bash runs the last command of bash -c in its own process: add a command after it, or leave --owner-pid out", pid)
	}
	return nil
}

// whileOwnerLives returns a context that ends with an owner process, so that nobody takes a lease for
// another process that has got its id meanwhile. stop ends the watch.
func whileOwnerLives(ctx context.Context, pid int) (watched context.Context, stop func(), err error) {
	ctx, cancel := context.WithCancelCause(ctx)
	ended := process.WatchExit(ctx, pid)
	if err := checkOwnerLives(pid); err != nil {
		cancel(nil)
		return nil, nil, err
	}
	go func() {
		if <-ended == nil {
			cancel(ownerEnded(pid))
		}
	}()
	return ctx, func() { cancel(nil) }, nil
}

// errParentGone ends an acquire for which nobody waits.
var errParentGone = errors.New("the process that started this has ended: no lease is taken (setsid leasectl … waits all the same)")

// whileParentLives returns a context that ends with the process that started this one, such as a shell that was
// killed while it waited for a lease; with that nobody would release the lease. A process with a session of its own
// goes on: somebody detached it. stop ends the watch.
func whileParentLives(ctx context.Context) (watched context.Context, stop func()) {
	ctx, cancel := context.WithCancelCause(ctx)
	if session, err := unix.Getsid(0); err != nil || session == os.Getpid() {
		return ctx, func() { cancel(nil) }
	}
	go func() {
		if process.WaitParent(ctx) == nil {
			cancel(errParentGone)
		}
	}()
	return ctx, func() { cancel(nil) }
}

// checkOwnerLives refuses an owner process that has ended, since its lease would be given back at
// once.
func checkOwnerLives(pid int) error {
	if !process.Lives(pid) {
		return ownerEnded(pid)
	}
	return nil
}

func ownerEnded(pid int) error {
	return usagef("--owner-pid %d: there is no such process: name one that lives as long as the lease is needed, such as $$", pid)
}
