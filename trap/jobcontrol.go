package trap

import (
	"os"
	"os/signal"
	"syscall"
)

// Job control. A shell that starts us has one job: our process group. The child
// is in another group, so the shell neither stops nor continues it; we do:
//
//	the child's group is stopped from the terminal
//	   → take the terminal back, stop our own group, as the terminal would have
//	we are continued (fg, bg)
//	   → hand over the terminal if we have it, continue the child
//	the child wants the terminal, and we have it
//	   → hand it over, continue the child
//
// A ^Z of the very moment in which the child first asks for the terminal may be
// lost: what continues the child discards a stop that is under way.
//
// A stop by SIGSTOP is none of this. It was meant for that process, whoever sent
// it continues it, and a supervisor that stops as well could not keep its lease.

// stopped deals with a stop of the child.
func (c *Child) stopped() {
	info, err := waitid(c.pid, waitStop|waitNow)
	if err != nil || info.code != codeStopped {
		return // it runs again
	}
	sig := syscall.Signal(info.status)
	if !c.mayFollow(sig) {
		return
	}
	continued := suspend(sig)

	c.mu.Lock()
	defer c.mu.Unlock()
	if !continued && sig != syscall.SIGTSTP {
		// Nobody could have continued us, so the kernel has not stopped us. The
		// child would only ask again for the terminal that it may not have.
		c.halted = true
		return
	}
	// If the kernel has not stopped us for a ^Z, then neither would it have
	// stopped the child in our place.
	c.tty.lend(c.pid)
	c.kill(syscall.SIGCONT)
}

// mayFollow decides whether a stop of the child is one for us too, and if so
// takes the terminal back.
func (c *Child) mayFollow(sig syscall.Signal) bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	switch {
	case c.tty == nil || sig != syscall.SIGTSTP && sig != syscall.SIGTTIN && sig != syscall.SIGTTOU:
		c.halted = true
		return false
	case sig != syscall.SIGTSTP && c.tty.lend(c.pid):
		c.kill(syscall.SIGCONT)
		return false
	case c.stopping > 0:
		return false // the grace period goes on; what is stopped gets SIGKILL
	}
	if c.tty.reclaim(c.pid) {
		c.tty.restoreModes()
	}
	return true
}

// continued deals with a SIGCONT that we got. After a stop of our own stopped
// continues the child, and the SIGCONT that ended that stop comes late: by now
// the child may have been stopped again.
func (c *Child) continued() {
	c.mu.Lock()
	forward := c.tty == nil || c.halted
	c.halted = false
	c.mu.Unlock()
	if forward {
		c.Signal(syscall.SIGCONT)
	}
}

// jobSignals is SIGTSTP and SIGCONT, as long as a child is there to get them.
type jobSignals struct{ in chan os.Signal }

func catchJobSignals() *jobSignals {
	// Both are merged while they are pending, so few can be on their way.
	j := &jobSignals{in: make(chan os.Signal, 8)}
	signal.Notify(j.in, syscall.SIGCONT)
	catchStop(j.in)
	return j
}

func (j *jobSignals) stop() {
	releaseStop(j.in)
	close(j.in)
}

func (c *Child) forwardJobSignals() {
	for sig := range c.jobs.in {
		if sig == syscall.SIGCONT {
			c.continued()
		} else {
			c.Signal(sig) // fails only if the child is gone
		}
	}
}
