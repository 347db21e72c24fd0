package main

import (
	"context"
	"fmt"
	"math"
	"os"
	"path/filepath"
	"strconv"
	"time"

	"github.com/spf13/pflag"

	"github.com/leasectl/leasectl/lockfile"
	"github.com/leasectl/leasectl/trap/process"
)

// This file is what other commands know of keepers.

func keeperDir() string                  { return filepath.Join(stateDir(), "keepers") }
func keeperSocket(request string) string { return filepath.Join(keeperDir(), request) }

// keeperStart bounds the start of a keeper, which takes milliseconds unless the
// machine is very busy. It is shorter than what a provisional grant lasts.
const keeperStart = 20 * time.Second

// startKeeper starts a keeper for what a handle holds, and returns when it
// watches the owner process; 0 is none.
func (a *app) startKeeper(ctx context.Context, handle lockfile.Handle, request string, owner int) error {
	self, err := os.Executable()
	if err != nil {
		return fmt.Errorf("find the program to start a keeper with: %w", err)
	}
	for _, dir := range []string{stateDir(), keeperDir()} {
		if err := lockfile.MakeDir(dir); err != nil {
			return fmt.Errorf("start a keeper: %w", err)
		}
	}
	args, err := a.keeperArguments(handle, request, owner)
	if err != nil {
		return fmt.Errorf("start a keeper: %w", err)
	}
	start, cancel := context.WithTimeout(ctx, keeperStart)
	defer cancel()
	pid, err := process.StartDetached(start, append([]string{self}, args...), keeperEnvironment(), nil)
	if err != nil {
		return fmt.Errorf("start a keeper: %w", err)
	}
	failpoint("keeper-started")
	a.debugf("process %d keeps the lease", pid)
	return handle.Update(ctx, func(tx *lockfile.Tx) error {
		if tx.RequestID == request && tx.State == lockfile.StateHeld {
			tx.KeeperPID = pid
		}
		return nil
	})
}

// keeperArguments are the command line of a keeper. Paths in it are absolute,
// since it runs in another directory.
func (a *app) keeperArguments(handle lockfile.Handle, request string, owner int) ([]string, error) {
	args := []string{"keeper", "--handle", handle.Path(), "--request", request}
	if owner != 0 {
		args = append(args, "--owner-pid", strconv.Itoa(owner))
	}
	if a.owner != "" {
		args = append(args, "--owner", a.owner)
	}
	if a.proxy.given {
		e, err := parseProxy(a.proxy.url)
		if err != nil {
			return nil, err
		}
		args = append(args, "--proxy", e.name())
	}
	for _, file := range []struct{ flag, path string }{{"--token-file", a.proxy.tokenFile}, {"--ca", a.proxy.ca}} {
		if file.path == "" {
			continue
		}
		path, err := filepath.Abs(file.path)
		if err != nil {
			return nil, err
		}
		args = append(args, file.flag, path)
	}
	return args, nil
}

// keeperEnvironment is that of a local proxy, and what says how to reach one
// that is not.
func keeperEnvironment() []string {
	env := append(localEnvironment(), "LEASECTL_STATE_DIR="+stateDir())
	names := []string{"http_proxy", "HTTP_PROXY", "https_proxy", "HTTPS_PROXY", "no_proxy", "NO_PROXY", "SSL_CERT_FILE", "SSL_CERT_DIR"}
	for _, name := range append(names, failpointVariables...) {
		if value, ok := os.LookupEnv(name); ok {
			env = append(env, name+"="+value)
		}
	}
	return env
}

// tellKeeper has the keeper of a request look at its handle again, and reports
// whether there is one.
func tellKeeper(request string) bool { return keeperState(request) == keeperAlive }

// States of a request's keeper.
type keeperStanding int

const (
	keeperNone   keeperStanding = iota // there is none, or it has done its work
	keeperAlive                        // and it looks at its handle now
	keeperKilled                       // it ended without removing its socket
)

func keeperState(request string) keeperStanding {
	if request == "" {
		return keeperNone
	}
	path := keeperSocket(request)
	if _, err := os.Lstat(path); err != nil {
		return keeperNone
	}
	short, done, err := shortSocket(path)
	if err != nil {
		return keeperNone
	}
	defer done()
	if listens(short) {
		return keeperAlive
	}
	if _, err := os.Lstat(path); err != nil {
		return keeperNone // it has just ended
	}
	return keeperKilled
}

// dismissKeeper ends the keeper of a request that is given back, and removes
// what a killed one left.
func dismissKeeper(request string) {
	if keeperState(request) == keeperKilled {
		os.Remove(keeperSocket(request))
	}
}

// noticeKeeper says so if the keeper of what a handle holds was killed.
func (a *app) noticeKeeper(handle lockfile.Handle, r lockfile.Record) {
	if r.State != lockfile.StateHeld || keeperState(r.RequestID) != keeperKilled {
		return
	}
	if !versionOneLeases(r) {
		a.failf("the keeper of handle %s (process %d) was killed: nobody renews its lease, which ends %s after its last renewal",
			handle.Path(), r.KeeperPID, shortDuration(r.TTL))
		return
	}
	then := "when its owner process ends"
	if !r.ReleaseAt.IsZero() {
		then = "at " + r.ReleaseAt.Format(time.RFC3339)
	}
	a.failf("the keeper of handle %s (process %d) was killed: nobody releases its lease %s any more: release it, or run leasectl recover after that",
		handle.Path(), r.KeeperPID, then)
}

// bindOwnerPID binds the flag that names the process a lease is for.
func bindOwnerPID(flags *pflag.FlagSet, pid *int, usage string) {
	flags.Var(intValue(pid, 0, 1, math.MaxInt32), "owner-pid", usage)
}

// checkOwnerPID refuses an owner process that cannot be meant.
func checkOwnerPID(pid int) error {
	if pid == os.Getpid() {
		return usagef("--owner-pid %d: that is leasectl itself: bash runs the last command of bash -c in its own process: add a command after it, or leave --owner-pid out", pid)
	}
	return nil
}

// checkOwnerLives refuses an owner process that is gone: its lease would be given
// back at once.
func checkOwnerLives(pid int) error {
	looking, cancel := context.WithCancel(context.Background())
	cancel() // WaitExit then only looks
	if process.WaitExit(looking, pid) == nil {
		return usagef("--owner-pid %d: there is no such process: name one that lives as long as the lease is needed, such as $$", pid)
	}
	return nil
}
