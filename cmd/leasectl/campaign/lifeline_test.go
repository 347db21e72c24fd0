package campaign

import (
	"fmt"
	"os"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/leasectl/leasectl/cmd/leasectl/clitest"
)

// lifeline follows a command and its group by their pids.
type lifeline struct {
	mu     sync.Mutex
	leader int // 0: not started
	member int
	last   time.Time // when the leader was last seen alive
	over   bool      // the leader has ended: another process may get its pid
}

// follow reads the pids from a file, and polls the leader until it has ended, but stops a while
// after the end of exec.
func (l *lifeline) follow(file string, ended <-chan struct{}) {
	var late time.Time
	for done := false; ; time.Sleep(2 * time.Millisecond) {
		select {
		case <-ended:
			if !done {
				done, late = true, time.Now().Add(clitest.Patience/4)
			}
		default:
		}
		l.look(file)
		if l.over || done && (l.leader == 0 || time.Now().After(late)) {
			return
		}
	}
}

func (l *lifeline) look(file string) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if text, err := os.ReadFile(file); l.leader == 0 && err == nil && strings.HasSuffix(string(text), "\n") {
		fmt.Sscan(string(text), &l.leader, &l.member)
	}
	if l.leader == 0 {
		return
	}
	if now := time.Now(); clitest.Lives(l.leader) {
		l.last = now
	} else {
		l.over = true
	}
}

// started waits until the command runs, or exec has ended. It returns whether the command has run.
func (l *lifeline) started(ended <-chan struct{}) bool {
	for {
		l.mu.Lock()
		started := l.leader != 0
		l.mu.Unlock()
		if started {
			return true
		}
		select {
		case <-ended:
			return false
		case <-time.After(time.Millisecond):
		}
	}
}

// signal sends a signal to the leader, or with -1 to its group, while the leader lives.
func (l *lifeline) signal(sign int, sig syscall.Signal) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.leader != 0 && !l.over && clitest.Lives(l.leader) {
		syscall.Kill(sign*l.leader, sig)
	}
}

// clear kills the rest of the group. If exec stopped the group, a rest is an error.
func (l *lifeline) clear(t *testing.T, round string, stopped bool) {
	if l.leader == 0 {
		return
	}
	if !l.over {
		t.Errorf("%s: the command outlives exec", round)
		syscall.Kill(-l.leader, syscall.SIGKILL)
	}
	group, err := syscall.Getpgid(l.member)
	if err != nil || group != l.leader {
		return
	}
	if stopped && clitest.Lives(l.member) {
		t.Errorf("%s: exec stopped the group, and %d of it lives", round, l.member)
	}
	syscall.Kill(-l.leader, syscall.SIGKILL)
}

// campaignReader reads the stderr of an exec and its command until it is stopped
// or killed.
type campaignReader struct {
	pipe   *os.File
	killed sync.Once
	gone   chan struct{}
}

func startCampaignReader(pipe *os.File) *campaignReader {
	r := &campaignReader{pipe: pipe, gone: make(chan struct{})}
	go func() {
		defer close(r.gone)
		buffer := make([]byte, 4096)
		for {
			if _, err := pipe.Read(buffer); err != nil {
				return
			}
		}
	}()
	return r
}

// stop ends the reading, and leaves the pipe open.
func (r *campaignReader) stop() { r.pipe.SetReadDeadline(time.Now()) }

func (r *campaignReader) kill() {
	r.killed.Do(func() {
		r.pipe.Close()
		<-r.gone
	})
}
