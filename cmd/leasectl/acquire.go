package main

import (
	"context"
	"errors"
	"strings"

	"github.com/spf13/cobra"

	"github.com/leasectl/leasectl/lockfile"
)

func newAcquireCommand(a *app) *cobra.Command {
	o := new(takeOptions)
	cmd := &cobra.Command{
		Use:   "acquire --type TYPE",
		Short: "take a lease and print its handle",
		Long: `Acquire queues for a lease, writes its handle, and prints the handle's path
and nothing else. The lease lasts until it is released, or for the pool's
default TTL.`,
		Example: `  handle=$(leasectl acquire --proxy local --pool install=2 --type install)
  trap 'leasectl release --handle "$handle"' EXIT`,
		Args: cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error { return a.acquire(cmd.Context(), o, false) },
	}
	o.bind(cmd.Flags())
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
	return cmd
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
	if a.proxy.unset() {
		a.notef("no proxy is set (--proxy or $%s): dry run: no lease of type %q is taken", proxyVariable, o.typ)
		return a.printHandle(handle, nil)
	}
	h, err := a.take(ctx, o, handle, replace)
	if err != nil {
		if !o.excuses(err) {
			return err
		}
		a.failf("no lease of type %q, going on without: %s", o.typ, describe(err))
		return a.printHandle(handle, nil)
	}
	defer h.close()
	if err := a.handOver(ctx, o, h); err != nil {
		return a.abandon(ctx, h, err)
	}
	return nil
}

// handOver prints the handle, then makes the lease firm: a handle that could
// not be printed is one that nobody will release.
func (a *app) handOver(ctx context.Context, o *takeOptions, h *holding) error {
	if err := a.printHandle(h.handle, h.names()); err != nil {
		return err
	}
	if err := a.confirm(ctx, h, o.releaseAfter); err != nil {
		return err
	}
	a.notef("acquired %s for %s", strings.Join(h.names(), ", "), h.record.Owner)
	return nil
}

// inherit gives a reacquire the type, the count and the proxy of the handle
// that it replaces, unless flags say otherwise.
func (a *app) inherit(o *takeOptions, handle lockfile.Handle) error {
	record, err := handle.Read()
	if err != nil {
		return nil // gone, or broken: taking it anew says what is wrong
	}
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

func (a *app) printHandle(h lockfile.Handle, names []string) error {
	if a.output == "json" {
		return a.printJSON(struct {
			Handle string   `json:"handle"`
			Names  []string `json:"names"`
		}{h.Path(), emptyNotNull(names)})
	}
	return a.print("%s\n", h.Path())
}
