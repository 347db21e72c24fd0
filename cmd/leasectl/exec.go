package main

import (
	"context"
	"errors"
	"os"
	"syscall"
	"time"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"github.com/leasectl/leasectl/internal/holder"
	"github.com/leasectl/leasectl/internal/supervisor"
	"github.com/leasectl/leasectl/leaseapi"
	"github.com/leasectl/leasectl/proxyclient"
)

type execOptions struct {
	take             takeOptions
	shared           sharedOptions
	attempts         int
	retryOn          []int
	onLost           string
	grace            time.Duration
	parentDeath      syscall.Signal
	conflictExitCode int
	anyTTL           bool // --ttl was not given
	witness          supervisor.Witness
}

func newExecCommand(a *app) *cobra.Command {
	o := new(execOptions)
	cmd := &cobra.Command{
		Use:   "exec --type TYPE [flags] -- COMMAND [ARG…]",
		Short: "run a command while holding a lease",
		Long: `Exec takes a lease, runs the command, renews the lease as long as the command
runs, and gives it back however the command ends. If no lease is free, it queues
for an hour, or for --wait-timeout. Its exit code is the command's, or 128+n if
signal n ended it; 75 if it got no lease in time; 76 if the lease was lost and the
command was stopped.`,
		Example: `  leasectl exec --type install -- ./install.sh
  leasectl exec --type install --optional --release-after 20m --attempts 5 --retry-on 4 -- openshift-install create cluster`,
		Args: func(_ *cobra.Command, args []string) error {
			if len(args) == 0 {
				return usagef("no command: put it after --, such as leasectl exec --type T -- make test")
			}
			return nil
		},
		RunE: func(cmd *cobra.Command, args []string) error {
			if flags := cmd.Flags(); typed(flags.Lookup("retry-on")) && !flags.Changed("attempts") {
				return usagef("--retry-on goes with --attempts: say how often to run the command at most, such as --attempts 5")
			}
			if err := o.shared.check(cmd.Flags()); err != nil {
				return err
			}
			o.ignoreVariables(cmd.Flags())
			o.take.owner = ifTyped(cmd.Flags().Lookup("owner"), a.owner)
			return a.exec(cmd.Context(), o, args)
		},
	}
	cmd.Flags().SetInterspersed(false)
	o.bind(cmd.Flags())
	require(cmd.Flags(), "type")
	return cmd
}

func (o *execOptions) bind(flags *pflag.FlagSet) {
	o.take.bind(flags)
	o.take.bindOvercommit(flags)
	flags.Lookup("ttl").Usage = "how long the lease lasts after its last renewal (default: 5m, or longer if --grace-period is long)"
	flags.Lookup("release-after").Usage = "release the lease this long after it was acquired, while the command goes on"
	flags.Var(intValue(&o.attempts, 1, 1, 1000), "attempts", "how often to run the command, as long as its exit code is one of --retry-on")
	flags.Var(codesValue(&o.retryOn), "retry-on", "exit codes of the command after which the lease is taken anew and the command run again")
	flags.Var(choiceValue(&o.onLost, "", "term", "warn"), "on-lost", "what to do when the lease is lost: term stops the command, warn says so (default: term, with --optional warn)")
	flags.Var(durationValue(&o.grace, 10*time.Second, 0, time.Hour), "grace-period", "time from TERM to KILL")
	flags.Var(signalValue(&o.parentDeath, syscall.SIGTERM), "parent-death", "signal that the command gets if leasectl is killed (Linux)")
	flags.Var(intValue(&o.conflictExitCode, exitNoLease, 0, 255), "conflict-exit-code", "exit code when no lease was to be had in time")
	o.shared.bind(flags)
	o.take.bindCoalesce(flags)
	flags.Var(one(anyValue(&o.witness.Log), "one log: let the command write to one file"), "in-log", "a log of the command to look for --throttled-match in; it may not be there yet")
	flags.Var(one(regexpValue(&o.witness.Throttled), "one expression: write A|B for either"), "throttled-match", "a line of --in-log that matches says that the account throttles the command; none says ok")
	flags.Var(codesValue(&o.witness.ThrottledOn), "throttled-on", "exit codes of the command that say that the account throttled it; others say ok")
}

// ignoreVariables drops values of variables that a job sets for leases of its own, if the lease is
// shared.
func (o *execOptions) ignoreVariables(flags *pflag.FlagSet) {
	if o.shared.name == "" {
		return
	}
	o.take.scope = ifTyped(flags.Lookup("scope"), o.take.scope)
	o.take.releaseAfter = ifTyped(flags.Lookup("release-after"), o.take.releaseAfter)
	o.attempts = max(1, ifTyped(flags.Lookup("attempts"), o.attempts))
}

// complete sets defaults that depend on other flags, and refuses flags that do not fit together.
func (o *execOptions) complete() error {
	if err := o.take.check(); err != nil {
		return err
	}
	if err := o.take.checkCoalesce(o.attempts); err != nil {
		return err
	}
	if err := checkVariables(o.take.Type, o.take.Also); err != nil {
		return err
	}
	if o.onLost == "" {
		o.onLost = "term"
		if o.take.optional {
			o.onLost = "warn"
		}
	}
	if o.anyTTL = o.take.ttl == 0; o.anyTTL {
		// Shorter than a pool's default, since exec renews the lease. If everybody who could
		// release the lease is killed, it stays taken for this long.
		o.take.ttl = max(defaultExecTTL, 3*(o.grace+supervisor.StopMargin))
	}
	if needed := o.grace + supervisor.StopMargin; o.onLost == "term" && o.take.ttl*2/3 <= needed {
		return usagef("--ttl %s: too short for --grace-period %s: a lost lease must leave time to stop the command: want a TTL of more than %s",
			leaseapi.Duration(o.take.ttl), leaseapi.Duration(o.grace), leaseapi.Duration(needed*3/2))
	}
	if (o.witness.Log == "") != (o.witness.Throttled == nil) {
		return usagef("--in-log goes with --throttled-match: say in which file to look, and for what")
	}
	if err := o.witness.Check(); err != nil {
		return usagef("--in-log %q: %w", leaseapi.Shorten(o.witness.Log), err)
	}
	if len(o.retryOn) == 0 && o.attempts > 1 {
		return usagef("--attempts %d goes with --retry-on: say which exit codes are worth another attempt, such as --retry-on 4", o.attempts)
	}
	return nil
}

// checkVariables refuses types whose names would stand in one variable of the command.
func checkVariables(first string, also []leaseapi.Also) error {
	types := map[string]string{supervisor.NamesVariable(first): first} // by variable
	for _, a := range also {
		name := supervisor.NamesVariable(a.Type)
		if other, taken := types[name]; taken {
			return usagef("types %q and %q share the variable %s: take them with acquire, or give one of the pools another type", other, a.Type, name)
		}
		types[name] = a.Type
	}
	return nil
}

// exec runs the command args, with all attempts.
func (a *app) exec(ctx context.Context, o *execOptions, args []string) error {
	if err := o.complete(); err != nil {
		return err
	}
	handle, err := a.holder.NewHandle(o.take.handle)
	if err != nil {
		return execError{err}
	}
	var request holder.Request
	if a.proxy.unset() {
		if err := a.dryRun("%s runs without a lease", args[0]); err != nil {
			return execError{err}
		}
		if a.quiet { // which must not hide that nothing is locked
			a.Failf(noProxy+": %s runs without a lease", args[0])
		}
	} else if request, err = o.take.request(handle); err != nil {
		return execError{err}
	}
	share := o.shared.request(o.anyTTL)
	if share != nil {
		if share.Service, err = o.shared.service.request(o.grace); err != nil {
			return execError{err}
		}
	}
	if request.Coalesce != "" && request.Variant == "" {
		request.Variant = variantOf(args)
	}
	end, err := supervisor.Run(ctx, a.holder, supervisor.Options{
		Args:         args,
		Environment:  os.Environ(),
		Stdin:        a.stdin,
		Stdout:       a.stdout,
		Stderr:       a.stderr,
		ParentDeath:  o.parentDeath,
		Request:      request,
		Shared:       share,
		ReleaseAfter: o.take.releaseAfter,
		Witness:      o.witness,
		DryRun:       a.proxy.unset(),
		Optional:     o.take.optional,
		Attempts:     o.attempts,
		RetryOn:      o.retryOn,
		GracePeriod:  o.grace,
		WarnOnLost:   o.onLost == "warn",
		Signals:      a.chain,
		Report:       a,
	})
	if joined, ok := errors.AsType[*proxyclient.CoalescedError](err); ok {
		a.Notef("%v: %s is not run again", joined, args[0])
		return statusError{code: joined.ExitCode}
	}
	if err != nil {
		return o.failure(signalled(ctx, err))
	}
	return ending(end)
}

// ending returns the error with which leasectl ends after the run; nil for exit code 0.
func ending(end supervisor.End) error {
	status := end.Status
	switch {
	case end.Lost:
		return statusError{code: exitLost}
	case status.Terminal && isKey(status.Signal) && (end.Stopped == 0 || end.Stopped == status.Signal):
		return dieOf{sig: status.Signal, group: status.Alone}
	case end.Stopped != 0:
		return statusError{code: 128 + int(end.Stopped)}
	case status.ExitCode() != 0:
		return statusError{code: status.ExitCode()}
	}
	return nil
}

// failure gives "no lease in time" the code of --conflict-exit-code. Other failures without a
// code of their own get exitExecFailure.
func (o *execOptions) failure(err error) error {
	if errors.Is(err, proxyclient.ErrExhausted) {
		return statusError{code: o.conflictExitCode, err: err}
	}
	return execError{err}
}

// execError is a failure of exec itself. Its code is exitExecFailure, unless err matches a row
// above errExec in exitTable.
type execError struct{ err error }

func (e execError) Error() string        { return e.err.Error() }
func (e execError) Unwrap() error        { return e.err }
func (e execError) Is(target error) bool { return target == errExec }
