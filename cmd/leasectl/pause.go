package main

import (
	"context"

	"github.com/spf13/cobra"

	"github.com/leasectl/leasectl/proxyclient"
)

func newPauseCommand(a *app) *cobra.Command {
	var reason string
	cmd := &cobra.Command{
		Use:   "pause TYPE --reason REASON",
		Short: "stop a pool: it grants nothing until it is resumed",
		Long: `Pause is for operators. The pool grants nothing from now on, except to
--overcommit, restarts of the proxy included; whoever waits for it is told the
reason, and keeps its place. Leases that are held stay held, are renewed and
released. Pausing again changes the reason.

If the proxy asks for tokens, it takes one that is marked admin.`,
		Example: `  leasectl pause install --reason "the account is throttled"`,
		Args:    oneArg("the type of a pool", "install"),
		RunE: func(cmd *cobra.Command, args []string) error {
			return a.pause(cmd.Context(), args[0], reason)
		},
	}
	cmd.Flags().Var(reasonValue(&reason), "reason", "what those who wait are told")
	require(cmd.Flags(), "reason")
	return cmd
}

func newResumeCommand(a *app) *cobra.Command {
	return &cobra.Command{
		Use:   "resume TYPE",
		Short: "let a paused pool grant again",
		Long: `Resume ends a pause: what is free goes to those who wait, in their order and at
the pool's pace. A pool that is not paused stays as it is.

If the proxy asks for tokens, it takes one that is marked admin.`,
		Example: `  leasectl resume install`,
		Args:    oneArg("the type of a pool", "install"),
		RunE:    func(cmd *cobra.Command, args []string) error { return a.resume(cmd.Context(), args[0]) },
	}
}

func (a *app) pause(ctx context.Context, typ, reason string) error {
	if reason == "" {
		return usagef("no --reason: say why: those who wait read it")
	}
	return a.operate(ctx, "nothing is paused", func(ctx context.Context, client *proxyclient.Client) error {
		if _, err := client.Pause(ctx, typ, reason); err != nil {
			return err
		}
		a.Notef("paused %s: it grants nothing until leasectl resume %s", typ, typ)
		return nil
	})
}

func (a *app) resume(ctx context.Context, typ string) error {
	return a.operate(ctx, "nothing is resumed", func(ctx context.Context, client *proxyclient.Client) error {
		reply, err := client.Resume(ctx, typ)
		switch {
		case err != nil:
			return err
		case reply.Since.IsZero():
			a.Notef("%s was not paused", typ)
		default:
			a.Notef("resumed %s: it was paused for %s (%s)", typ, age(reply.For), reply.Reason)
		}
		return nil
	})
}
