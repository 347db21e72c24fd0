package main

import (
	"context"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"github.com/leasectl/leasectl/leaseapi"
	"github.com/leasectl/leasectl/proxyclient"
)

func newRemoveCommand(a *app) *cobra.Command {
	var req leaseapi.RemoveRequest
	cmd := &cobra.Command{
		Use:   "remove REQUEST --reason REASON",
		Short: "take a waiter off the queue",
		Long: `Remove is for operators. The request that leasectl status lists among those that
wait leaves the queue. Its acquire ends with an error that says the reason, at
once, or when it asks again. A request that was granted stays: see leasectl
break. One of a version-1 client has no id, and cannot be removed.

If the proxy asks for tokens, it takes one that is marked admin.`,
		Example: `  leasectl remove 7Q2XKIJ5VYRNC3DA --reason "wrong account"`,
		Args:    oneArg("the id of a request", "7Q2XKIJ5VYRNC3DA"),
		RunE: func(cmd *cobra.Command, args []string) error {
			req.RequestID = args[0]
			return a.remove(cmd.Context(), req)
		},
	}
	addCaller(cmd.Flags(), &req.Caller)
	cmd.Flags().Var(reasonValue(&req.Reason), "reason", "what its user is told")
	require(cmd.Flags(), "reason")
	return cmd
}

// addCaller adds the flag that says whose request is meant.
func addCaller(flags *pflag.FlagSet, caller *string) {
	flags.StringVar(caller, "caller", "", "whose request it is, if several callers have one with this id: a name that status shows as the token")
}

func (a *app) remove(ctx context.Context, req leaseapi.RemoveRequest) error {
	if err := leaseapi.CheckRequestID(req.RequestID); err != nil {
		return usageError{err}
	}
	if req.Reason == "" {
		return usagef("no --reason: say why: who waits reads it")
	}
	return a.operate(ctx, "nothing is removed", func(ctx context.Context, client *proxyclient.Client) error {
		reply, err := client.Remove(ctx, req)
		if err != nil {
			return err
		}
		holder := ""
		if reply.Owner != "" {
			holder = " of " + reply.Owner
		}
		a.Notef("removed %s%s from the queue", req.RequestID, holder)
		return nil
	})
}
