package main

import (
	"context"
	"time"

	"github.com/spf13/cobra"

	"github.com/leasectl/leasectl/leaseapi"
	"github.com/leasectl/leasectl/proxyclient"
)

type breakOptions struct {
	reason string
	now    bool
}

func newBreakCommand(a *app) *cobra.Command {
	o := new(breakOptions)
	cmd := &cobra.Command{
		Use:   "break NAME --reason REASON",
		Short: "take a lease away from its holder",
		Long: `Break is for operators. The holder's renewals fail with the reason from now on,
which makes leasectl exec stop its command; the name is free when its holder
releases it, or when its TTL is over. With --now it is free at once, or after the
lock delay of its pool, whatever its holder still does.

An exec with --optional or --on-lost warn does not stop its command, which goes on
without the lease. With --on-lost term it stops it, also with --optional.

A holder that renews hears of it within 30 seconds, or a third of its TTL if that
is less. A lease that nobody renews, as of a plain acquire, ends with its TTL.

If the proxy asks for tokens, it takes one that is marked admin.`,
		Example: `  leasectl break install-0 --reason "the account is suspended"`,
		Args:    oneArg("the name of a lease", "install-0"),
		RunE:    func(cmd *cobra.Command, args []string) error { return a.breakLease(cmd.Context(), args[0], o) },
	}
	cmd.Flags().Var(reasonValue(&o.reason), "reason", "what the holder is told")
	cmd.Flags().BoolVar(&o.now, "now", false, "free the name at once, although its holder may still work under it")
	require(cmd.Flags(), "reason")
	return cmd
}

func (a *app) breakLease(ctx context.Context, name string, o *breakOptions) error {
	if o.reason == "" {
		return usagef("no --reason: say why: the holder reads it")
	}
	return a.operate(ctx, "nothing is broken", func(ctx context.Context, client *proxyclient.Client) error {
		reply, err := client.Break(ctx, name, o.reason, o.now)
		if err != nil {
			return howToGiveBack(err, name)
		}
		a.sayBroken(reply)
		return nil
	})
}

func (a *app) sayBroken(reply leaseapi.BreakReply) {
	l := reply.Lease
	holder := ""
	if l.Owner != "" {
		holder = " of " + l.Owner
	}
	when := " when it is released, or in " + inSeconds(l.ExpiresIn)
	switch {
	case reply.FreeIn > 0:
		when = " in " + inSeconds(reply.FreeIn) + ", after its pool's lock delay"
	case reply.Ended:
		when = ""
	}
	a.Notef("broke %s%s: it is free%s", l.Name, holder, when)
}

// inSeconds prints a duration, rounded to seconds.
func inSeconds(d leaseapi.Duration) string {
	return leaseapi.Duration(time.Duration(d).Round(time.Second)).String()
}
