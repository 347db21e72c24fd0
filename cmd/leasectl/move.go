package main

import (
	"context"
	"fmt"

	"github.com/spf13/cobra"

	"github.com/leasectl/leasectl/leaseapi"
	"github.com/leasectl/leasectl/proxyclient"
)

func newMoveCommand(a *app) *cobra.Command {
	var req leaseapi.MoveRequest
	cmd := &cobra.Command{
		Use:   "move REQUEST --priority N --reason REASON",
		Short: "give a waiter another priority",
		Long: `Move is for operators. The request that leasectl status lists among those that
wait gets another priority, -100 to 100, as if it had asked for that: a step is
worth 10 minutes of waiting, unless the proxy sets another time. It counts at
once, and after restarts of the proxy. The proxy's log has the reason.

If the proxy asks for tokens, it takes one that is marked admin.`,
		Example: `  leasectl move 7Q2XKIJ5VYRNC3DA --priority 20 --reason "the release waits for it"`,
		Args:    oneArg("the id of a request", "7Q2XKIJ5VYRNC3DA"),
		RunE: func(cmd *cobra.Command, args []string) error {
			if !cmd.Flags().Changed("priority") {
				return usagef("no --priority: say which the request has from now on, such as --priority 20")
			}
			req.RequestID = args[0]
			return a.move(cmd.Context(), req)
		},
	}
	cmd.Flags().Var(intValue(&req.Priority, 0, -leaseapi.MaxPriority, leaseapi.MaxPriority), "priority", "the priority from now on")
	addCaller(cmd.Flags(), &req.Caller)
	cmd.Flags().Var(reasonValue(&req.Reason), "reason", "for the proxy's log")
	require(cmd.Flags(), "priority", "reason")
	return cmd
}

func (a *app) move(ctx context.Context, req leaseapi.MoveRequest) error {
	if err := leaseapi.CheckRequestID(req.RequestID); err != nil {
		return usageError{err}
	}
	if req.Reason == "" {
		return usagef("no --reason: say why: others will ask")
	}
	return a.operate(ctx, "nothing is moved", func(ctx context.Context, client *proxyclient.Client) error {
		reply, err := client.Move(ctx, req)
		if err != nil {
			return err
		}
		holder, place := "", "it waits no longer"
		if reply.Owner != "" {
			holder = " of " + reply.Owner
		}
		if reply.Place > 0 {
			place = fmt.Sprintf("place %d of %d", reply.Place, reply.Length)
		}
		a.Notef("moved %s%s from priority %d to %d: %s", req.RequestID, holder, reply.Before, reply.Priority, place)
		return nil
	})
}
