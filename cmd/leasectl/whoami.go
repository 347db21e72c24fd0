package main

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"strings"
	"text/tabwriter"
	"time"

	"github.com/spf13/cobra"

	"github.com/leasectl/leasectl/leaseapi"
	"github.com/leasectl/leasectl/proxyclient"
)

func newWhoamiCommand(a *app) *cobra.Command {
	return &cobra.Command{
		Use:   "whoami",
		Short: "show how the proxy knows this job, and what the job may do",
		Long: `Whoami shows the token to the proxy, and prints the name under which the proxy
knows its bearer, its role, the pools that it may use, who vouches for the name,
and until when. If the proxy does not let us in, it says why as far as it tells,
and exits 77.`,
		Example: `  leasectl whoami --token-from github
  leasectl whoami --output json`,
		Args: noArgs,
		RunE: func(cmd *cobra.Command, _ []string) error { return a.whoami(cmd.Context()) },
	}
}

func (a *app) whoami(ctx context.Context) error {
	return a.operate(ctx, "nobody is asked who this is", func(ctx context.Context, client *proxyclient.Client) error {
		who, err := client.Whoami(ctx)
		switch {
		case errors.Is(err, proxyclient.ErrRefused), errors.Is(err, proxyclient.ErrNoToken):
			return statusError{exitNotAdmitted, err}
		case err != nil:
			return err
		case a.output == "json":
			return a.printJSON(who)
		}
		return a.print("%s", whoamiText(who, time.Now()))
	})
}

// whoamiText formats who the caller is for people.
func whoamiText(who leaseapi.WhoamiReply, now time.Time) string {
	if who.Open {
		return "the proxy asks for no token: everybody who reaches it may do everything\n"
	}
	var text strings.Builder
	table := tabwriter.NewWriter(&text, 0, 0, 2, ' ', 0)
	row := func(what, value string) { fmt.Fprintf(table, "%s\t%s\n", what, value) }
	row("name", who.Name)
	row("role", who.Role)
	row("pools", cmp.Or(strings.Join(who.Pools, ", "), "all"))
	row("priority", fmt.Sprintf("up to %d", who.MaxPriority))
	if who.Overcommit {
		row("overcommit", "yes")
	}
	for _, most := range []struct {
		what string
		n    int
	}{{"leases", who.MaxLeases}, {"waiters", who.MaxWaiters}} {
		if most.n > 0 {
			row(most.what, fmt.Sprintf("%d at most", most.n))
		}
	}
	row("from", cmp.Or(who.Issuer, "a token of the proxy's file"))
	switch left := who.Until.Sub(now); {
	case who.Until.IsZero():
		row("until", "it is taken out of the file")
	case left <= 0:
		row("until", who.Until.Format(time.RFC3339))
	default:
		row("until", fmt.Sprintf("%s, for %s", who.Until.Format(time.RFC3339), age(leaseapi.Duration(left))))
	}
	table.Flush()
	return text.String()
}
