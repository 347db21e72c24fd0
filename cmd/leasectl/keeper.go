package main

import (
	"context"

	"github.com/spf13/cobra"

	"github.com/leasectl/leasectl/internal/holder"
	"github.com/leasectl/leasectl/internal/holder/shared"
	"github.com/leasectl/leasectl/internal/process"
)

type keeperOptions struct {
	handle   string
	request  string
	ownerPID int
	service  shared.ServiceOf
}

func newKeeperCommand(a *app) *cobra.Command {
	o := new(keeperOptions)
	cmd := &cobra.Command{
		Use:    "keeper",
		Short:  "look after a lease or a service in the background; started by acquire, release and exec",
		Hidden: true,
		Args:   cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			err := a.keep(cmd.Context(), o)
			if err != nil {
				process.Ready(err) // does nothing after Ready(nil)
			}
			return err
		},
	}
	cmd.Flags().StringVar(&o.handle, "handle", "", "")
	cmd.Flags().StringVar(&o.request, "request", "", "")
	bindOwnerPID(cmd.Flags(), &o.ownerPID, "")
	cmd.Flags().StringVar(&o.service.Shared, "service-of", "", "")
	cmd.Flags().StringVar(&o.service.Round, "round", "", "")
	cmd.Flags().StringVar(&o.service.Dir, "dir", "", "")
	for _, name := range []string{"request", "owner-pid", "service-of", "round", "dir"} {
		cmd.Flags().Lookup(name).Hidden = true // hidden flags have no variable either
	}
	return cmd
}

// keep is the keeper of a handle's request, or of the service of a shared lease.
func (a *app) keep(ctx context.Context, o *keeperOptions) error {
	ready := func() { process.Ready(nil) }
	if o.service.Shared != "" {
		return shared.KeepService(ctx, a.holder, o.service, ready)
	}
	handle, err := holder.OpenHandle(o.handle)
	if err != nil {
		return err
	}
	return a.holder.Keep(ctx, handle, o.request, o.ownerPID, ready)
}
