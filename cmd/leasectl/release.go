package main

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"math"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"github.com/leasectl/leasectl/leaseapi"
	"github.com/leasectl/leasectl/lockfile"
	"github.com/leasectl/leasectl/trap"
)

type releaseOptions struct {
	handle string
	names  []string
	scope  string
	delay  time.Duration
	detach bool
	owner  int // process that wants a delayed release; 0: the one that started us
	caller int // process whose end cancels a delayed release; 0: none
}

func newReleaseCommand(a *app) *cobra.Command {
	o := new(releaseOptions)
	cmd := &cobra.Command{
		Use:   "release (--handle HANDLE | --names A,B | --scope test)",
		Short: "give leases back",
		Long: `Release gives leases back and prints their names. What is given back already is
success. With --delay it waits first: killed meanwhile, the lease stays; if the
shell that started it is gone, it releases at once. With --delay and --detach it
returns at once and the proxy releases when the time has come, or a process in
the background if the proxy is of version 1.`,
		Example: `  leasectl release --handle "$handle" --delay 20m --detach`,
		Args:    cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			// A job's LEASECTL_SCOPE is about its acquires, and its
			// LEASECTL_DETACH about its late releases.
			if flags := cmd.Flags(); o.handle != "" || len(o.names) > 0 {
				o.scope = ifTyped(flags.Lookup("scope"), o.scope)
			}
			if o.delay == 0 {
				o.detach = ifTyped(cmd.Flags().Lookup("detach"), o.detach)
			}
			return a.release(cmd.Context(), o)
		},
	}
	flags := cmd.Flags()
	flags.StringVar(&o.handle, "handle", "", "the handle that acquire printed")
	flags.Var(namesValue(&o.names), "names", "names of leases, separated by commas")
	flags.Var(choiceValue(&o.scope, "", "test"), "scope", "test: all names in $SHARED_DIR/leases")
	flags.Var(durationValue(&o.delay, 0, 0, maxTime), "delay", "release after this time")
	flags.BoolVar(&o.detach, "detach", false, "with --delay: return at once, the release happens by itself")
	bindOwnerPID(flags, &o.owner, "with --delay: release at once when this process is gone (default: the one that started leasectl)")
	flags.Var(intValue(&o.caller, 0, 1, math.MaxInt32), "caller-pid", "")
	// A shell function that runs in the background has a process of its own
	// between the step's shell and us, and to kill that one is to cancel.
	flags.Lookup("caller-pid").Hidden = true
	return cmd
}

// ifTyped is the value of a flag, or zero if only the environment has set it.
func ifTyped[T any](f *pflag.Flag, v T) T {
	if !typed(f) {
		var none T
		return none
	}
	return v
}

func (a *app) release(ctx context.Context, o *releaseOptions) error {
	given := 0
	for _, is := range []bool{o.handle != "", len(o.names) > 0, o.scope != ""} {
		if is {
			given++
		}
	}
	if given != 1 {
		return usagef("want one of --handle, --names and --scope test: what is to be released")
	}
	switch {
	case o.detach && o.delay == 0:
		return usagef("--detach goes with --delay")
	case o.owner != 0 && (o.delay == 0 || o.detach):
		return usagef("--owner-pid goes with --delay, and not with --detach")
	}
	if err := checkOwnerPID(o.owner); err != nil {
		return err
	}
	if o.handle != "" {
		return a.releaseHandle(ctx, o)
	}
	return a.releaseNames(ctx, o)
}

// releaseHandle gives back what a handle holds, now or later.
func (a *app) releaseHandle(ctx context.Context, o *releaseOptions) error {
	handle, err := openHandle(o.handle)
	if err != nil {
		return err
	}
	record, err := handle.Read()
	if errors.Is(err, fs.ErrNotExist) {
		a.debugf("handle %s is gone: nothing to release", handle.Path())
		return a.printReleased(nil)
	}
	if err != nil {
		return err
	}
	if record.Proxy == "" && a.proxy.unset() {
		a.notef("no proxy is set (--proxy or $%s): dry run: it would release %s", proxyVariable, strings.Join(record.Names(), ", "))
		return nil
	}
	a.noticeKeeper(handle, record)
	same := anyRecord
	switch {
	case o.detach:
		return a.detachRelease(ctx, handle, record, o.delay)
	case o.delay > 0:
		same = func(r lockfile.Record) bool { return sameGrant(r, record) }
		if superseded, err := a.waitToRelease(ctx, handle, same, o); err != nil || superseded {
			return err
		}
	}
	released, err := a.giveBack(ctx, handle, same)
	if err != nil {
		return err
	}
	return a.printReleased(released)
}

// sameGrant tells whether two records are of one grant. A copied handle has no
// request id; then the names must do.
func sameGrant(a, b lockfile.Record) bool {
	return a.RequestID == b.RequestID && slices.Equal(a.Names(), b.Names())
}

// waitToRelease blocks for the delay. It returns early when the shell that
// wanted the release is gone, for then nothing is left to wait for, and it
// reports superseded when the handle has a new lease by now, or none.
func (a *app) waitToRelease(ctx context.Context, handle lockfile.Handle, same func(lockfile.Record) bool, o *releaseOptions) (superseded bool, err error) {
	a.notef("releasing %s in %s", handle.Path(), shortDuration(o.delay))
	err = a.delayed(ctx, o, func(ctx context.Context) error {
		return handle.Watch(ctx, same)
	})
	if errors.Is(err, errSuperseded) {
		a.notef("handle %s was released or acquired again meanwhile: nothing to do", handle.Path())
		return true, nil
	}
	return false, err
}

// delayed blocks until the delay is over or the owner process is gone. It
// returns errSuperseded if watch returned first, errCallerGone if the caller
// process ended and the owner lives, and ctx's cause if that ends it.
func (a *app) delayed(ctx context.Context, o *releaseOptions, watch func(context.Context) error) error {
	waitOwner := trap.WaitParent
	if o.owner != 0 {
		waitOwner = func(ctx context.Context) error { return trap.WaitExit(ctx, o.owner) }
	}
	inner, cancel := context.WithCancelCause(ctx)
	var watches sync.WaitGroup
	end := func(cause error, wait func(context.Context) error) {
		watches.Go(func() {
			if wait(inner) == nil && inner.Err() == nil {
				cancel(cause)
			}
		})
	}
	end(errSuperseded, watch)
	end(errOwnerGone, waitOwner)
	if o.caller != 0 {
		end(errCallerGone, func(ctx context.Context) error { return trap.WaitExit(ctx, o.caller) })
	}
	err := sleep(inner, o.delay)
	cancel(nil)
	watches.Wait()
	if errors.Is(err, errOwnerGone) && o.caller != 0 && trap.WaitExit(inner, o.caller) == nil {
		// The caller waits for us as long as it lives, so it was killed: that
		// is to cancel. (With inner at its end WaitExit does not wait, but looks.)
		err = errCallerGone
	}
	if errors.Is(err, errOwnerGone) {
		a.debugf("the process that wanted this release later is gone: releasing now")
		return nil
	}
	return err
}

var (
	errOwnerGone  = errors.New("the owner process is gone")
	errCallerGone = errors.New("cancelled: the process that ran the release is gone")
)

// detachRelease leaves a late release to the proxy, which does it even if
// every client is dead by then, or to a keeper if it is of version 1.
func (a *app) detachRelease(ctx context.Context, handle lockfile.Handle, record lockfile.Record, delay time.Duration) error {
	if record.State != lockfile.StateHeld {
		return fmt.Errorf("handle %s holds no lease yet: a delayed release needs one", handle.Path())
	}
	ctx, cancel := releaseContext(ctx)
	defer cancel()
	client, err := a.dial(ctx, a.proxyOf(record))
	if err != nil {
		return err
	}
	request := a.releaseRequest(debts(record)[len(record.Owed)])
	leases := request.Leases
	for _, name := range request.Names {
		leases = append(leases, leaseapi.Lease{Name: name})
	}
	who := "the proxy"
	err = a.delayRelease(ctx, client, handle, leases, request.Owner, delay)
	if errors.Is(err, errors.ErrUnsupported) {
		who = "a process in the background"
		err = a.delayByKeeper(ctx, handle, record, 0, delay)
	}
	if err != nil {
		return err
	}
	a.notef("%s releases %s in %s", who, strings.Join(record.Names(), ", "), shortDuration(delay))
	return nil
}

// releaseNames gives leases back by their names, without a handle.
func (a *app) releaseNames(ctx context.Context, o *releaseOptions) error {
	list, err := sharedList(ctx, o.scope)
	if err != nil {
		return err
	}
	names := o.names
	if list != "" {
		if names, err = list.Read(); err != nil {
			return err
		}
	}
	if a.proxy.unset() {
		a.notef("no proxy is set (--proxy or $%s): dry run: it would release %s", proxyVariable, strings.Join(names, ", "))
		return nil
	}
	if len(names) == 0 {
		return a.printReleased(nil)
	}
	request := leaseapi.ReleaseRequest{Names: names, Owner: a.ownerName()}
	if o.delay > 0 && !o.detach {
		never := func(ctx context.Context) error { <-ctx.Done(); return ctx.Err() }
		if err := a.delayed(ctx, o, never); err != nil {
			return err
		}
	}
	ctx, cancel := releaseContext(ctx)
	defer cancel()
	client, err := a.dial(ctx, a.proxy.url)
	if err != nil {
		return err
	}
	if o.detach {
		request.Delay = leaseapi.Duration(o.delay)
	}
	reply, err := client.Release(ctx, request)
	if err != nil {
		err = fmt.Errorf("release %s: %w", strings.Join(names, ", "), err)
		if len(reply.Released) > 0 {
			err = errors.Join(a.printReleased(reply.Released), err)
		}
		return err
	}
	for _, lost := range reply.Stale {
		a.notef("%s is not released: %s", lost.Name, lost.Reason)
	}
	if list != "" && !o.detach {
		if err := list.Remove(ctx, names); err != nil {
			return err
		}
	}
	if o.detach {
		return nil
	}
	return a.printReleased(reply.Released)
}

func (a *app) printReleased(names []string) error {
	if a.output == "json" {
		return a.printJSON(struct {
			Released []string `json:"released"`
		}{emptyNotNull(names)})
	}
	return a.printLines(names)
}
