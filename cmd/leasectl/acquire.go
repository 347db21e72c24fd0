package main

import (
	"context"
	"errors"
	"strings"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"github.com/leasectl/leasectl/lockfile"
)

func newAcquireCommand(a *app) *cobra.Command {
	o := new(takeOptions)
	cmd := &cobra.Command{
		Use:   "acquire --type TYPE",
		Short: "take a lease and print its handle",
		Long: `Acquire queues for a lease, writes its handle, and prints the handle's path
and nothing else. The lease lasts until it is released, or for the pool's
default TTL. With --owner-pid a process in the background renews it as long as
the owner process lives, and releases it when that ends, however it ends.`,
		Example: `  handle=$(leasectl acquire --proxy local --pool install=2 --type install)
  trap 'leasectl release --handle "$handle"' EXIT`,
		Args: cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error { return a.acquire(cmd.Context(), o, false) },
	}
	o.bind(cmd.Flags())
	o.bindOwner(cmd.Flags())
	cmd.Flags().BoolVar(&o.noNewline, "no-newline", false, "")
	cmd.Flags().Lookup("no-newline").Hidden = true // for client.sh, whose callers expect none
	return cmd
}

func newReacquireCommand(a *app) *cobra.Command {
	o := new(takeOptions)
	cmd := &cobra.Command{
		Use:   "reacquire --handle HANDLE",
		Short: "give a lease back and take a new one into the same handle",
		Long: `Reacquire cancels a pending release of the handle, gives its lease back and
queues for a new one, as one step: no other process sees a handle without
either. If the handle is gone it is an acquire.`,
		Example: `  leasectl reacquire --handle "$handle" --type install`,
		Args:    cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			if o.handle == "" {
				return usagef("no --handle: name the handle whose lease is to be replaced")
			}
			return a.acquire(cmd.Context(), o, true)
		},
	}
	o.bind(cmd.Flags())
	o.bindOwner(cmd.Flags())
	return cmd
}

// bindOwner binds the flag of a lease that a process in the background keeps.
func (o *takeOptions) bindOwner(flags *pflag.FlagSet) {
	bindOwnerPID(flags, &o.ownerPID, "keep the lease as long as this process lives, such as $$, and release it when it ends")
}

// completeOwner fills in what --owner-pid means for the rest.
func (o *takeOptions) completeOwner() error {
	o.outlives = true
	if o.ownerPID == 0 {
		return nil
	}
	if err := checkOwnerPID(o.ownerPID); err != nil {
		return err
	}
	if o.ttl == 0 {
		o.ttl = defaultExecTTL // somebody renews it, as with exec
	}
	return checkOwnerLives(o.ownerPID)
}

// acquire takes a lease for a script: it prints where the handle is.
func (a *app) acquire(ctx context.Context, o *takeOptions, replace bool) error {
	handle, err := a.newHandle(o.handle)
	if err != nil {
		return err
	}
	if replace {
		if err := a.inherit(o, handle); err != nil {
			return err
		}
	}
	if err := o.check(); err != nil {
		return err
	}
	if err := o.completeOwner(); err != nil {
		return err
	}
	if a.proxy.unset() {
		a.notef("no proxy is set (--proxy or $%s): dry run: no lease of type %q is taken", proxyVariable, o.typ)
		return a.printHandle(o, handle, nil)
	}
	var replaces func(lockfile.Record) bool
	if replace {
		replaces = anyRecord
	}
	h, err := a.take(ctx, o, handle, replaces)
	if err != nil {
		if !o.excuses(err) {
			return err
		}
		a.failf("no lease of type %q, going on without: %s", o.typ, describe(err))
		return a.printHandle(o, handle, nil)
	}
	if err := a.handOver(ctx, o, h); err != nil {
		return a.abandon(ctx, h, err)
	}
	a.journal.settle(h.record.RequestID)
	return nil
}

// handOver prints the handle, then makes the lease firm: a handle that could
// not be printed is one that nobody will release.
func (a *app) handOver(ctx context.Context, o *takeOptions, h *holding) error {
	if err := a.printHandle(o, h.handle, h.names()); err != nil {
		return err
	}
	failpoint("handle-printed")
	if err := a.makeFirm(ctx, o, h); err != nil {
		return err
	}
	failpoint("lease-firm")
	a.notef("acquired %s for %s", strings.Join(h.names(), ", "), h.record.Owner)
	return nil
}

// makeFirm confirms the lease, and sees to it that somebody renews it and gives
// it back late if that was asked for: the proxy where it can, else a keeper.
func (a *app) makeFirm(ctx context.Context, o *takeOptions, h *holding) error {
	if o.releaseAfter > 0 && h.grant.Version1 {
		return a.delayByKeeper(ctx, h.handle, h.record, o.ownerPID, o.releaseAfter)
	}
	if err := a.confirm(ctx, h, o.releaseAfter); err != nil {
		return err
	}
	if o.ownerPID == 0 {
		return nil
	}
	failpoint("keeper-unstarted")
	return a.startKeeper(ctx, h.handle, h.record.RequestID, o.ownerPID)
}

// inherit gives a reacquire the type, the count and the proxy of the handle
// that it replaces, unless flags say otherwise.
func (a *app) inherit(o *takeOptions, handle lockfile.Handle) error {
	record, err := handle.Read()
	if err != nil {
		return nil // gone, or broken: taking it anew says what is wrong
	}
	a.noticeKeeper(handle, record)
	if o.typ == "" {
		o.typ = record.Type
		o.count = max(record.Count, 1)
	}
	if !a.proxy.given && record.Proxy != "" {
		a.proxy.url = record.Proxy
	}
	return nil
}

// excuses tells whether --optional makes a failure to get a lease a reason to
// go on. What was typed wrong, or another process has decided, is none.
func (o *takeOptions) excuses(err error) bool {
	var sig signalError
	return o.optional && !errors.Is(err, errUsage) && !errors.Is(err, errHeld) &&
		!errors.Is(err, errSuperseded) && !errors.As(err, &sig)
}

func (a *app) printHandle(o *takeOptions, h lockfile.Handle, names []string) error {
	if a.output == "json" {
		return a.printJSON(struct {
			Handle string   `json:"handle"`
			Names  []string `json:"names"`
		}{h.Path(), emptyNotNull(names)})
	}
	if o.noNewline {
		return a.print("%s", h.Path())
	}
	return a.print("%s\n", h.Path())
}
