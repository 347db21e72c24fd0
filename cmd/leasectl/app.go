package main

import (
	"context"
	"errors"
	"fmt"
	"os"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"syscall"

	"github.com/spf13/cobra"

	"github.com/leasectl/leasectl/trap"
)

// app is what every command needs of the world around it.
type app struct {
	stdin          *os.File
	stdout, stderr *os.File
	chain          *trap.Chain
	listening      chan struct{} // closed when the chain hears the endings
	clients        clients
	journal        openIntents
	staysOnHangup  atomic.Bool // SIGHUP means something else than to end

	// Flags of every command.
	proxy   proxyOptions
	owner   string
	output  string
	quiet   bool
	verbose bool

	mu     sync.Mutex // guards what is printed on stderr
	status *statusLine
}

// run is the whole program: it returns the exit status instead of exiting, so
// that every deferred clean-up has run by then.
func run(args []string, stdin, stdout, stderr *os.File) int {
	a := &app{stdin: stdin, stdout: stdout, stderr: stderr, listening: make(chan struct{})}
	defer a.clients.close()
	a.status = newStatusLine(stderr)
	a.chain = trap.NewChain()
	go func() {
		a.chain.Listen(endings...)
		close(a.listening)
	}()

	// A broken pipe on stdout is an error of the write, to be handled where
	// the write is: a handle that nobody read is a lease to give back.
	ctx, cancel := context.WithCancelCause(context.Background())
	defer cancel(nil)
	a.chain.OnSignal(func(e trap.Event) error {
		if sig := e.Signal.(syscall.Signal); isEnding(sig) && !(sig == syscall.SIGHUP && a.staysOnHangup.Load()) {
			cancel(signalError{sig})
		}
		return nil
	})

	root := newRootCommand(a)
	root.SetArgs(args)
	// Cobra would make that command each time, with a text for each shell.
	root.CompletionOptions.DisableDefaultCmd = len(args) > 0 &&
		slices.ContainsFunc(root.Commands(), func(c *cobra.Command) bool { return c.Name() == args[0] })
	root.SetOut(stdout)
	root.SetErr(stderr)
	err := signalled(ctx, root.ExecuteContext(ctx))
	if err != nil && isCobraUsage(err) {
		err = usageError{err}
	}
	status := exitStatus(err)
	if err != nil && err.Error() != "" {
		a.failf("%s", describe(err))
	}
	<-a.listening
	if err := a.chain.Exit(status); err != nil {
		a.failf("%v", err)
	}
	var sig dieOf
	if errors.As(err, &sig) {
		trap.Die(syscall.Signal(sig))
	}
	return status
}

// endings are the signals that ask the program to end. Others are left to the
// runtime, but in exec. SIGQUIT is first, since without us the runtime answers it
// with a dump of all goroutines and exit code 2.
var endings = []os.Signal{syscall.SIGQUIT, syscall.SIGTERM, syscall.SIGINT, syscall.SIGHUP}

// listenLater are the commands that wait for it only before they write a handle
// that others know, or ask for a lease. Listening takes as long as all that they do
// until then; a signal that ends them meanwhile leaves nothing but an entry in the
// journal, for which nothing was sent.
var listenLater = []string{"acquire", "exec"}

func isEnding(sig os.Signal) bool { return slices.Contains(endings, sig) }

// isCobraUsage recognises the errors that cobra makes by itself: they have no
// type of their own, and all of them are about what was typed.
func isCobraUsage(err error) bool {
	for _, prefix := range []string{"unknown command", "unknown flag", "unknown shorthand flag", "required flag", "accepts ", "requires ", "invalid argument"} {
		if strings.HasPrefix(err.Error(), prefix) {
			return true
		}
	}
	return false
}

// failf prints an error. It is never silenced.
func (a *app) failf(format string, args ...any) { a.message(format, args...) }

// notef prints what a user wants to know of a run that goes well.
func (a *app) notef(format string, args ...any) {
	if !a.quiet {
		a.message(format, args...)
	}
}

// debugf prints what only somebody who looks for a fault wants to know.
func (a *app) debugf(format string, args ...any) {
	if a.verbose {
		a.message(format, args...)
	}
}

// message writes one line to stderr. What a peer sent may be part of it, so
// line breaks and control characters do not reach the terminal.
func (a *app) message(format string, args ...any) {
	a.mu.Lock()
	defer a.mu.Unlock()
	a.status.clear()
	fmt.Fprintf(a.stderr, "leasectl: %s\n", printable(fmt.Sprintf(format, args...)))
}

// printable makes text that came from elsewhere safe for one line of a terminal.
func printable(s string) string {
	return strings.Map(func(r rune) rune {
		switch {
		case r == '\n' || r == '\t':
			return ' '
		case r < ' ' || r == 0x7f || (r >= 0x80 && r < 0xa0):
			return '?'
		}
		return r
	}, strings.TrimRight(s, "\n"))
}

// newRootCommand builds the command tree.
func newRootCommand(a *app) *cobra.Command {
	root := &cobra.Command{
		Use:   "leasectl",
		Short: "take, hold and give back leases of a shared account in CI steps",
		Long: `leasectl takes a lease from an HTTP lease proxy before a CI step does what a
shared account can only bear so often, holds it while the step needs it, and
gives it back however the step ends.`,
		Example: `  leasectl exec --proxy local --pool install=2 --type install -- ./install.sh`,

		SilenceUsage:  true,
		SilenceErrors: true,
		Args:          cobra.NoArgs,
		PersistentPreRunE: func(cmd *cobra.Command, _ []string) error {
			if !slices.Contains(listenLater, cmd.Name()) {
				<-a.listening // from here on there may be something to lose
			}
			a.proxy.given = cmd.Flags().Changed("proxy")
			return bindEnvironment(cmd, os.LookupEnv)
		},
		RunE: func(cmd *cobra.Command, _ []string) error { return cmd.Help() },
	}
	root.SetFlagErrorFunc(func(_ *cobra.Command, err error) error { return flagError(err) })

	flags := root.PersistentFlags()
	a.proxy.bind(flags)
	flags.StringVar(&a.owner, "owner", "", "who holds the lease; the same for every process of a job (default: from the CI system's variables, else user@host)")
	flags.Var(choiceValue(&a.output, "text", "text", "json"), "output", "how data is printed: text or json")
	flags.BoolVar(&a.quiet, "quiet", false, "print errors only")
	flags.BoolVar(&a.verbose, "verbose", false, "print each step")

	root.AddCommand(
		newAcquireCommand(a),
		newReleaseCommand(a),
		newReacquireCommand(a),
		newRenewCommand(a),
		newExecCommand(a),
		newKeeperCommand(a),
		newRecoverCommand(a),
		newCatCommand(a),
		newStatusCommand(a),
		newBreakCommand(a),
		newServeCommand(a),
		newShellCommand(a),
		newVersionCommand(a),
	)
	root.CompletionOptions.HiddenDefaultCmd = false
	return root
}
