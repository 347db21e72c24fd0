package main

import (
	"context"
	"errors"
	"io/fs"

	"github.com/spf13/cobra"

	"github.com/leasectl/leasectl/internal/holder"
	"github.com/leasectl/leasectl/internal/pool"
)

type resizeOptions struct {
	handle   string
	count    int // 0: not given
	items    *int
	optional bool
}

func newResizeCommand(a *app) *cobra.Command {
	o := new(resizeOptions)
	cmd := &cobra.Command{
		Use:   "resize --handle HANDLE (--items N | --count UNITS)",
		Short: "let a lease of a counted pool hold more or fewer units",
		Long: `Resize makes the lease of a handle hold as many units as --count says, or as
--items cost, and prints how many it holds. Fewer are given back at once. More are
tried once: if they are not free the exit code is 75, and the lease keeps what it
held. More than the pool has are wrong usage. A growth that waits does not exist:
two leases that hold and wait for each other would wait for ever.`,
		Example: `  leasectl resize --handle "$handle" --items 3000`,
		Args:    noArgsBut("handle"),
		RunE:    func(cmd *cobra.Command, _ []string) error { return a.resize(cmd.Context(), o, whyNoHandle(cmd)) },
	}
	flags := cmd.Flags()
	flags.Var(handleValue(&o.handle), "handle", "the handle that acquire printed")
	bindItems(flags, &o.items)
	flags.Var(intValue(&o.count, 0, 1, pool.MaxUnits), "count", "how many units the lease is to hold")
	bindWithoutLease(flags, &o.optional)
	require(flags, "handle")
	return cmd
}

// resize resizes the lease of a handle. If o.handle is empty and that is not a mistake, why is the
// reason.
func (a *app) resize(ctx context.Context, o *resizeOptions, why string) error {
	switch {
	case o.handle == "" && why == "":
		return noHandle("whose lease is to be resized")
	case (o.count > 0) == (o.items != nil):
		return usagef("want one of --items and --count: how large the lease is to be")
	case why != "":
		a.Notef("%s: nothing is resized", why)
		return nil
	}
	handle, err := holder.OpenHandle(o.handle)
	if err != nil {
		return err
	}
	switch record, err := handle.Read(); {
	case err == nil:
		a.holder.NoticeKeeper(handle, record)
	case !errors.Is(err, fs.ErrNotExist):
		return err
	default:
		return a.withoutLease(handle, o.optional, "nothing is resized")
	}
	size := holder.Size{Count: o.count, Items: o.items}
	units, err := a.holder.Resize(ctx, handle, size)
	if err != nil {
		return err
	}
	if a.output == "json" {
		return a.printJSON(struct {
			Handle string `json:"handle"`
			Units  int    `json:"units"`
		}{handle.Path(), units})
	}
	a.Notef("handle %s holds %d units", handle.Path(), units)
	return a.print("%d\n", units)
}
