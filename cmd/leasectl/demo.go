package main

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/spf13/cobra"

	"github.com/leasectl/leasectl/cmd/leasectl/demo"
)

type demoOptions struct {
	speed int
	// The demo starts this program again with one of these.
	work     time.Duration // be the command of a job, which takes so long at least
	failOnce string        // fail, unless this file is there already
	sweep    string        // remove this directory when nobody holds standard input open
}

func newDemoCommand(a *app) *cobra.Command {
	o := new(demoOptions)
	cmd := &cobra.Command{
		Use:   "demo",
		Short: "see it work: a proxy and some jobs, for a minute",
		Long: `Demo starts a lease proxy on a free port of this machine, with three pools, and
real jobs that need leases: some wait, one fails and tries again, one is killed,
one goes on without a lease. It says what happens, and prints the address of the
status page, to be opened in a browser meanwhile. It ends by itself after a
minute, or on Ctrl-C, and leaves nothing behind: no process, no file, no lease.

It needs no other program, no network and no terminal.`,
		Example: `  leasectl demo
  leasectl demo --speed 8`,
		Args: noArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			ctx := cmd.Context()
			switch {
			case o.sweep != "":
				if !demo.MayBe(o.sweep) {
					return usagef("--sweep is for leasectl demo")
				}
				return demo.Sweep(a.stdin, o.sweep)
			case cmd.Flags().Changed("work"):
				if code := demo.Work(ctx, a.stdin, o.work, o.failOnce); code != 0 {
					return statusError{code: code}
				}
				return nil
			}
			useAllProcessors()
			err := demo.Run(ctx, demo.Options{Speed: o.speed, TTL: minTTL, Version: version(), Print: a.print, Stderr: a.stderr})
			if sig, ok := errors.AsType[signalError](context.Cause(ctx)); ok {
				left := "Nothing is left of the demo."
				if e, ok := errors.AsType[demo.LeftError](err); ok {
					left = "But " + e.Error() + "."
				}
				a.print("\nEnded early. %s\n", left) // if somebody still reads it
				if isKeyHere(sig.Signal) {
					return dieOf{sig: sig.Signal}
				}
				return statusError{code: 128 + int(sig.Signal)}
			}
			if err != nil {
				return fmt.Errorf("demo: %w", err)
			}
			return nil
		},
	}
	flags := cmd.Flags()
	flags.Var(intValue(&o.speed, 1, 1, 8), "speed", "how many times as fast: 8 is for tests, and too fast to follow")
	flags.Var(durationValue(&o.work, 0, 0, time.Hour), "work", "")
	flags.StringVar(&o.failOnce, "fail-once", "", "")
	flags.StringVar(&o.sweep, "sweep", "", "")
	for _, name := range []string{"work", "fail-once", "sweep"} {
		flags.Lookup(name).Hidden = true
	}
	return cmd
}
