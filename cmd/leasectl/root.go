package main

import (
	"context"
	"errors"
	"os"
	"slices"
	"strings"
	"syscall"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"github.com/leasectl/leasectl/internal/holder"
	"github.com/leasectl/leasectl/trap"
)

// run is the whole program. It returns the exit status instead of exiting, so that every
// deferred clean-up runs.
func run(args []string, stdin, stdout, stderr *os.File) int {
	a := newApp(stdin, stdout, stderr)
	defer a.close()
	a.chain.Listen(endings...)

	ctx, cancel := context.WithCancelCause(context.Background())
	defer cancel(nil)
	a.ended = ctx
	a.cancelOnEnding(cancel)

	cmd, err := a.execute(ctx, args)
	status := exitStatus(err)
	if cmd.Name() == "serve" && asksForJSONLog(args) {
		err = logFailure(a.openLog("json"), "json", err)
	}
	if err != nil && err.Error() != "" {
		a.Failf("%s", holder.Describe(err))
	}
	if err := a.chain.Exit(status); err != nil {
		a.Failf("%v", err)
	}
	if d, ok := deathOf(err); ok {
		a.die(d)
	}
	return status
}

// cancelOnEnding makes each of the endings cancel the context of the command, with a signalError as
// its cause.
//
// SIGPIPE is not among the endings: the failed write returns an error, and its caller handles that.
// If nobody read the printed handle, acquire gives the lease back.
func (a *app) cancelOnEnding(cancel context.CancelCauseFunc) {
	a.chain.OnSignal(func(e trap.Event) error {
		if sig := e.Signal.(syscall.Signal); slices.Contains(endings, e.Signal) && !(sig == syscall.SIGHUP && a.staysOnHangup.Load()) {
			cancel(signalError{sig})
		}
		return nil
	})
}

// execute runs the command that args ask for, and returns it with the error to print.
func (a *app) execute(ctx context.Context, args []string) (cmd *cobra.Command, err error) {
	root := newRootCommand(a, args...)
	help := &helpOutput{app: a}
	root.SetOut(help)
	root.SetErr(a.stderr)
	if len(args) > 0 && strings.HasPrefix(args[0], cobra.ShellCompRequestCmd) {
		completeValues(root, a)
	}
	if len(args) > 1 && (args[0] == "help" || args[0] == "completion") {
		refuseUnknown(root, args...)
	}
	root.SetArgs(args)
	cmd, err = root.ExecuteContextC(ctx)
	err = namingVariables(cmd.Flags(), signalled(ctx, err))
	if err == nil {
		err = help.failed
	}
	if err != nil && !errors.As(err, new(usageError)) && isCobraUsage(err) {
		err = usageError{mistyped(err)}
	}
	return cmd, err
}

// die ends the program by a signal, after the messages are written.
func (a *app) die(d dieOf) {
	a.close()
	if d.group {
		// A script that waits for us ends only if it gets the key's signal itself. Send the
		// signal after the lease is given back: a program that gets it may kill us.
		syscall.Kill(0, d.sig)
	}
	trap.Die(d.sig)
}

// endings are the signals that ask the program to end. Only exec handles other signals; in
// other commands they are left to the runtime. The handler for SIGQUIT is installed first: the
// runtime's own dumps all goroutines and exits with code 2.
var endings = []os.Signal{syscall.SIGQUIT, syscall.SIGTERM, syscall.SIGINT, syscall.SIGHUP}

// isCobraUsage tells whether cobra itself made an error. Such errors have no type of their own,
// and all are about what was typed.
func isCobraUsage(err error) bool {
	for _, prefix := range []string{"unknown command", "unknown flag", "unknown shorthand flag", "required flag", "accepts ", "requires ", "invalid argument"} {
		if strings.HasPrefix(err.Error(), prefix) {
			return true
		}
	}
	return false
}

// commands returns the constructors of all commands, by name.
func commands() map[string]func(*app) *cobra.Command {
	return map[string]func(*app) *cobra.Command{
		"acquire":    newAcquireCommand,
		"release":    newReleaseCommand,
		"reacquire":  newReacquireCommand,
		"renew":      newRenewCommand,
		"report":     newReportCommand,
		"exec":       newExecCommand,
		"keeper":     newKeeperCommand,
		"recover":    newRecoverCommand,
		"cat":        newCatCommand,
		"status":     newStatusCommand,
		"break":      newBreakCommand,
		"remove":     newRemoveCommand,
		"move":       newMoveCommand,
		"pause":      newPauseCommand,
		"resume":     newResumeCommand,
		"reserve":    newReserveCommand,
		"backup":     newBackupCommand,
		"whoami":     newWhoamiCommand,
		"serve":      newServeCommand,
		"shell":      newShellCommand,
		"init":       newInitCommand,
		"demo":       newDemoCommand,
		"install-to": newInstallToCommand,
		"version":    newVersionCommand,
		"resize":     newResizeCommand,
	}
}

// newRootCommand builds the command tree for args. If args begin with the name of a command,
// only this command is built: building all would make a short command noticeably slower.
func newRootCommand(a *app, args ...string) *cobra.Command {
	var asked bool // --version was given
	root := &cobra.Command{
		Use:   "leasectl",
		Short: "take, hold and give back leases of a shared account in CI steps",
		Long: `leasectl limits how many CI jobs do the same thing at once. A job takes a lease
from a pool of the lease proxy, works, and gives the lease back. If no lease is
free, the job waits for its turn. leasectl exec does all of that around a command.`,
		Example: `  # Try it: a proxy on this machine, and a pool of two leases.
  leasectl exec --proxy local --pool install=2 --type install -- ./install.sh
  leasectl status --proxy local

  # In a job: where the proxy is, and the command that needs a lease.
  export LEASE_PROXY_SERVER_URL=https://leases.example:8370
  leasectl exec --type install -- ./install.sh`,

		SilenceUsage:      true,
		SilenceErrors:     true,
		PersistentPreRunE: func(cmd *cobra.Command, _ []string) error { return a.prepare(cmd) },
		RunE: func(cmd *cobra.Command, _ []string) error {
			if asked {
				return a.printVersion()
			}
			return cmd.Help()
		},
	}
	// Args is not set, so that cobra reports a mistyped command before it looks at the flags.
	root.SetFlagErrorFunc(flagError)
	root.SetUsageFunc(printUsage)
	root.Flags().BoolVarP(&asked, "version", "v", false, "print the version")
	a.bind(root.PersistentFlags())

	all := commands()
	if len(args) > 0 && all[args[0]] != nil {
		root.AddCommand(all[args[0]](a))
		// Cobra would make the completion command each time, with a text for each shell.
		root.CompletionOptions.DisableDefaultCmd = true
		return root
	}
	for _, build := range all {
		root.AddCommand(build(a))
	}
	root.AddCommand(newTopics()...)
	root.CompletionOptions.HiddenDefaultCmd = false
	return root
}

// bind binds the flags that every command has.
func (a *app) bind(flags *pflag.FlagSet) {
	a.proxy.bind(flags)
	flags.Var(ownerValue(&a.owner), "owner", "who holds the lease; the same for every process of a job (default: from the CI system's variables, else user@host)")
	flags.Var(choiceValue(&a.output, "text", "text", "json"), "output", "how data is printed: text or json")
	flags.BoolVar(&a.quiet, "quiet", false, "print errors only")
	flags.BoolVar(&a.verbose, "verbose", false, "print each step")
}

// prepare makes ready what a command needs, once its flags are parsed: the flags that variables set, and
// the holder.
func (a *app) prepare(cmd *cobra.Command) error {
	a.proxy.given = cmd.Flags().Changed("proxy")
	a.proxy.poolsGiven = cmd.Flags().Changed("pool")
	a.proxy.tokenFileGiven = cmd.Flags().Changed("token-file")
	a.proxy.tokenFromGiven = cmd.Flags().Changed("token-from")
	if err := bindEnvironment(cmd, os.LookupEnv); err != nil {
		return err
	}
	if cmd.Name() == "keeper" { // which has the variable only if the user typed --proxy
		a.proxy.given = !a.proxy.unset()
	}
	if err := a.proxy.chooseToken(); err != nil {
		return err
	}
	for _, pair := range mistypedVariables(cmd.Flags(), os.Environ(), a.proxy.unset()) {
		a.Failf("the variable %s means nothing: did you mean %s", pair[0], pair[1])
	}
	a.openHolder()
	return nil
}
