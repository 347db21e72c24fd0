package campaign

import (
	"fmt"
	"math/rand/v2"
	"os"
	"os/exec"
	"slices"
	"sync"
	"syscall"
	"time"

	"github.com/leasectl/leasectl/cmd/leasectl/clitest"
)

// campaignRound is one exec, and the signals that are sent to it.
type campaignRound struct {
	w       *world
	owner   string
	acts    []campaignAct
	lasts   time.Duration // how long the command lives if nobody ends it
	code    int           // its exit code
	deaf    bool          // it ignores TERM
	slept   bool          // exec was stopped for longer than its TTL
	killed  bool          // KILL ended exec
	kills   int           // how many were sent
	ending  string        // expected cause of the end
	want    int           // exit code, as a shell would report it; -1: one of several
	sampled lifeline
}

// campaignAct is a signal at a moment: after the start of exec if that is the target, else after
// the start of the command.
type campaignAct struct {
	after  time.Duration
	target string
	sig    syscall.Signal
}

func (a campaignAct) String() string {
	return fmt.Sprintf("%v to %s after %v", a.sig, a.target, a.after)
}

// newCampaignRound draws a round. Most rounds have one signal, and their exit code is known; the
// others have up to four.
func newCampaignRound(w *world, i int, random *rand.Rand) *campaignRound {
	r := &campaignRound{w: w, owner: fmt.Sprintf("round-%d", i), want: -1}
	r.code = random.IntN(64) // none of exec's own
	r.lasts = time.Duration(random.Int64N(int64(2 * time.Second)))
	r.deaf = random.IntN(4) == 0
	moment := func() time.Duration {
		if random.IntN(2) == 0 {
			return time.Duration(random.Int64N(int64(50 * time.Millisecond)))
		}
		return time.Duration(random.Int64N(int64(1500 * time.Millisecond)))
	}
	targets := []string{"exec", "command", "group", "reader"}
	signals := []syscall.Signal{syscall.SIGKILL, syscall.SIGTERM, syscall.SIGINT, syscall.SIGSTOP}
	acts := 1
	if random.IntN(3) == 0 {
		acts = 2 + random.IntN(3)
	}
	for range acts {
		a := campaignAct{moment(), targets[random.IntN(len(targets))], signals[random.IntN(len(signals))]}
		if a.target == "reader" && a.sig != syscall.SIGSTOP {
			a.sig = syscall.SIGKILL
		}
		r.acts = append(r.acts, a)
		if a.sig != syscall.SIGSTOP || a.target == "reader" {
			continue
		}
		goesOn := campaignAct{a.after + moment(), a.target, syscall.SIGCONT}
		if a.target == "exec" && random.IntN(4) == 0 {
			goesOn.after = a.after + campaignTTL + 2*time.Second
			r.slept = true
		}
		r.acts = append(r.acts, goesOn)
	}
	r.expect()
	slices.SortStableFunc(r.acts, func(a, b campaignAct) int { return int(a.after - b.after) })
	return r
}

// expect sets how the round must end, if that is certain. A run that a signal must end does not end
// by itself before.
func (r *campaignRound) expect() {
	first := r.acts[0]
	single := len(r.acts) == 1 || len(r.acts) == 2 && r.acts[1].sig == syscall.SIGCONT
	ends := 10 * time.Minute
	switch {
	case !single:
		r.ending = "several"
	case first.target == "reader":
		r.ending, r.want = "itself, reader gone", r.code
	case r.slept:
		// When exec wakes up it KILLs the command, and nothing else ends the command before.
		r.ending, r.want, r.lasts = "a lost lease", exitLost, ends
	case first.sig == syscall.SIGSTOP:
		r.ending, r.want = "itself, "+first.target+" stopped for a while", r.code
	case first.target != "exec" && first.sig == syscall.SIGTERM && r.deaf:
		r.ending, r.want = "itself, deaf to TERM", r.code
		if first.target == "group" { // not checked, although the shell's children are deaf, too
			r.ending, r.want = "several", -1
		}
	case first.target != "exec" && first.sig == syscall.SIGINT:
		// A shell that gets INT ends when its sleep has ended. Dash may even go on: it loses
		// an INT that comes while it starts its sleep.
		r.ending = "several"
	default:
		r.ending, r.want, r.lasts = first.sig.String()+" of "+first.target, 128+int(first.sig), ends
	}
}

// command returns the round's exec. Its command has a second process in its group.
func (r *campaignRound) command(file string) *exec.Cmd {
	deaf := ""
	if r.deaf {
		deaf = "trap '' TERM; "
	}
	script := fmt.Sprintf("%ssleep 600 & echo $$ $! >'%s'; sleep %.3f; exit %d", deaf, file, r.lasts.Seconds(), r.code)
	cmd := r.w.Command("exec", "--verbose", "--type", "install", "--owner", r.owner, "--ttl", campaignTTL.String(),
		"--grace-period", campaignGrace.String(), "--parent-death", "KILL", "--", "sh", "-c", script)
	cmd.SysProcAttr = &syscall.SysProcAttr{Setpgid: true} // its own group, like a CI runner's step
	return cmd
}

func (r *campaignRound) run() {
	file := r.w.Path(r.owner)
	cmd := r.command(file)
	stderr, end, err := os.Pipe()
	if err != nil {
		r.w.T.Error(err)
		return
	}
	cmd.Stderr = end
	if err := cmd.Start(); err != nil {
		r.w.T.Error(err)
		return
	}
	end.Close()
	reader := startCampaignReader(stderr)
	defer reader.kill()
	ended := make(chan struct{})
	go func() {
		cmd.Wait()
		close(ended)
	}()
	var sampling sync.WaitGroup
	sampling.Go(func() { r.sampled.follow(file, ended) })

	begun, stopped := time.Now(), false // stopped: an act has stopped exec
	if r.want == exitLost && r.sampled.started(ended) {
		begun = time.Now() // before its command, exec would renew the lease and go on
	}
	for _, a := range r.acts {
		if a.target == "exec" {
			stopped = a.sig == syscall.SIGSTOP || stopped && a.sig != syscall.SIGCONT
		} else if !stopped && !r.sampled.started(ended) {
			break // exec ended without a command
		}
		select {
		case <-ended:
		case <-time.After(time.Until(begun.Add(a.after))):
			r.act(a, cmd, reader)
		}
	}
	if r.want < 0 {
		select {
		case <-ended:
		case <-time.After(2*time.Second + min(r.lasts, 3*time.Second)):
			// Stopped for good, or deaf: a CI runner would end it now.
			cmd.Process.Signal(syscall.SIGCONT)
			cmd.Process.Signal(syscall.SIGTERM)
		}
	}
	select {
	case <-ended:
	case <-time.After(clitest.Patience):
		r.w.T.Errorf("%s: exec does not end after %v", r.owner, r.acts)
		cmd.Process.Kill()
		<-ended
	}
	sampling.Wait()
	status := cmd.ProcessState.Sys().(syscall.WaitStatus)
	code := status.ExitStatus()
	if status.Signaled() {
		code = 128 + int(status.Signal())
		r.killed = status.Signal() == syscall.SIGKILL
	}
	if r.want >= 0 && code != r.want {
		r.w.T.Errorf("%s: exit code %d, want %d after %v, deaf: %t, command of %v with %d", r.owner, code, r.want, r.acts, r.deaf, r.lasts, r.code)
	}
	groupStopped := code == exitLost || r.want == code && r.acts[0].target == "exec" && r.acts[0].sig != syscall.SIGKILL && code > 128
	r.sampled.clear(r.w.T, fmt.Sprintf("%s: exit code %d after %v, deaf: %t", r.owner, code, r.acts, r.deaf), groupStopped)
}

func (r *campaignRound) act(a campaignAct, cmd *exec.Cmd, reader *campaignReader) {
	if a.sig == syscall.SIGKILL {
		r.kills++
	}
	switch a.target {
	case "exec":
		cmd.Process.Signal(a.sig)
	case "command":
		r.sampled.signal(1, a.sig)
	case "group":
		r.sampled.signal(-1, a.sig)
	case "reader":
		if a.sig == syscall.SIGKILL {
			reader.kill()
		} else {
			reader.stop()
		}
	}
}
