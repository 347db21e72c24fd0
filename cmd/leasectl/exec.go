package main

import (
	"context"
	"errors"
	"os"
	"slices"
	"strings"
	"sync"
	"syscall"
	"time"

	"github.com/spf13/cobra"

	"github.com/leasectl/leasectl/leaseapi"
	"github.com/leasectl/leasectl/lockfile"
	"github.com/leasectl/leasectl/proxyclient"
	"github.com/leasectl/leasectl/trap"
	"github.com/leasectl/leasectl/trap/child"
)

type execOptions struct {
	take             takeOptions
	attempts         int
	retryOn          []int
	onLost           string
	grace            time.Duration
	parentDeath      syscall.Signal
	conflictExitCode int
}

// stopMargin is how long before the end of its lease the child's group must be
// dead: for a late timer, and for clocks that do not run quite alike.
const stopMargin = 2 * time.Second

func newExecCommand(a *app) *cobra.Command {
	o := new(execOptions)
	cmd := &cobra.Command{
		Use:   "exec --type TYPE [flags] -- COMMAND [ARG…]",
		Short: "run a command while holding a lease",
		Long: `Exec takes a lease, runs the command, renews the lease as long as the command
runs, and gives it back however the command ends. Its exit code is the
command's, 128+n if signal n ended it; 75 if no lease was to be had in time, 76
if the lease was lost and the command was stopped.`,
		Example: `  leasectl exec --type install --release-after 20m --attempts 5 --retry-on 4 -- openshift-install create cluster`,
		Args: func(_ *cobra.Command, args []string) error {
			if len(args) == 0 {
				return usagef("no command: put it after --, such as leasectl exec --type T -- make test")
			}
			return nil
		},
		RunE: func(cmd *cobra.Command, args []string) error { return a.exec(cmd.Context(), o, args) },
	}
	flags := cmd.Flags()
	flags.SetInterspersed(false)
	o.take.bind(flags)
	flags.Lookup("release-after").Usage = "release the lease this long after it was acquired, while the command goes on"
	flags.Var(intValue(&o.attempts, 1, 1, 1000), "attempts", "how often to run the command, as long as its exit code is one of --retry-on")
	flags.Var(codesValue(&o.retryOn), "retry-on", "exit codes of the command after which the lease is taken anew and the command run again")
	flags.Var(choiceValue(&o.onLost, "", "term", "warn"), "on-lost", "what to do when the lease is lost: term stops the command, warn says so (default: term, with --optional warn)")
	flags.Var(durationValue(&o.grace, 10*time.Second, 0, time.Hour), "grace-period", "time from TERM to KILL")
	flags.Var(signalValue(&o.parentDeath, syscall.SIGTERM), "parent-death", "signal that the command gets if leasectl is killed (Linux)")
	flags.Var(intValue(&o.conflictExitCode, exitNoLease, 0, 255), "conflict-exit-code", "exit code when no lease was to be had in time")
	return cmd
}

// complete fills in what depends on other flags, and refuses what does not fit
// together.
func (o *execOptions) complete() error {
	if err := o.take.check(); err != nil {
		return err
	}
	if o.onLost == "" {
		o.onLost = "term"
		if o.take.optional {
			o.onLost = "warn"
		}
	}
	if o.take.ttl == 0 {
		// Shorter than a pool's default, since somebody renews it: it is how
		// long a lease stays taken after everybody who could release it died.
		o.take.ttl = max(defaultExecTTL, 3*(o.grace+stopMargin))
	}
	if needed := o.grace + stopMargin; o.onLost == "term" && o.take.ttl*2/3 <= needed {
		return usagef("--ttl %s: too short for --grace-period %s: a lost lease must leave time to stop the command: want a TTL of more than %s",
			shortDuration(o.take.ttl), shortDuration(o.grace), shortDuration(needed*3/2))
	}
	if len(o.retryOn) == 0 && o.attempts > 1 {
		return usagef("--attempts %d goes with --retry-on: say which exit codes are worth another attempt, such as --retry-on 4", o.attempts)
	}
	return nil
}

// execution is one run of exec.
type execution struct {
	a       *app
	o       *execOptions
	args    []string
	handle  lockfile.Handle
	held    string              // request id of the lease that is ours to give back; "" if none is
	signals chan syscall.Signal // every signal that leasectl got
	// listening is closed when signals gets all that people send; the rare ones
	// come a moment later.
	listening chan struct{}
}

// States of the lease, as the child sees them in LEASECTL_STATE.
const (
	stateAcquired = "acquired"
	stateSkipped  = "skipped"
	stateDegraded = "degraded"
)

// exec runs the whole command line: attempts, and what is between them.
func (a *app) exec(ctx context.Context, o *execOptions, args []string) error {
	if err := o.complete(); err != nil {
		return err
	}
	handle, err := a.newHandle(o.take.handle)
	if err != nil {
		return err
	}
	x := &execution{
		a: a, o: o, args: args, handle: handle,
		signals: make(chan syscall.Signal, 64), listening: make(chan struct{}),
	}
	defer a.chain.OnSignal(x.heard)()
	defer x.listen()()
	for attempt := 1; ; attempt++ {
		status, err := x.attempt(ctx, attempt)
		if err != nil {
			return x.conflict(err)
		}
		again := attempt < o.attempts && status.Signal == 0 && slices.Contains(o.retryOn, status.Code) && ctx.Err() == nil
		if !again {
			x.giveBack(ctx)
			return ending(status)
		}
		a.notef("attempt %d of %d ended with exit code %d: taking the lease anew", attempt, o.attempts, status.Code)
	}
}

// lateAfter is when a command is no short one any more, that would notice what
// it takes to listen to 35 signals which hardly anybody sends.
const lateAfter = 10 * time.Millisecond

// listen makes the chain hear what else is to be forwarded, while the lease is
// being taken. The caller calls stop at the end.
func (x *execution) listen() (stop func()) {
	end := make(chan struct{})
	var listener sync.WaitGroup
	listener.Go(func() {
		<-x.a.listening
		x.a.chain.Listen(trap.Signals()...)
		close(x.listening)
		late := time.NewTimer(lateAfter)
		defer late.Stop()
		select {
		case <-late.C:
			x.a.chain.Listen(trap.RareSignals()...)
		case <-end:
		}
	})
	return func() { close(end); listener.Wait() }
}

// heard passes a signal on to whoever supervises the child.
func (x *execution) heard(e trap.Event) error {
	if sig, ok := e.Signal.(syscall.Signal); ok {
		select {
		case x.signals <- sig:
		default: // 64 unread signals: the child is being stopped already
		}
	}
	return nil
}

// ending turns the child's end into leasectl's own.
func ending(status child.Status) error {
	if status.Terminal && (status.Signal == syscall.SIGINT || status.Signal == syscall.SIGQUIT) {
		return dieOf(status.Signal)
	}
	if code := status.ExitCode(); code != 0 {
		return statusError{code: code}
	}
	return nil
}

// conflict gives "no lease in time" the exit code that the user asked for, and
// every failure that has none the one of a wrapper that failed.
func (x *execution) conflict(err error) error {
	var status statusError
	if errors.As(err, &status) {
		return err
	}
	if errors.Is(err, proxyclient.ErrExhausted) {
		return statusError{code: x.o.conflictExitCode, err: err}
	}
	return execError{err}
}

// execError is a failure of exec itself; the table knows which have a code of
// their own.
type execError struct{ err error }

func (e execError) Error() string        { return e.err.Error() }
func (e execError) Unwrap() error        { return e.err }
func (e execError) Is(target error) bool { return target == errExec }

// attempt takes a lease, runs the command once and returns how it ended. An
// error means that the command did not run, or not to its own end; then the
// lease is given back already. Otherwise it is still held, for the next
// attempt to swap.
func (x *execution) attempt(ctx context.Context, n int) (child.Status, error) {
	h, state, err := x.acquire(ctx, n)
	if err != nil {
		return child.Status{}, err
	}
	status, err := x.run(ctx, h, state)
	if err != nil {
		// Whoever stopped the command will not wait for a proxy either.
		ctx, cancel := context.WithCancel(ctx)
		cancel()
		x.giveBack(ctx)
	}
	return status, err
}

// acquire takes the lease of one attempt, or says why there is none.
func (x *execution) acquire(ctx context.Context, attempt int) (*holding, string, error) {
	a, o := x.a, x.o
	if a.proxy.unset() {
		a.notef("no proxy is set (--proxy or $%s): dry run: %s runs without a lease", proxyVariable, x.args[0])
		return nil, stateSkipped, nil
	}
	var replaces func(lockfile.Record) bool
	if attempt > 1 {
		replaces = x.replaces
	}
	h, err := a.take(ctx, &o.take, x.handle, replaces)
	if err == nil && !h.grant.Version1 && proxyclient.Now().Sub(h.grant.Asked) > min(h.grant.RenewEvery, leaseapi.ProvisionalTTL/3) {
		// The answer was on its way for so long that the lease may be over
		// before the command has begun.
		if err = a.confirm(ctx, h, 0); err != nil {
			err = a.abandon(ctx, h, err)
		}
	}
	switch {
	case err == nil:
		x.held = h.record.RequestID
		a.notef("acquired %s for %s", strings.Join(h.names(), ", "), h.record.Owner)
		return h, stateAcquired, nil
	case o.take.excuses(err):
		a.failf("no lease of type %q, %s runs without: %s", o.take.typ, x.args[0], describe(err))
		return nil, stateDegraded, nil
	}
	return nil, "", err
}

// replaces tells what a further attempt gives back before it acquires: the lease
// of the attempt before, or what is still owed. What another process has put
// into the handle meanwhile is that one's.
func (x *execution) replaces(r lockfile.Record) bool {
	return x.held != "" && r.RequestID == x.held || r.State == lockfile.StateReleasing
}

// run starts the command and sees it to its end, while the lease is tended.
func (x *execution) run(ctx context.Context, h *holding, state string) (child.Status, error) {
	a := x.a
	<-x.listening
	if err := context.Cause(ctx); err != nil {
		return child.Status{}, err // a signal came between the grant and now
	}
	// Tended from before the start, so that the grant is confirmed meanwhile.
	tendCtx, cancel := context.WithCancel(context.WithoutCancel(ctx))
	lost := make(chan loss, 1)
	var tended sync.WaitGroup
	defer tended.Wait()
	defer cancel()
	if h != nil {
		tended.Go(func() { x.tend(tendCtx, h, lost) })
	}
	command, err := child.Start(child.Command{
		Args:        x.args,
		Env:         childEnvironment(os.Environ(), h, state),
		Stdin:       a.stdin,
		Stdout:      a.stdout,
		Stderr:      a.stderr,
		ParentDeath: x.o.parentDeath,
	})
	if err != nil {
		return child.Status{}, err
	}
	return x.supervise(command, lost)
}

// supervise forwards every signal to the child's group until the child ends;
// TERM, INT and a lost lease also bound its end by the grace period.
func (x *execution) supervise(command *child.Process, lost <-chan loss) (child.Status, error) {
	var why error // what stops the child, if not itself
	stop := func(err error, sig syscall.Signal, grace time.Duration) {
		if why == nil {
			why = err
			command.Stop(sig, grace)
		}
	}
	for {
		select {
		case sig := <-x.signals:
			if sig == syscall.SIGTERM || sig == syscall.SIGINT {
				stop(statusError{code: 128 + int(sig)}, sig, x.o.grace)
				continue
			}
			command.Signal(sig)
		case l := <-lost:
			lost = nil
			x.a.failf("%v", l.err)
			if x.o.onLost == "warn" {
				continue
			}
			sig := syscall.SIGTERM
			grace := x.o.grace
			if l.over {
				sig, grace = syscall.SIGKILL, 0
			}
			stop(statusError{code: exitLost}, sig, grace)
		case <-command.Done():
			return command.Wait(), why
		}
	}
}

// giveBack releases at the end of exec what it took itself: the handle may be
// another process's by now. The child's exit code counts more than a release
// that failed: the lease ends with its TTL.
func (x *execution) giveBack(ctx context.Context) {
	if x.held == "" {
		return
	}
	released, err := x.a.giveBack(ctx, x.handle, func(r lockfile.Record) bool { return r.RequestID == x.held })
	if err != nil {
		x.a.failf("%v", err)
	} else if len(released) > 0 {
		x.a.notef("released %s", strings.Join(released, ", "))
	}
}

// leaseVariables tell a child about its lease. Those of an outer leasectl are
// not passed on: they would be about another lease.
var leaseVariables = []string{"LEASECTL_STATE", "LEASECTL_HANDLE", "LEASECTL_NAMES", "LEASED_RESOURCE"}

func childEnvironment(env []string, h *holding, state string) []string {
	env = slices.DeleteFunc(slices.Clone(env), func(v string) bool {
		name, _, _ := strings.Cut(v, "=")
		return slices.Contains(leaseVariables, name)
	})
	env = append(env, "LEASECTL_STATE="+state)
	if h == nil {
		return env
	}
	env = append(env, "LEASECTL_HANDLE="+h.handle.Path(), "LEASECTL_NAMES="+strings.Join(h.names(), ","))
	if len(h.names()) == 1 {
		env = append(env, "LEASED_RESOURCE="+h.names()[0])
	}
	return env
}
