// Package storetest runs the servers of databases for tests: processes that can be killed, stopped
// and started again, and that end when the process of the test ends (on Linux).
package storetest

import (
	"bytes"
	"net"
	"os"
	"os/exec"
	"sync"
	"syscall"
)

// Process is a server. The zero Process was not started.
type Process struct {
	mu     sync.Mutex
	cmd    *exec.Cmd     // nil: it was not started, or was killed
	ended  chan struct{} // closed when the process has ended
	log    string        // path
	before int64         // the length of log before the process was started
}

// Start starts cmd, which appends what it says to the file log. A process that was started before
// must have ended.
func (p *Process) Start(cmd *exec.Cmd, log string) error {
	file, err := os.OpenFile(log, os.O_CREATE|os.O_APPEND|os.O_WRONLY, 0o600)
	if err != nil {
		return err
	}
	defer file.Close()
	info, err := file.Stat()
	if err != nil {
		return err
	}
	cmd.Stdout, cmd.Stderr = file, file
	p.mu.Lock()
	defer p.mu.Unlock()
	if err := StartWithParent(cmd); err != nil {
		return err
	}
	ended := make(chan struct{})
	p.cmd, p.ended, p.log, p.before = cmd, ended, log, info.Size()
	go func() {
		cmd.Wait() // the reason of its end is in its log
		close(ended)
	}()
	return nil
}

// StartWithParent starts cmd. The kernel of Linux kills it when the process of the test ends in any
// way.
func StartWithParent(cmd *exec.Cmd) error {
	if cmd.SysProcAttr == nil {
		cmd.SysProcAttr = new(syscall.SysProcAttr)
	}
	dieWithParent(cmd.SysProcAttr)
	return cmd.Start()
}

// Running reports whether the process was started, and has not ended.
func (p *Process) Running() bool {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.running()
}

// running is Running. The caller holds p.mu.
func (p *Process) running() bool {
	if p.cmd == nil {
		return false
	}
	select {
	case <-p.ended:
		return false
	default:
		return true
	}
}

// Output returns the end of what the process has said since it was started.
func (p *Process) Output() []byte {
	p.mu.Lock()
	defer p.mu.Unlock()
	text, err := os.ReadFile(p.log)
	if err != nil {
		return nil
	}
	const enough = 4000 // for the sentences that say why a server ended, and a reader
	return bytes.TrimSpace(text[max(p.before, int64(len(text))-enough):])
}

// Kill kills the process and those that it has started, and waits for its end.
func (p *Process) Kill() {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.cmd == nil {
		return
	}
	p.signal(syscall.SIGKILL)
	<-p.ended
	p.cmd = nil
}

// Stop suspends the process and those that it has started, until Continue.
func (p *Process) Stop() {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.signal(syscall.SIGSTOP)
}

// Continue lets what was stopped go on.
func (p *Process) Continue() {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.signal(syscall.SIGCONT)
}

// signal sends s to the process and those that it has started. The caller holds p.mu.
func (p *Process) signal(s syscall.Signal) {
	if !p.running() {
		return
	}
	started := children(p.cmd.Process.Pid)
	p.cmd.Process.Signal(s) // first, so that it replaces none of the others
	for _, pid := range started {
		syscall.Kill(pid, s)
	}
}

// FreePorts returns n addresses of loopback, HOST:PORT, that are free at the moment.
func FreePorts(n int) (hosts []string, err error) {
	for range n {
		l, err := net.Listen("tcp", "127.0.0.1:0")
		if err != nil {
			return nil, err
		}
		defer l.Close()
		hosts = append(hosts, l.Addr().String())
	}
	return hosts, nil
}
