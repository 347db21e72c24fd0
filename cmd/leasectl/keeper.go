package main

import (
	"github.com/spf13/cobra"

	"github.com/leasectl/leasectl/holder"
	"github.com/leasectl/leasectl/trap/process"
)

type keeperOptions struct {
	handle   string
	request  string
	ownerPID int
}

func newKeeperCommand(a *app) *cobra.Command {
	o := new(keeperOptions)
	cmd := &cobra.Command{
		Use:    "keeper",
		Short:  "look after a lease in the background; started by acquire and release",
		Hidden: true,
		Args:   cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			handle, err := holder.OpenHandle(o.handle)
			if err == nil {
				err = a.holder.Keep(cmd.Context(), handle, o.request, o.ownerPID, func() { process.Ready(nil) })
			}
			if err != nil {
				process.Ready(err) // does nothing after Ready(nil)
			}
			return err
		},
	}
	cmd.Flags().StringVar(&o.handle, "handle", "", "")
	cmd.Flags().StringVar(&o.request, "request", "", "")
	bindOwnerPID(cmd.Flags(), &o.ownerPID, "")
	for _, name := range []string{"request", "owner-pid"} {
		cmd.Flags().Lookup(name).Hidden = true // hidden flags have no variable either
	}
	return cmd
}
