package main

import (
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	mathrand "math/rand/v2"
	"os"
	"path/filepath"
	"sync"
	"time"

	"github.com/spf13/pflag"

	"github.com/leasectl/leasectl/leaseapi"
	"github.com/leasectl/leasectl/lockfile"
	"github.com/leasectl/leasectl/proxyclient"
)

// Taking a lease has three parts. Under the handle's lock a new request id is
// written as queued; then the request waits at the proxy, with no lock held;
// then, under the lock again, the names are written if the id still stands. A
// release in between replaces the id, and what was granted by then is given
// back: so an exit trap never hangs behind a queue, and of two processes the
// later one wins.
//
// A new handle that nobody has been told of skips the first part: it is its
// journal entry that tells what was asked for.

// takeOptions are the flags of what takes leases: acquire, reacquire, exec.
type takeOptions struct {
	typ          string
	count        int
	handle       string
	scope        string
	jitter       time.Duration
	waitTimeout  time.Duration
	ttl          time.Duration
	releaseAfter time.Duration
	optional     bool
	noNewline    bool // after the printed handle

	ownerPID int  // process whose life the lease is for; 0: none
	outlives bool // the lease is not for the life of this process
}

// Bounds of what may be asked for.
const (
	maxTime        = 7 * 24 * time.Hour
	minTTL         = 10 * time.Second // below it a renewal every third leaves no room for a retry
	defaultWait    = time.Hour
	defaultExecTTL = 5 * time.Minute
)

func (o *takeOptions) bind(flags *pflag.FlagSet) {
	flags.Var(textValue(&o.typ, leaseapi.MaxName, "a type"), "type", "type of the lease: which pool it comes from")
	flags.Var(intValue(&o.count, 1, 1, maxCapacity), "count", "how many leases, all together or none")
	flags.StringVar(&o.handle, "handle", "", "path of the handle to write (default: a new one in $LEASECTL_STATE_DIR)")
	flags.Var(choiceValue(&o.scope, "step", "step", "test"), "scope", "step, or test: also list the names in $SHARED_DIR/leases for later steps")
	flags.Var(durationValue(&o.jitter, 0, 0, maxTime), "jitter", "wait a random time of up to this before asking")
	flags.Var(durationValue(&o.waitTimeout, defaultWait, 0, maxTime), "wait-timeout", "how long to queue; 0 asks once")
	flags.Var(durationValue(&o.ttl, 0, minTTL, maxTime), "ttl", "how long the lease lasts after its last renewal (default: the pool's)")
	flags.Var(durationValue(&o.releaseAfter, 0, time.Second, maxTime), "release-after", "release the lease this long after it was acquired, whatever happens")
	flags.BoolVar(&o.optional, "optional", false, "go on without a lease if none is to be had, and say so")
}

func (o *takeOptions) check() error {
	if o.typ == "" {
		return usagef("no --type: name the type of the lease to take")
	}
	return nil
}

// holding is a lease that was taken: its handle, and how to talk of it.
type holding struct {
	handle lockfile.Handle
	record lockfile.Record
	grant  *proxyclient.Grant
	secret bool // nobody else knows the handle yet
	kept   bool // the handle had the names
	client *proxyclient.Client
	// deadline is when the leases end unless they are renewed before.
	deadline proxyclient.Instant
}

// stands tells by its record whether the handle still waits for these leases.
func (h *holding) stands(r lockfile.Record) bool {
	if h.secret {
		return r.State == ""
	}
	return r.RequestID == h.record.RequestID
}

// names are the leases' names, in the order they were granted.
func (h *holding) names() []string { return h.record.Names() }

var (
	errHeld = errors.New("the handle is taken")
	// errSuperseded says that another process released or re-acquired the
	// handle while this one was waiting.
	errSuperseded = errors.New("released by another process while waiting")
)

// take acquires leases into a handle. What the handle holds is given back first,
// if replaces says so of its record (nil never does), under the same lock: no
// third process ever sees a handle that neither holds nor waits. It blocks for
// the jitter and at most the wait timeout; ctx ends both.
func (a *app) take(ctx context.Context, o *takeOptions, handle lockfile.Handle, replaces func(lockfile.Record) bool) (*holding, error) {
	e, err := parseProxy(a.proxy.url)
	if err != nil {
		return nil, usagef("--proxy %q: %w", a.proxy.url, err)
	}
	list, err := sharedList(ctx, o.scope)
	if err != nil {
		return nil, err
	}
	if string(list) == handle.Path() {
		return nil, usagef("--handle %q: that is the list of the names of all handles: choose another file", handle.Path())
	}
	client, err := a.dial(ctx, a.proxy.url)
	if err != nil {
		return nil, err
	}
	h := &holding{handle: handle, client: client, secret: o.handle == "" && replaces == nil}
	h.record = lockfile.Record{
		State:     lockfile.StateQueued,
		RequestID: rand.Text(),
		Owner:     a.ownerName(),
		Type:      o.typ,
		Count:     o.count,
		Proxy:     e.name(),
		TTL:       o.ttl,

		SharedList: string(list),
	}
	// Before the handle is looked at: it may be a dead process that has it.
	a.settleOwn(ctx, e.name())
	if err := a.beginAcquire(ctx, o, h); err != nil {
		return nil, err
	}
	failpoint("intent-written")
	if !h.secret {
		<-a.listening
		if err := a.queue(ctx, h, replaces); err != nil {
			a.journal.settle(h.record.RequestID) // nothing was sent
			return nil, err
		}
	}
	failpoint("request-in-handle")
	h.grant, err = a.wait(ctx, o, h)
	failpoint("acquire-answered")
	if err == nil {
		h.deadline = h.grant.Deadline()
		err = a.keep(ctx, h, list)
	}
	if err != nil {
		err = a.abandon(ctx, h, err)
		return nil, err
	}
	return h, nil
}

// queue writes the request into the handle, after it has given back what the
// handle held before.
func (a *app) queue(ctx context.Context, h *holding, replaces func(lockfile.Record) bool) error {
	ctx, cancel := releaseContext(ctx)
	defer cancel()
	var owed []lockfile.Owed
	err := h.handle.Update(ctx, func(tx *lockfile.Tx) error {
		if tx.Record.State != "" && (replaces == nil || !replaces(tx.Record)) {
			return heldError(h.handle.Path(), tx.Record)
		}
		if err := a.leftToKeeper(tx.Record); err != nil {
			return err
		}
		owed = debts(tx.Record)
		tx.Record = h.record
		tx.Record.Owed = owed
		if len(owed) == 0 {
			return nil
		}
		if err := tx.Save(); err != nil {
			return err
		}
		failpoint("replaced-in-handle")
		released, err := a.settle(ctx, &tx.Record)
		if err != nil {
			tx.Record = lockfile.Record{State: lockfile.StateReleasing, Owed: tx.Record.Owed}
			return errors.Join(err, tx.Save())
		}
		failpoint("replaced-released")
		a.debugf("released %v before acquiring again", released)
		return nil
	})
	if err == nil {
		a.paid(owed)
	}
	return err
}

// heldError says what a handle is doing and how to go on.
func heldError(path string, r lockfile.Record) error {
	switch r.State {
	case lockfile.StateQueued:
		return fmt.Errorf("handle %s already waits for a lease of type %q: %w: release it, or use leasectl reacquire", path, r.Type, errHeld)
	case lockfile.StateReleasing:
		return fmt.Errorf("handle %s has a release that did not reach the proxy yet: %w: release it again, or use leasectl reacquire", path, errHeld)
	}
	return fmt.Errorf("handle %s already holds %v: %w: release it, or use leasectl reacquire", path, r.Names(), errHeld)
}

// wait asks the proxy and blocks until it grants, the wait timeout is over,
// or somebody else takes the handle.
func (a *app) wait(ctx context.Context, o *takeOptions, h *holding) (*proxyclient.Grant, error) {
	ctx, cancel := context.WithCancelCause(ctx)
	var watch sync.WaitGroup
	defer watch.Wait()
	defer cancel(nil)
	if !h.secret {
		watch.Go(func() {
			if h.handle.Watch(ctx, h.stands) == nil {
				cancel(errSuperseded)
			}
		})
	}

	<-a.listening
	if o.jitter > 0 {
		d := mathrand.N(o.jitter + 1)
		a.notef("jitter: asking for the lease in %s", shortDuration(d.Round(time.Second)))
		if err := sleep(ctx, d); err != nil {
			return nil, err
		}
	}
	report := a.reportWait(ctx, h, o.typ)
	defer report.stop()
	failpoint("acquire-unsent")
	grant, err := h.client.Acquire(ctx, proxyclient.Request{
		Type:      o.typ,
		Count:     o.count,
		Owner:     h.record.Owner,
		RequestID: h.record.RequestID,
		TTL:       o.ttl,
		Wait:      o.waitTimeout,
		OnQueued:  report.queued,
		OnRetry:   func(err error) { a.debugf("%v: trying again", err) },
	})
	if err == nil {
		return grant, nil
	}
	if errors.Is(err, proxyclient.ErrEnded) {
		return nil, errSuperseded // the release that did it says so to the proxy first
	}
	if cause := context.Cause(ctx); cause != nil {
		if errors.Is(err, proxyclient.ErrUnconfirmed) {
			return nil, fmt.Errorf("%w: %w", cause, err)
		}
		return nil, cause
	}
	return nil, err
}

// keep writes what was granted into the handle, if its request still stands.
func (a *app) keep(ctx context.Context, h *holding, list lockfile.List) error {
	ctx, cancel := releaseContext(ctx)
	defer cancel()
	h.record.State = lockfile.StateHeld
	h.record.AcquiredAt = time.Now().UTC().Round(time.Millisecond)
	h.record.TTL = h.grant.TTL
	for _, l := range h.grant.Leases {
		h.record.Leases = append(h.record.Leases, lockfile.Lease(l))
	}
	err := h.handle.Update(ctx, func(tx *lockfile.Tx) error {
		if !h.stands(tx.Record) {
			return errSuperseded
		}
		tx.Record = h.record
		return nil
	})
	if err != nil {
		return err
	}
	h.kept = true
	failpoint("names-in-handle")
	if list != "" {
		return list.Append(ctx, h.names())
	}
	return nil
}

// abandon ends a take that failed with err: what was granted goes back, and
// the handle forgets the request unless another process has replaced it. What
// stays unclear stays in the journal.
func (a *app) abandon(ctx context.Context, h *holding, err error) error {
	ours := func(r lockfile.Record) bool { return r.RequestID == h.record.RequestID }
	ctx, cancel := releaseContext(ctx)
	defer cancel()
	failed := error(nil)
	switch {
	case h.grant == nil && h.secret: // Acquire has taken the request back
	case h.grant == nil: // too
		failed = forget(ctx, h.handle, ours)
	case h.kept: // or whoever has taken the handle over owes the names
		_, failed = a.giveBack(ctx, h.handle, ours)
	default:
		_, failed = h.client.Release(ctx, proxyclient.Releasing(h.grant.Leases, h.record.Owner))
		failed = errors.Join(failed, forget(ctx, h.handle, ours))
	}
	if failed != nil || errors.Is(err, proxyclient.ErrUnconfirmed) {
		a.journal.leave(h.record.RequestID)
	} else {
		a.journal.settle(h.record.RequestID)
	}
	if failed != nil {
		return fmt.Errorf("%w; and giving back failed: %w", err, failed)
	}
	return err
}

// forget removes a handle that holds nothing, if same says so of its record.
func forget(ctx context.Context, handle lockfile.Handle, same func(lockfile.Record) bool) error {
	return handle.Update(ctx, func(tx *lockfile.Tx) error {
		if same(tx.Record) {
			tx.Record = lockfile.Record{}
		}
		return nil
	})
}

// confirm makes a fresh grant firm: until its first renewal the proxy takes it
// for one that nobody received. With releaseAfter it also sets the end.
func (a *app) confirm(ctx context.Context, h *holding, releaseAfter time.Duration) error {
	ctx, cancel := context.WithTimeout(ctx, leaseapi.ProvisionalTTL) // then there is nothing left to confirm
	defer cancel()
	if h.grant.Version1 {
		a.debugf("the proxy speaks version 1: the lease needs no confirmation")
	} else {
		renewal, err := h.client.Renew(ctx, h.grant.Leases, 0)
		if errors.Is(err, context.DeadlineExceeded) {
			err = fmt.Errorf("not done in %s, when the proxy takes it back: %w", leaseapi.ProvisionalTTL, err)
		}
		if err != nil {
			return fmt.Errorf("confirm the lease: %w", err)
		}
		h.deadline = renewal.Deadline
	}
	if releaseAfter > 0 {
		return a.delayRelease(ctx, h.client, h.handle, h.grant.Leases, h.record.Owner, releaseAfter)
	}
	return nil
}

// newHandle opens the handle that the flags name, or a new one in the state
// directory. A dry run writes nothing, so neither does it make the directory.
func (a *app) newHandle(path string) (lockfile.Handle, error) {
	if path == "" {
		dir := stateDir()
		if !a.proxy.unset() {
			if err := lockfile.MakeDir(dir); err != nil {
				return lockfile.Handle{}, err
			}
		}
		path = filepath.Join(dir, "lease-"+rand.Text())
	}
	return openHandle(path)
}

// openHandle opens the handle at path; a path that cannot be one is a usage error.
func openHandle(path string) (lockfile.Handle, error) {
	h, err := lockfile.OpenHandle(path)
	if err != nil {
		return h, usagef("--handle %q: %w", path, err)
	}
	return h, nil
}

// sharedList is the list of the names that outlive the step, for scope test;
// it is an error if names could not be added to it later.
func sharedList(ctx context.Context, scope string) (lockfile.List, error) {
	if scope != "test" {
		return "", nil
	}
	dir := os.Getenv("SHARED_DIR")
	if dir == "" {
		return "", usagef("--scope test: SHARED_DIR is not set: it is the directory whose file leases lists the names")
	}
	dir, err := filepath.Abs(dir)
	if err != nil {
		return "", fmt.Errorf("--scope test: %w", err)
	}
	list := lockfile.List(filepath.Join(dir, "leases"))
	if err := list.CanAppend(ctx); err != nil {
		return "", fmt.Errorf("--scope test: %w", err)
	}
	return list, nil
}

// ownerName is the owner to tell the proxy.
func (a *app) ownerName() string {
	if a.owner != "" {
		return a.owner
	}
	return detectOwner(os.Getenv)
}

// sleep waits for d, or until ctx ends; then it returns ctx's cause.
func sleep(ctx context.Context, d time.Duration) error {
	t := time.NewTimer(d)
	defer t.Stop()
	select {
	case <-t.C:
		return nil
	case <-ctx.Done():
		return context.Cause(ctx)
	}
}
