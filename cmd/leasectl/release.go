package main

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"math"
	"os"
	"slices"
	"strings"
	"time"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"github.com/leasectl/leasectl/internal/holder"
)

type releaseOptions struct {
	handle      string
	whyNoHandle string // why handle is empty, if that is not a mistake; else ""
	names       []string
	scope       string
	delay       time.Duration
	detach      bool
	all         bool
	ownerPID    int // when it ends, a delayed release is done at once; 0: our parent
	callerPID   int // when it ends, a delayed release is cancelled; 0: none
}

func newReleaseCommand(a *app) *cobra.Command {
	o := new(releaseOptions)
	cmd := &cobra.Command{
		Use:   "release (--handle HANDLE | --names A,B | --scope test | --all)",
		Short: "give leases back",
		Long: `Release gives leases back and prints their names. Releasing again does nothing, and
is no error. With --delay it says on stderr what it releases and when, and waits. If
it is killed meanwhile, the lease stays; if the shell that started it ends, it
releases at once. With --delay and --detach it returns at once, and the proxy
releases when the time has come, or a process in the background if the proxy is of
version 1.

A name means the lease of that name that this owner got before the command began, on
whichever machine. If the name is a later lease's by now, release says so and changes
nothing: an old name never ends a successor's lease. A proxy of version 1 knows no
owners: there that holds for the leases of this machine, and other names are released
whoever has them.

With --all it gives back all that an owner holds at the proxy, and withdraws what
it waits for: the owner of the CI system's variables, or the one of --owner.`,
		Example: `  leasectl release --handle "$handle" --delay 20m --detach`,
		Args:    noArgsBut("names"),
		RunE: func(cmd *cobra.Command, _ []string) error {
			o.ignoreVariables(cmd.Flags())
			o.whyNoHandle = whyNoHandle(cmd)
			if o.all {
				return a.releaseAll(cmd.Context(), o, cmd.Flags().Lookup("owner"))
			}
			return a.release(cmd.Context(), o)
		},
	}
	o.bind(cmd.Flags())
	return cmd
}

func (o *releaseOptions) bind(flags *pflag.FlagSet) {
	flags.Var(handleValue(&o.handle), "handle", "the handle that acquire printed")
	flags.Var(namesValue(&o.names), "names", "names of leases, separated by commas")
	flags.Var(choiceValue(&o.scope, "", "test"), "scope", "test: all names in $SHARED_DIR/leases")
	flags.BoolVar(&o.all, "all", false, "all that an owner holds and waits for at the proxy")
	flags.Var(durationValue(&o.delay, 0, 0, maxTime), "delay", "release after this time")
	flags.BoolVar(&o.detach, "detach", false, "with --delay: return at once, the release happens by itself")
	bindOwnerPID(flags, &o.ownerPID, "with --delay: release at once when this process is gone (default: the one that started leasectl)")
	flags.Var(intValue(&o.callerPID, 0, 1, math.MaxInt32), "caller-pid", "")
	// A shell function in the background runs in its own process, between the step's shell
	// and us. Killing this process cancels the release.
	flags.Lookup("caller-pid").Hidden = true
}

// ignoreVariables drops values of variables that are not meant for this release. A job sets
// LEASECTL_SCOPE and LEASECTL_OWNER_PID for its acquires, and LEASECTL_DELAY and LEASECTL_DETACH
// for its late releases. A release with --all is never late.
func (o *releaseOptions) ignoreVariables(flags *pflag.FlagSet) {
	if flags.Changed("handle") || len(o.names) > 0 || o.all {
		o.scope = ifTyped(flags.Lookup("scope"), o.scope)
	}
	o.ownerPID = ifTyped(flags.Lookup("owner-pid"), o.ownerPID)
	if o.all {
		o.delay = ifTyped(flags.Lookup("delay"), o.delay)
	}
	if o.delay == 0 {
		o.detach = ifTyped(flags.Lookup("detach"), o.detach)
	}
}

func (a *app) release(ctx context.Context, o *releaseOptions) error {
	given := 0
	for _, is := range []bool{o.handle != "" || o.whyNoHandle != "", len(o.names) > 0, o.scope != ""} {
		if is {
			given++
		}
	}
	if given != 1 {
		return usagef("want one of --handle, --names, --scope test and --all: what is to be released")
	}
	switch {
	case o.detach && o.delay == 0:
		return usagef("--detach goes with --delay: say when to release, such as --delay 20m")
	case o.ownerPID != 0 && (o.delay == 0 || o.detach):
		return usagef("--owner-pid goes with --delay, and not with --detach")
	}
	if err := checkOwnerPID(o.ownerPID); err != nil {
		return err
	}
	switch {
	case o.whyNoHandle != "":
		a.Notef("%s: nothing is released", o.whyNoHandle)
		return a.printReleased(nil)
	case o.handle != "":
		return a.releaseHandle(ctx, o)
	}
	return a.releaseNames(ctx, o)
}

// putOff returns the delay that the flags ask for.
func (o *releaseOptions) putOff() holder.Delay {
	return holder.Delay{Time: o.delay, OwnerPID: o.ownerPID, CallerPID: o.callerPID}
}

// releaseHandle gives back the leases of a handle, now or later.
func (a *app) releaseHandle(ctx context.Context, o *releaseOptions) error {
	handle, err := holder.OpenHandle(o.handle)
	if err != nil {
		return err
	}
	record, err := handle.Read()
	if errors.Is(err, fs.ErrNotExist) {
		if a.proxy.unset() {
			return a.releasesNothing("nothing is released")
		}
		a.Notef(noSuchHandle+": nothing to release", handle.Path())
		return a.printReleased(nil)
	}
	if err != nil {
		return err
	}
	proxy, err := a.holder.ProxyOf(record)
	if err != nil {
		return err
	}
	if proxy == "" {
		return a.releasesNothing("it would release %s", strings.Join(record.NamesInFile(), ", "))
	}
	a.holder.NoticeKeeper(handle, record)
	if o.detach {
		return a.printedNone(a.holder.ReleaseDetached(ctx, handle, record, o.delay))
	}
	released, err := a.holder.Release(ctx, handle, record, o.putOff())
	if err != nil {
		return err
	}
	return a.printReleased(released)
}

// releasesNothing is the dry run of a release.
func (a *app) releasesNothing(format string, args ...any) error {
	if err := a.dryRun(format, args...); err != nil {
		return err
	}
	return a.printReleased(nil)
}

// releaseNames gives leases back by their names, without a handle.
func (a *app) releaseNames(ctx context.Context, o *releaseOptions) error {
	named := a.holder.Named(o.names)
	if o.scope == "test" {
		list, err := sharedList()
		if err != nil {
			return err
		}
		if named, err = a.holder.Listed(ctx, list); err != nil {
			return err
		}
	}
	switch none := len(named.Names()) == 0; {
	case a.proxy.unset() && none:
		return a.releasesNothing("nothing is released")
	case a.proxy.unset():
		return a.releasesNothing("it would release %s", strings.Join(named.Names(), ", "))
	case none:
		return a.printReleased(nil)
	case o.detach:
		return a.printedNone(a.holder.ReleaseNamedDetached(ctx, named, o.delay))
	}
	released, err := a.holder.ReleaseNamed(ctx, named, o.putOff())
	if err == nil || len(released) > 0 {
		err = errors.Join(a.printReleased(released), err)
	}
	return err
}

// releaseAll gives back all leases of an owner, and withdraws all its waiting requests.
func (a *app) releaseAll(ctx context.Context, o *releaseOptions, owner *pflag.Flag) error {
	if o.handle != "" || o.whyNoHandle != "" || len(o.names) > 0 || o.scope != "" || o.delay > 0 || o.detach || o.ownerPID != 0 {
		return usagef("--all goes with none of --handle, --names, --scope, --delay, --detach and --owner-pid")
	}
	who := a.owner
	if !typed(owner) {
		if who != "" {
			return usagef("--all: LEASECTL_OWNER is %q: type the owner whose leases are all to be released, with --owner", who)
		}
		if who = ciOwner(os.Getenv); who == "" {
			return usagef("--all: no variables of a CI system say who holds the leases: type the owner with --owner")
		}
	}
	if who == "" {
		return usagef("--all: --owner is empty: name the owner whose leases are all to be released")
	}
	if a.proxy.unset() {
		return a.releasesNothing("it would release all that %s holds and waits for", who)
	}
	all, err := a.holder.ReleaseAll(ctx, who)
	if err != nil {
		return err
	}
	why := ""
	if len(all.Names)+all.Withdrawn == 0 {
		why = a.whyNothing(ctx, who)
	}
	if all.Lost {
		a.Notef("released all of %s: the answer to an earlier try was lost, and this one found %d leases and %d waiting requests%s", who, len(all.Names), all.Withdrawn, why)
	} else {
		a.Notef("released %d and withdrew %d waiting requests of %s%s", len(all.Names), all.Withdrawn, who, why)
	}
	return a.printReleased(all.Names)
}

// whyNothing says why nothing was released although the owner has leases or waiting requests: a
// token gives back only what was acquired with the same token. It returns "" if the owner has
// nothing, or if the proxy does not say.
func (a *app) whyNothing(ctx context.Context, owner string) string {
	all, err := a.askPools(ctx, a.proxy.url, "")
	if err != nil {
		a.Debugf("%v", err)
		return ""
	}
	var tokens []string
	for _, p := range all.Pools {
		for _, l := range p.Leases {
			if l.Owner == owner && l.Token != "" {
				tokens = append(tokens, l.Token)
			}
		}
		for _, w := range p.Waiters {
			if w.Owner == owner && w.Token != "" {
				tokens = append(tokens, w.Token)
			}
		}
	}
	if len(tokens) == 0 {
		return ""
	}
	slices.Sort(tokens)
	return fmt.Sprintf(": what %s has is of another token: %s", owner, strings.Join(slices.Compact(tokens), ", "))
}

// printedNone returns err, the error of a detached release. If it is nil, printedNone prints that
// nothing is released yet.
func (a *app) printedNone(err error) error {
	if err != nil {
		return err
	}
	return a.printReleased(nil)
}

// printReleased prints names on stdout. If there are none, it prints an empty list as JSON, and
// nothing as text.
func (a *app) printReleased(names []string) error {
	if a.output == "json" {
		return a.printJSON(struct {
			Released []string `json:"released"`
		}{emptyNotNull(names)})
	}
	return a.printLines(names)
}
