package main

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"

	"github.com/spf13/cobra"

	"github.com/leasectl/leasectl/internal/holder"
	"github.com/leasectl/leasectl/leaseapi"
)

type reportOptions struct {
	handle string
	detail string
}

func newReportCommand(a *app) *cobra.Command {
	o := new(reportOptions)
	cmd := &cobra.Command{
		Use:   "report (throttled | ok) [--handle HANDLE]",
		Short: "tell the proxy whether the account throttled the work of a lease",
		Long: `Report tells the proxy whether the cloud account throttled the work that a lease
is for. Every pool counts the reports; a pool with adapt also lowers and raises
its limit by them. Report throttled as soon as you see it; an ok counts when the
lease ends. Of several reports for one lease the first counts, but throttled
replaces ok. A lease can be reported for until two hours after its end.

Without --handle, report is for the lease of the leasectl exec that it runs under.
If there is no such lease, as in a dry run, report says so and exits with 0.`,
		Example:   `  grep -q RequestLimitExceeded install.log && leasectl report throttled`,
		ValidArgs: []string{leaseapi.OutcomeThrottled, leaseapi.OutcomeOK},
		Args: func(_ *cobra.Command, args []string) error {
			if len(args) != 1 {
				return usagef("want one argument: %s or %s", leaseapi.OutcomeThrottled, leaseapi.OutcomeOK)
			}
			if err := leaseapi.CheckOutcome(args[0]); err != nil {
				return usageError{err}
			}
			return nil
		},
		RunE: func(cmd *cobra.Command, args []string) error {
			return a.report(cmd.Context(), o, holder.Outcome{Word: args[0], Detail: o.detail})
		},
	}
	flags := cmd.Flags()
	flags.Var(handleValue(&o.handle), "handle", "the handle that acquire printed (default: $LEASECTL_HANDLE)")
	flags.StringVar(&o.detail, "detail", "", "what the account said; operators read it in the log")
	return cmd
}

func (a *app) report(ctx context.Context, o *reportOptions, outcome holder.Outcome) error {
	record, why, err := a.reported(cmp.Or(o.handle, os.Getenv("LEASECTL_HANDLE")), o.handle == "")
	switch {
	case err != nil:
		return err
	case why != "":
		a.Notef("%s: nothing is reported", why)
		return nil
	}
	counts, err := a.holder.Report(ctx, record, outcome)
	if err != nil {
		return err
	}
	if counts {
		a.Notef("reported %s", outcome.Word)
	} else {
		a.Notef("the proxy was told before, and counts that")
	}
	return nil
}

// reported returns the record of the lease to report for, or why there is none. If exec's lease
// has ended before its command, the handle is gone and $LEASECTL_REQUEST_ID identifies the lease.
func (a *app) reported(path string, ofExec bool) (r holder.Record, why string, err error) {
	if path == "" {
		return r, cmp.Or(whyNoLease(), "there is no --handle, and no $LEASECTL_HANDLE of a leasectl exec"), nil
	}
	handle, err := holder.OpenHandle(path)
	if err != nil {
		return r, "", err
	}
	r, err = handle.Read()
	missing := errors.Is(err, fs.ErrNotExist)
	if missing {
		err = nil
		if ofExec {
			r.RequestID = os.Getenv("LEASECTL_REQUEST_ID")
		}
	}
	proxy := ""
	if err == nil {
		proxy, err = a.holder.ProxyOf(r)
	}
	switch {
	case err != nil:
	case proxy == "" && a.proxy.required:
		err = a.dryRun("nothing is reported")
	case proxy == "":
		why = noProxy
	case r.RequestID == "" && missing:
		why = fmt.Sprintf(noSuchHandle, handle.Path())
	case r.RequestID == "":
		why = "handle " + handle.Path() + " does not say which lease it is for"
	}
	return r, why, err
}
