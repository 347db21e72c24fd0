package demo

import (
	"bufio"
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"log/slog"
	"net"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"syscall"
	"time"

	"github.com/leasectl/leasectl/internal/child"
	"github.com/leasectl/leasectl/internal/holder/local"
	"github.com/leasectl/leasectl/internal/pool"
	"github.com/leasectl/leasectl/internal/proxyserver"
	"github.com/leasectl/leasectl/leaseapi"
	"github.com/leasectl/leasectl/proxyclient"
)

// demo is a demo that runs. The proxy is in this process, so it ends with it. The jobs are processes,
// which the kernel kills if this process is killed (on Linux), and whose files are in dir. Another
// process, the sweeper, removes dir when this one has ended, so that a KILL leaves nothing either.
//
// The first failure cancels ctx. From then on the methods do nothing, so that the acts of the demo
// need not look.
type demo struct {
	Options
	ctx      context.Context
	fail     context.CancelCauseFunc
	begun    time.Time
	patience time.Duration // bounds each wait for something that is to happen

	self   string // the path of this program
	dir    string // of the jobs' files
	url    string // of the proxy
	client *proxyclient.Client

	stopProxy func()       // blocks until it has stopped
	sweep     func() error // blocks until dir is gone; else a LeftError
	jobs      map[string]*job

	writing sync.Mutex // a line at a time

	mu       sync.Mutex
	happened map[string]int // how often what happened to a job, and was not awaited yet
	changed  chan struct{}  // closed when happened grows
}

// job is a process that the demo started.
type job struct {
	*child.Process
	let    func()         // ends the input of its command, which lasts as long at least
	output sync.WaitGroup // the reader of its output, which ends with the last process that can write
}

const (
	// patience is the patience of a demo: far more than anything takes.
	patience = 2 * time.Minute
	// grace is how long a job has to give its lease back when the demo ends.
	grace = 5 * time.Second
	// sweepTries and sweepPause bound the time in which killed jobs must be gone.
	sweepTries, sweepPause = 100, 20 * time.Millisecond
)

// start starts a proxy with pools. Call end afterwards.
func start(ctx context.Context, o Options, pools []pool.Config) (*demo, error) {
	d := newDemo(ctx, o)
	err := d.makeDir()
	if err == nil {
		err = d.serve(pools)
	}
	if err == nil {
		d.client, err = proxyclient.New(proxyclient.Options{URL: d.url})
	}
	if err != nil {
		return nil, errors.Join(err, d.end())
	}
	return d, nil
}

// newDemo makes a demo without a proxy and without a directory.
func newDemo(ctx context.Context, o Options) *demo {
	d := &demo{Options: o, begun: time.Now(), patience: patience, jobs: make(map[string]*job),
		happened: make(map[string]int), changed: make(chan struct{}), stopProxy: func() {}, sweep: func() error { return nil }}
	d.ctx, d.fail = context.WithCancelCause(ctx)
	return d
}

// Prefix begins the names of the directories that a sweeper removes.
const Prefix = "leasectl-demo-"

// LeftError is the directory of a demo that could not be removed. The sweeper has said why, unless it
// was killed.
type LeftError string

func (e LeftError) Error() string { return "files of the demo may be left in " + string(e) }

// makeDir makes dir, once there is a process that will remove it.
func (d *demo) makeDir() error {
	self, err := os.Executable()
	if err != nil {
		return err
	}
	dir, err := filepath.Abs(filepath.Join(os.TempDir(), Prefix+rand.Text()))
	if err != nil {
		return err
	}
	r, alive, err := os.Pipe()
	if err != nil {
		return err
	}
	defer r.Close()
	sweeper, err := child.Start(child.Command{Path: self, Args: []string{"leasectl", "demo", "--sweep", dir},
		Env: local.Environment("GORACE"), Dir: "/", Stdin: r, Stderr: d.Stderr})
	if err != nil {
		alive.Close()
		return err
	}
	d.sweep = func() error {
		alive.Close()
		if status := sweeper.Wait(); status.ExitCode() != 0 {
			return LeftError(dir)
		}
		return nil
	}
	d.self, d.dir = self, dir
	return os.Mkdir(dir, 0o700)
}

// serve starts the proxy.
func (d *demo) serve(pools []pool.Config) error {
	listener, err := new(net.ListenConfig).Listen(d.ctx, "tcp", "127.0.0.1:0")
	if err != nil {
		return fmt.Errorf("listen: %w", err)
	}
	server, err := proxyserver.New(proxyserver.Options{Pools: pools, Log: slog.New(eventLog{Handler: slog.DiscardHandler, demo: d}), Version: d.Version})
	if err != nil {
		listener.Close()
		return err
	}
	d.url = "http://" + listener.Addr().String()
	ctx, stop := context.WithCancel(context.WithoutCancel(d.ctx)) // the jobs give their leases back before it stops
	var serving sync.WaitGroup
	serving.Go(func() {
		if err := server.Serve(ctx, listener); err != nil {
			d.fail(err)
		}
	})
	d.stopProxy = func() {
		stop()
		serving.Wait()
	}
	return nil
}

// end ends the jobs, then the proxy, and removes the files. Its error is a LeftError.
func (d *demo) end() error {
	d.fail(nil)
	for _, job := range d.jobs {
		job.Stop(syscall.SIGTERM, grace)
	}
	for _, job := range d.jobs {
		job.let()
		job.Wait()
		job.output.Wait()
	}
	if d.client != nil {
		d.client.Close()
	}
	d.stopProxy()
	return d.sweep()
}

// scaled returns how long something takes that takes t at speed 1.
func (d *demo) scaled(t time.Duration) time.Duration { return t / time.Duration(d.Speed) }

// argument returns a scaled time for a flag.
func (d *demo) argument(t time.Duration) string { return leaseapi.Duration(d.scaled(t)).String() }

func (d *demo) pause(t time.Duration) { proxyclient.Sleep(d.ctx, d.scaled(t)) }

// print writes text to stdout.
func (d *demo) print(format string, args ...any) {
	d.writing.Lock()
	defer d.writing.Unlock()
	if d.ctx.Err() != nil {
		return
	}
	if err := d.Print(format, args...); err != nil {
		d.fail(err)
	}
}

// say writes what the reader is about to see, below the time since the start.
func (d *demo) say(format string, args ...any) {
	t := time.Since(d.begun).Round(time.Second)
	text := strings.ReplaceAll(fmt.Sprintf(format, args...), "\n", "\n      ")
	d.print("\n%d:%02d  %s\n", int(t.Minutes()), int(t.Seconds())%60, text)
}

// tell writes a line of a job or of the proxy.
func (d *demo) tell(who, line string) {
	if who != "" {
		who += " | "
	}
	d.print("      %s%s\n", who, line)
}

// start starts a job: leasectl exec with flags, and a command that takes so long. Each job has
// a state directory of its own, as if it ran on a machine of its own.
func (d *demo) start(name string, takes time.Duration, flags ...string) {
	d.startHeld(name, takes, flags...)
	d.let(name)
}

// startHeld is start with a command that also lasts until let.
func (d *demo) startHeld(name string, takes time.Duration, flags ...string) {
	d.startJob(name, flags, "--work", d.scaled(takes).String())
}

// startFailing is startHeld with a command whose first run fails with exit code 4.
func (d *demo) startFailing(name string, takes time.Duration, flags ...string) {
	d.startJob(name, flags, "--work", d.scaled(takes).String(), "--fail-once", filepath.Join(d.dir, name+".failed"))
}

func (d *demo) startJob(name string, flags []string, work ...string) {
	args := append([]string{"exec", "--owner", name}, flags...)
	args = append(args, "--", d.self, "demo")
	if job := d.startProgram(name, append(args, work...)); job != nil {
		d.jobs[name] = job
	}
}

// let lets jobs end.
func (d *demo) let(names ...string) {
	for _, name := range names {
		if job := d.jobs[name]; job != nil {
			job.let()
		}
	}
}

// run runs this program, and writes what it prints.
func (d *demo) run(args ...string) {
	if p := d.startProgram("", args); p != nil {
		p.let()
		p.Wait()
		p.output.Wait()
	}
}

// startProgram starts this program, and writes its output behind who. It returns nil if that failed.
func (d *demo) startProgram(who string, args []string) *job {
	if d.ctx.Err() != nil {
		return nil
	}
	r, w, err := os.Pipe()
	if err != nil {
		d.fail(err)
		return nil
	}
	defer w.Close()
	input, held, err := os.Pipe()
	if err != nil {
		r.Close()
		d.fail(err)
		return nil
	}
	defer input.Close()
	env := append(local.Environment("TMPDIR", "GORACE"), "LEASE_PROXY_SERVER_URL="+d.url, "LEASECTL_STATE_DIR="+filepath.Join(d.dir, who))
	p, err := child.Start(child.Command{Path: d.self, Args: append([]string{"leasectl"}, args...), Env: env, Dir: d.dir,
		Stdin: input, Stdout: w, Stderr: w, ParentDeath: syscall.SIGKILL})
	if err != nil {
		r.Close()
		held.Close()
		d.fail(err)
		return nil
	}
	job := &job{Process: p, let: sync.OnceFunc(func() { held.Close() })}
	job.output.Go(func() {
		defer r.Close()
		for lines := bufio.NewScanner(r); lines.Scan(); {
			d.tell(who, lines.Text())
		}
	})
	return job
}

// kill kills a job, but not its command: the kernel does that (on Linux).
func (d *demo) kill(name string) {
	if job := d.jobs[name]; job != nil {
		job.Signal(syscall.SIGKILL)
		job.Wait()
		job.output.Wait() // until its command is gone, too
		job.let()
		delete(d.jobs, name)
	}
}

// finish lets jobs end, and blocks until they have.
func (d *demo) finish(names ...string) {
	d.let(names...)
	for _, name := range names {
		job := d.jobs[name]
		if job == nil {
			return
		}
		ctx, cancel := d.patient()
		defer cancel()
		select {
		case <-job.Done():
			job.output.Wait()
		case <-ctx.Done():
			d.lost(name + " to end")
			return
		}
	}
}

// patient returns a context for a wait.
func (d *demo) patient() (context.Context, context.CancelFunc) {
	return context.WithTimeout(d.ctx, d.patience)
}

// lost fails, unless something failed before, since patience is over.
func (d *demo) lost(what string) {
	d.fail(fmt.Errorf("waited %s for %s", leaseapi.Duration(d.patience), what))
}

// await blocks until something has happened to a job: granted, queued, expired. What is awaited
// twice must happen twice.
func (d *demo) await(what, job string) {
	d.awaitThat(job+" to be "+what, func() bool {
		if d.happened[what+job] == 0 {
			return false
		}
		d.happened[what+job]--
		return true
	})
}

// arrive blocks until a job waits, or has its lease at once, as on a slow machine.
func (d *demo) arrive(job string) {
	d.awaitThat(job+" to arrive", func() bool { return d.happened["queued"+job]+d.happened["granted"+job] > 0 })
}

// awaitThat blocks until so returns true, which is called under the lock of d.happened.
func (d *demo) awaitThat(what string, so func() bool) {
	ctx, cancel := d.patient()
	defer cancel()
	for {
		d.mu.Lock()
		changed, is := d.changed, so()
		d.mu.Unlock()
		if is {
			return
		}
		select {
		case <-changed:
		case <-ctx.Done():
			d.lost(what)
			return
		}
	}
}

// awaitConfirmed blocks until a job has confirmed its lease: before, the lease ends later than its
// TTL says.
func (d *demo) awaitConfirmed(job string) {
	ctx, cancel := d.patient()
	defer cancel()
	for ctx.Err() == nil {
		pools, err := d.client.Pools(ctx)
		if err != nil && ctx.Err() == nil {
			d.fail(err)
			return
		}
		for _, p := range pools {
			for _, l := range p.Leases {
				if l.Owner == job && !l.Provisional {
					return
				}
			}
		}
		proxyclient.Sleep(ctx, poll)
	}
	d.lost(job + " to confirm its lease")
}

// poll is how often awaitConfirmed asks. A job confirms its lease after a second.
const poll = 100 * time.Millisecond

// note notes what the log of the proxy says, and writes what the jobs themselves do not say.
func (d *demo) note(what, owner string, about map[string]string) {
	switch what {
	case "queued":
		d.tell("proxy", fmt.Sprintf("%s waits, at place %s of %s", owner, about["place"], about["waiting"]))
	case "expired":
		d.tell("proxy", fmt.Sprintf("%s of %s has ended: it was not renewed in time", strings.Trim(about["names"], "[]"), owner))
	}
	d.mu.Lock()
	defer d.mu.Unlock()
	d.happened[what+owner]++
	close(d.changed)
	d.changed = make(chan struct{})
}

// eventLog is the log of the demo's proxy.
type eventLog struct {
	slog.Handler
	demo *demo
}

// Enabled implements [slog.Handler].
func (l eventLog) Enabled(_ context.Context, level slog.Level) bool { return level >= slog.LevelInfo }

// Handle implements [slog.Handler].
func (l eventLog) Handle(_ context.Context, r slog.Record) error {
	about := make(map[string]string)
	r.Attrs(func(a slog.Attr) bool {
		about[a.Key] = a.Value.String()
		return true
	})
	if owner := about["owner"]; owner != "" {
		l.demo.note(r.Message, owner, about)
	}
	return nil
}
