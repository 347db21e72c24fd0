package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"syscall"
	"time"

	"github.com/spf13/cobra"

	"github.com/leasectl/leasectl/internal/pool"
	"github.com/leasectl/leasectl/internal/process"
	"github.com/leasectl/leasectl/leaseapi"
	"github.com/leasectl/leasectl/proxyclient"
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
				return sweepDemo(a.stdin, o.sweep)
			case cmd.Flags().Changed("work"):
				return a.demoWork(ctx, o)
			}
			err := a.demo(ctx, o)
			if sig, ok := errors.AsType[signalError](context.Cause(ctx)); ok {
				left := "Nothing is left of the demo."
				if e, ok := errors.AsType[leftError](err); ok {
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

// The pools of the demo.
const (
	demoInstalls = 2
	demoMemory   = 64
	// demoTTL is how long the lease of the job that is killed lasts after its last renewal.
	demoTTL = minTTL
)

// demo runs the demo until it is over or ctx ends.
func (a *app) demo(ctx context.Context, o *demoOptions) (err error) {
	useAllProcessors()
	d, err := a.startDemo(ctx, o.speed, []pool.Config{
		{Type: "install", Names: pool.Numbered("install", demoInstalls)},
		{Type: "deploy", Names: pool.Numbered("deploy", 1)},
		{Type: "memory", Units: demoMemory},
	})
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, d.end()) }()
	d.introduce()
	d.showQueue()
	d.showRetry()
	d.showKill()
	d.showUnits()
	d.showOptional()
	d.conclude()
	return context.Cause(d.ctx)
}

func (d *demo) introduce() {
	d.print(`A lease proxy runs now at %[1]s
It ends in about a minute, and sooner with Ctrl-C. Nothing is left of it then.

Open that address in a browser to see the pools, the holders and the queues.
Or be a job yourself, from another terminal:

  leasectl exec --proxy %[1]s --type install -- sleep 5
`, d.url)
	d.pause(3 * time.Second)
}

// showQueue leaves job-1 at work without its lease, job-2 and job-3 with a lease each, and job-4 waiting.
func (d *demo) showQueue() {
	d.say(`The pool "install" has %d leases, so %[1]d jobs may install at once. Four come.
Each is: leasectl exec --type install -- its command. Two of them wait.`, demoInstalls)
	d.start("job-1", 16*time.Second, "--type", "install", "--release-after", d.argument(8*time.Second))
	d.await("granted", "job-1")
	d.startHeld("job-2", 0, "--type", "install", "--ttl", leaseapi.Duration(demoTTL).String(), "--grace-period", "2s")
	d.await("granted", "job-2")
	d.startFailing("job-3", 6*time.Second, "--type", "install", "--attempts", "2", "--retry-on", "4")
	d.arrive("job-3")
	d.startHeld("job-4", 0, "--type", "install")
	d.arrive("job-4")

	d.pause(4 * time.Second)
	d.say(`An install needs its lease only at the beginning. So job-1 runs with
--release-after %s: then its lease goes to job-3, while job-1 works on.`, d.argument(8*time.Second))
	d.await("granted", "job-3")
}

// showRetry leaves job-4 with a lease, and job-3 waiting.
func (d *demo) showRetry() {
	d.pause(4 * time.Second)
	d.say(`The command of job-3 fails soon, with exit code 4. With --attempts 2 --retry-on 4
it runs again, under a new lease. job-4 has waited for longer, and goes first.`)
	d.let("job-3")
	d.await("granted", "job-4")
}

// showKill kills job-2, so that job-3 gets its lease, and leaves no lease behind.
func (d *demo) showKill() {
	d.awaitConfirmed("job-2")
	d.pause(4 * time.Second)
	d.say(`Now job-2 is KILLed, as by a machine that is lost: it cannot give its lease back.
Its command ends with it. It ran with --ttl %s (5 minutes if nothing is said): that
long after its last renewal, the proxy takes the lease back, for job-3.`, leaseapi.Duration(demoTTL))
	d.kill("job-2")
	d.await("expired", "job-2")
	d.await("granted", "job-3")
	d.finish("job-1", "job-3", "job-4")
}

// showUnits leaves no lease behind.
func (d *demo) showUnits() {
	d.say(`The pool "memory" has %d units, and a job takes as many as it needs: job-5 40,
job-6 30, job-7 20. job-6 does not fit beside job-5, so job-7 may overtake it.`, demoMemory)
	d.startHeld("job-5", 0, "--type", "memory", "--count", "40")
	d.await("granted", "job-5")
	d.start("job-6", 3*time.Second, "--type", "memory", "--count", "30")
	d.await("queued", "job-6")
	d.start("job-7", 4*time.Second, "--type", "memory", "--count", "20")
	d.finish("job-7")
	d.pause(2 * time.Second)
	d.finish("job-5", "job-6")
}

// showOptional leaves no lease behind.
func (d *demo) showOptional() {
	d.say(`job-8 has the only lease of the pool "deploy". job-9 waits %s at most, and then
goes on without a lease, since it has --optional. Without that it would fail,
with exit code %d.`, d.argument(4*time.Second), exitNoLease)
	d.startHeld("job-8", 0, "--type", "deploy")
	d.await("granted", "job-8")
	d.start("job-9", 4*time.Second, "--type", "deploy", "--wait-timeout", d.argument(4*time.Second), "--optional")
	d.finish("job-9")
	d.finish("job-8")
}

func (d *demo) conclude() {
	d.say(`All jobs have ended, and no lease is held:`)
	d.run("status")
	d.print(`
To go on, without a server:

  leasectl exec --proxy local --pool install=2 --type install -- YOUR COMMAND

and with one: leasectl help init
`)
}

// demoWork is the command of a job. It ends when its time is over and input is at its end, or when
// its leasectl exec is gone.
func (a *app) demoWork(ctx context.Context, o *demoOptions) error {
	ctx, gone := context.WithCancel(ctx)
	var watch sync.WaitGroup
	defer watch.Wait()
	defer gone()
	watch.Go(func() {
		process.WaitParent(ctx)
		gone()
	})
	fails := false
	if o.failOnce != "" {
		f, err := os.OpenFile(o.failOnce, os.O_CREATE|os.O_EXCL|os.O_WRONLY, 0o600)
		if fails = err == nil; fails {
			f.Close()
		}
	}
	ended := make(chan struct{})
	go func() { // outlived by nobody: the program ends
		io.Copy(io.Discard, a.stdin)
		close(ended)
	}()
	err := proxyclient.Sleep(ctx, o.work)
	if err == nil {
		select {
		case <-ended:
		case <-ctx.Done():
			err = ctx.Err()
		}
	}
	switch {
	case err != nil:
		return statusError{code: 128 + int(syscall.SIGTERM)}
	case fails:
		return statusError{code: 4}
	}
	return nil
}

// sweepDemo removes the directory of a demo when the demo has ended, however it ended: alive is the
// end of a pipe whose other end only the demo has. It ignores signals, since a KILL of the demo may
// come with a TERM for everybody.
func sweepDemo(alive *os.File, dir string) error {
	if !filepath.IsAbs(dir) || !strings.HasPrefix(filepath.Base(dir), demoPrefix) {
		return usagef("--sweep is for leasectl demo")
	}
	for {
		if _, err := alive.Read(make([]byte, 1)); err != nil {
			break
		}
	}
	err := os.RemoveAll(dir)
	for range sweepTries { // a job that is being killed may have made a file meanwhile
		if _, gone := os.Lstat(dir); gone != nil {
			return nil
		}
		time.Sleep(sweepPause)
		err = os.RemoveAll(dir)
	}
	return err
}
