// Package demo shows leasectl at work: a lease proxy in this process, and jobs, which are processes of this
// program.
package demo

import (
	"context"
	"errors"
	"os"
	"time"

	"github.com/leasectl/leasectl/internal/pool"
	"github.com/leasectl/leasectl/leaseapi"
)

// The pools of the demo.
const (
	installs = 2
	memory   = 64
)

// Options are what a demo needs of the program.
type Options struct {
	Speed   int           // how many times as fast as people can follow
	TTL     time.Duration // how long the lease of the job that is killed lasts after its last renewal
	Version string
	Print   func(format string, args ...any) error // to stdout
	Stderr  *os.File                               // of the process that removes the files
}

// Run runs the demo until it is over or ctx ends. The error is also a [LeftError].
func Run(ctx context.Context, o Options) (err error) {
	d, err := start(ctx, o, []pool.Config{
		{Type: "install", Names: pool.Numbered("install", installs)},
		{Type: "deploy", Names: pool.Numbered("deploy", 1)},
		{Type: "memory", Units: memory},
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
Each is: leasectl exec --type install -- its command. Two of them wait.`, installs)
	d.start("job-1", 16*time.Second, "--type", "install", "--release-after", d.argument(8*time.Second))
	d.await("granted", "job-1")
	d.startHeld("job-2", 0, "--type", "install", "--ttl", leaseapi.Duration(d.TTL).String(), "--grace-period", "2s")
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
long after its last renewal, the proxy takes the lease back, for job-3.`, leaseapi.Duration(d.TTL))
	d.kill("job-2")
	d.await("expired", "job-2")
	d.await("granted", "job-3")
	d.finish("job-1", "job-3", "job-4")
}

// showUnits leaves no lease behind.
func (d *demo) showUnits() {
	d.say(`The pool "memory" has %d units, and a job takes as many as it needs: job-5 40,
job-6 30, job-7 20. job-6 does not fit beside job-5, so job-7 may overtake it.`, memory)
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
with exit code 75.`, d.argument(4*time.Second))
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
