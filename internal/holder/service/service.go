// Package service runs the process that comes with a shared lease: it starts the process, finds
// out when it is ready and which variables it announces, keeps what it prints, and stops it.
//
// It guarantees:
//
//   - The service is a process group. It ends with the process that called [Start], even if that
//     is killed; see [child.Guarded].
//   - Its output never blocks it, however much it prints, whether or not the disk is full. The log
//     has its end, within [MaxLog].
//   - It counts as ready only if it lives when its variables are known.
//
// Its limit: a process that leaves the group (setsid) is not stopped with the service.
package service

import (
	"context"
	"fmt"
	"os"
	"regexp"
	"slices"
	"strings"
	"sync"
	"syscall"
	"time"

	"golang.org/x/sys/unix"

	"github.com/leasectl/leasectl/internal/child"
	"github.com/leasectl/leasectl/leaseapi"
)

// Options say which service to start.
type Options struct {
	Command string // for sh -c
	Dir     string
	Env     []string // the whole environment
	// Ready matches the line of its standard output that says that the service is ready; see
	// [Variables]. Nil: it is ready when it has run for a second.
	Ready *regexp.Regexp
	Log   string   // path of the file for its output
	Guard *os.File // see [child.StartGuarded]; Start closes it
}

// Service is a service that runs, or has run.
type Service struct {
	process *child.Guarded
	ready   chan struct{}
	done    chan struct{}
	out     *output
	reading sync.WaitGroup

	tooMany chan struct{} // closed if they are larger than MaxVariables

	mu        sync.Mutex
	variables []string
	size      int // of the variables
}

// watchTime is how long a service with a line that says ready is watched for more such lines, and
// one without for an early end.
const watchTime = time.Second

// drainTime bounds how long the output of an ended service is read: a process that left its group
// may hold the pipe, and go on printing.
const drainTime = 100 * time.Millisecond

// maxVariables is how many variables a service may have. Further ones are left out.
const maxVariables = 64

// MaxVariables is the size in bytes that the variables of a service may have in sum. They are kept in
// the record of the round, which is read again and again.
const MaxVariables = 256 << 10

// Start starts a service.
func Start(o Options) (*Service, error) {
	defer o.Guard.Close()
	stdout, stdoutW, err := os.Pipe()
	if err != nil {
		return nil, err
	}
	defer stdoutW.Close()
	stderr, stderrW, err := os.Pipe()
	if err != nil {
		stdout.Close()
		return nil, err
	}
	defer stderrW.Close()
	process, err := child.StartGuarded(child.Command{
		Path: "/bin/sh", Args: []string{"sh", "-c", o.Command}, Dir: o.Dir, Env: o.Env, Stdout: stdoutW, Stderr: stderrW,
	}, o.Guard)
	if err != nil {
		stdout.Close()
		stderr.Close()
		return nil, err
	}
	s := &Service{process: process, ready: make(chan struct{}), done: make(chan struct{}), tooMany: make(chan struct{}), out: openOutput(o.Log)}
	announced := make(chan []string)
	s.reading.Go(func() { s.out.copy(stdout, func(line string) { announce(announced, o.Ready, line) }) })
	s.reading.Go(func() { s.out.copy(stderr, nil) })
	go s.becomeReady(o.Ready, announced)
	go func() {
		<-process.Done()
		end := time.Now().Add(drainTime)
		stdout.SetReadDeadline(end)
		stderr.SetReadDeadline(end)
		s.reading.Wait()
		stdout.Close()
		stderr.Close()
		s.out.close()
		close(s.done)
	}()
	return s, nil
}

// announce sends the variables of a line on, if the line says that the service is ready.
func announce(announced chan<- []string, ready *regexp.Regexp, line string) {
	if ready == nil {
		return
	}
	if variables, is := Variables(ready, line); is {
		announced <- variables
	}
}

// becomeReady closes ready when the service is ready, unless it has ended. It receives what is
// announced as long as the output is read.
func (s *Service) becomeReady(ready *regexp.Regexp, announced <-chan []string) {
	var settled <-chan time.Time
	if ready == nil {
		settled = time.After(watchTime)
	}
	ended, over := s.process.Done(), false
	for {
		select {
		case variables := <-announced:
			if !over && !s.take(variables) {
				close(s.tooMany)
				over = true
			}
			if settled == nil && !over {
				settled = time.After(watchTime)
			}
		case <-settled:
			settled = nil
			if !over {
				close(s.ready)
			}
			over = true
		case <-ended:
			ended, over = nil, true
		case <-s.done:
			return
		}
	}
}

// take adds variables. It returns false if they are too large in sum.
func (s *Service) take(variables []string) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, v := range variables {
		name, _, _ := strings.Cut(v, "=")
		s.variables = slices.DeleteFunc(s.variables, func(had string) bool {
			same := strings.HasPrefix(had, name+"=")
			if same {
				s.size -= len(had)
			}
			return same
		})
		if len(s.variables) < maxVariables {
			s.variables = append(s.variables, v)
			s.size += len(v)
		}
	}
	return s.size <= MaxVariables
}

// Group returns the id of the service's process group.
func (s *Service) Group() int { return s.process.Group() }

// Ready returns a channel that is closed when the service is ready. It stays open if the service
// ends before.
func (s *Service) Ready() <-chan struct{} { return s.ready }

// TooMany returns a channel that is closed if the service announces variables larger than
// [MaxVariables]. Then it is never ready.
func (s *Service) TooMany() <-chan struct{} { return s.tooMany }

// Variables returns the variables that the service has announced, in the form of [os.Environ].
func (s *Service) Variables() []string {
	s.mu.Lock()
	defer s.mu.Unlock()
	return slices.Clone(s.variables)
}

// Done returns a channel that is closed when the service has ended, and its output is in the log.
func (s *Service) Done() <-chan struct{} { return s.done }

// Ended says how the service ended: "ended with exit code 3", or "was ended by SIGKILL". It blocks
// until the service has ended.
func (s *Service) Ended() string {
	<-s.done
	status := s.process.Wait()
	if status.Signal != 0 {
		return "was ended by " + unix.SignalName(status.Signal)
	}
	return fmt.Sprintf("ended with exit code %d", status.Code)
}

// LastLines returns the last lines that the service has printed, at most [maxLines], made
// printable.
func (s *Service) LastLines() []string { return s.out.lastLines() }

// Stop sends TERM to the service's group, and KILL to what is left after the grace period, and
// blocks until nothing of it is left.
func (s *Service) Stop(grace time.Duration) {
	s.process.Stop(syscall.SIGTERM, grace)
	<-s.done
}

// Kill sends KILL to the service's group, in the place of the rest of a grace period.
func (s *Service) Kill() { s.process.Stop(syscall.SIGKILL, 0) }

// KillGroup ends the process group of a service whose keeper is dead: it kills the group until its
// guard is gone, or ctx ends. It kills only while the guard surely lives, as long as the group is the
// service's. A group of 0 is not known here: KillGroup only waits.
func KillGroup(ctx context.Context, group int, guarded func() (lives, sure bool)) error {
	const pause = 2 * time.Millisecond
	for {
		lives, sure := guarded()
		if !lives {
			return nil
		}
		if sure && group > 1 {
			syscall.Kill(-group, syscall.SIGKILL)
		}
		select {
		case <-ctx.Done():
			return fmt.Errorf("end the process group %d of the service: %w", group, context.Cause(ctx))
		case <-time.After(pause):
		}
	}
}

// LastLine returns the last line in the log at path; "" if there is none.
func LastLine(path string) string {
	f, err := os.Open(path)
	if err != nil {
		return ""
	}
	defer f.Close()
	info, err := f.Stat()
	if err != nil {
		return ""
	}
	data := make([]byte, min(info.Size(), maxTail))
	n, _ := f.ReadAt(data, info.Size()-int64(len(data)))
	if lines := linesOf(data[:n]); len(lines) > 0 {
		return leaseapi.Clip(lines[len(lines)-1], maxLine)
	}
	return ""
}
