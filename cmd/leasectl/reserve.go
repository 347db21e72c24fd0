package main

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/spf13/cobra"

	"github.com/leasectl/leasectl/leaseapi"
	"github.com/leasectl/leasectl/proxyclient"
)

// maxReserve is longer than any repair: a longer time is more likely a typing error.
const maxReserve = 366 * 24 * time.Hour

func newReserveCommand(a *app) *cobra.Command {
	var reason string
	var duration time.Duration
	cmd := &cobra.Command{
		Use:   "reserve NAME --reason REASON [--for D]",
		Short: "take a name out of its pool, such as an account to be repaired",
		Long: `Reserve is for operators. Nobody is granted the name from now on: it is yours at
once if it is free, else when its holder ends, ahead of all that wait. Nobody has to
renew it, and restarts of the proxy change nothing of it. The pool goes on with its
other names: this one counts as in use, but not against a limit below the capacity.
Those that want it are told who has it, and why; leasectl status lists it.

It ends with the time of --for, which begins now, or when its owner gives it back
with leasectl release --names, or an operator on the status page. Another operator
types its owner, with --owner. Reserving again changes the time and the reason.

If the proxy asks for tokens, it takes one that is marked admin.`,
		Example: `  leasectl reserve aws-3 --for 2h --reason "the disk is replaced"
  leasectl release --names aws-3`,
		Args: oneArg("a name that a pool lists", "aws-3"),
		RunE: func(cmd *cobra.Command, args []string) error {
			return a.reserve(cmd.Context(), args[0], duration, reason)
		},
	}
	cmd.Flags().Var(reasonValue(&reason), "reason", "what those who want the name are told")
	cmd.Flags().Var(durationValue(&duration, 0, time.Second, maxReserve), "for", "give it back after this time (default: when somebody gives it back)")
	require(cmd.Flags(), "reason")
	return cmd
}

func (a *app) reserve(ctx context.Context, name string, d time.Duration, reason string) error {
	if err := leaseapi.CheckName(name); err != nil {
		return usageError{err}
	}
	if reason == "" {
		return usagef("no --reason: say why: those who want the name read it")
	}
	return a.operate(ctx, "nothing is reserved", func(ctx context.Context, client *proxyclient.Client) error {
		owner := a.holder.Owner()
		reply, err := client.Reserve(ctx, leaseapi.ReserveRequest{Name: name, Owner: owner, For: leaseapi.Duration(d), Reason: reason})
		if err != nil {
			return howToGiveBack(err, name)
		}
		r := reply.Reservation
		when := "nobody is granted it"
		if r.HeldBy != "" {
			when = r.HeldBy + " holds it still, and nobody is granted it afterwards"
		}
		until := ""
		if r.EndsIn > 0 {
			until = ", for " + inSeconds(r.EndsIn)
		}
		a.Notef("reserved %s of %s%s: %s: give it back with leasectl release --names %s", r.Name, reply.Type, until, when, r.Name)
		if a.output == "json" {
			return a.printJSON(reply)
		}
		return nil
	})
}

// howToGiveBack adds to an error about a name that somebody has reserved how it is given back.
func howToGiveBack(err error, name string) error {
	if errors.Is(err, proxyclient.ErrReserved) {
		return fmt.Errorf("%w: its owner, or an operator who types --owner, gives it back with leasectl release --names %s", err, name)
	}
	return err
}
