package main

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"time"
)

const (
	handOffExecRounds = 40
	// queueTime is how long a command gets to queue up, since most peers do not show that they wait:
	// etcdctl takes 15 ms until it waits. sem takes 80 ms.
	queueTime    = 150 * time.Millisecond
	semQueueTime = 250 * time.Millisecond
)

// wrapper is a command that runs another while it holds a lock.
type wrapper struct {
	name    string
	args    []string // before the command
	env     []string
	missing string
	every   int           // as in [contender]
	queues  time.Duration // how long it gets to queue up
	holder  *held         // the command that it runs; nil: none yet
	took    []float64
}

// measureHandOffExec measures the same hand-off as a shell user sees it: from the end of one
// command to the start of the next, with all that the wrappers do.
func measureHandOffExec(ctx context.Context, w *world) (_ []result, err error) {
	s, err := w.serve(ctx, "--pool", "one=1")
	if err != nil {
		return nil, err
	}
	defer func() { err = errors.Join(err, s.stop()) }()
	lock := wrapper{name: "etcdctl lock", missing: lacks("etcd", "etcdctl"), env: []string{"ETCDCTL_API=3"}, queues: queueTime}
	if lock.missing == "" {
		var e *server
		if e, err = w.etcd(ctx); err != nil { // not :=, since the result err gets how etcd ended
			return nil, err
		}
		defer func() { err = errors.Join(err, e.stop()) }()
		lock.args = []string{"etcdctl", "--endpoints", e.url, "lock", "bench"}
	}
	all := []*wrapper{
		{name: "leasectl", args: []string{w.leasectl, "exec", "--proxy", s.url, "--type", "one", "--"}, queues: queueTime},
		{name: "flock", args: []string{"flock", w.fresh("flock")}, missing: lacks("flock"), queues: queueTime},
		&lock,
		{name: "sem", args: []string{"sem", "--id", "bench", "--fg"}, missing: lacks("sem"), every: 5, queues: semQueueTime},
	}
	for round := range handOffExecRounds + 1 {
		for _, i := range rand.Perm(len(all)) { // as in race
			a := all[i]
			every := max(a.every, 1)
			if a.missing != "" || round%every != 0 {
				continue
			}
			took, err := w.handOver(ctx, a)
			if err != nil {
				return nil, err
			}
			if round > every { // its first round has no hand-off, and its second warms up
				a.took = append(a.took, took.Seconds())
			}
		}
	}
	var measures []measure
	for _, a := range all {
		if a.holder != nil {
			if err := errors.Join(a.holder.end(), a.holder.wait()); err != nil {
				return nil, err
			}
		}
		measures = append(measures, medianUnless(a.missing, a.name, a.took))
	}
	r := resultOf("from the end of a command to the start of the next", inSeconds, measures)
	r.budget("flock", atMost(2).missedTo(2.4))
	r.budget("etcdctl lock", atMost(1).missedTo(1.1))
	return []result{r}, nil
}

// handOver starts another command under a, ends the one that runs, and returns how long it takes
// from that end until the other one runs; zero if none ran before.
func (w *world) handOver(ctx context.Context, a *wrapper) (took time.Duration, err error) {
	before := a.holder
	next, err := w.hold(ctx, a)
	if err != nil {
		return 0, err
	}
	a.holder = next
	if before == nil {
		return 0, next.runs()
	}
	time.Sleep(a.queues)
	begin := time.Now()
	if err := before.end(); err != nil {
		return 0, err
	}
	if err := next.runs(); err != nil {
		return 0, err
	}
	return time.Since(begin), before.wait()
}

// held is a command under a wrapper. It reports on one FIFO that it runs, and ends when it can
// read from the other. FIFOs are used because wrappers differ in which other files they pass to
// their command.
type held struct {
	cmd      *exec.Cmd
	stderr   *strings.Builder
	up, down *os.File
}

func (w *world) hold(ctx context.Context, a *wrapper) (*held, error) {
	up, down := w.fresh("up"), w.fresh("down")
	h := &held{stderr: new(strings.Builder)}
	for path, file := range map[string]**os.File{up: &h.up, down: &h.down} {
		if err := syscall.Mkfifo(path, 0o600); err != nil {
			return nil, err
		}
		// Opened for reading and writing, so that neither side waits for the other to open it.
		f, err := os.OpenFile(path, os.O_RDWR, 0)
		if err != nil {
			return nil, err
		}
		*file = f
	}
	args := append(append([]string{}, a.args...), filepath.Join(w.peers, "hold.sh"), up, down)
	h.cmd = exec.CommandContext(ctx, args[0], args[1:]...)
	h.cmd.Env = append(w.environment(), a.env...)
	h.cmd.Stderr = h.stderr
	h.cmd.SysProcAttr = dyingWithUs()
	return h, h.cmd.Start()
}

// runs waits until the command runs.
func (h *held) runs() error {
	if err := h.up.SetReadDeadline(time.Now().Add(startTime)); err != nil {
		return err
	}
	_, err := h.up.Read(make([]byte, 1))
	if err != nil {
		return fmt.Errorf("%s does not run its command: %w: %s", filepath.Base(h.cmd.Path), err, h.stderr)
	}
	return nil
}

func (h *held) end() error {
	_, err := h.down.WriteString("\n")
	return err
}

// wait waits until the wrapper is gone.
func (h *held) wait() error {
	err := h.cmd.Wait()
	if err != nil {
		err = fmt.Errorf("%s: %w: %s", filepath.Base(h.cmd.Path), err, h.stderr)
	}
	return errors.Join(err, h.up.Close(), h.down.Close())
}
