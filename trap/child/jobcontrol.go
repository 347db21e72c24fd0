package child

import (
	"os"
	"os/signal"
	"syscall"

	"github.com/leasectl/leasectl/trap/internal/sys"
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

// job is the child as a part of the shell's job that we are.
type job struct {
	group  *group
	halted bool // the child is stopped, and left so until somebody continues it; guarded by group.mu
}

// stopped deals with a stop of the child.
func (j *job) stopped() {
	info, err := sys.Waitid(j.group.id, sys.WaitStop|sys.WaitNow)
	sig, stopped := info.StopSignal()
	if err != nil || !stopped {
		return // it runs again
	}
	if !j.mayFollow(sig) {
		return
	}
	continued := suspend(sig)

	j.group.mu.Lock()
	defer j.group.mu.Unlock()
	if !continued && sig != syscall.SIGTSTP {
		// Nobody could have continued us, so the kernel has not stopped us. The
		// child would only ask again for the terminal that it may not have.
		j.halted = true
		return
	}
	// If the kernel has not stopped us for a ^Z, then neither would it have
	// stopped the child in our place.
	j.group.tty.lend(j.group.id)
	j.group.kill(syscall.SIGCONT)
}

// mayFollow decides whether a stop of the child is one for us too, and if so
// takes the terminal back.
func (j *job) mayFollow(sig syscall.Signal) bool {
	g := j.group
	g.mu.Lock()
	defer g.mu.Unlock()
	switch {
	case g.tty == nil || sig != syscall.SIGTSTP && sig != syscall.SIGTTIN && sig != syscall.SIGTTOU:
		j.halted = true
		return false
	case sig != syscall.SIGTSTP && g.tty.lend(g.id):
		g.kill(syscall.SIGCONT)
		return false
	case g.pins > 0:
		return false // the grace period goes on; what is stopped gets SIGKILL
	}
	if g.tty.reclaim(g.id) {
		g.tty.restoreModes()
	}
	return true
}

// forward passes on the job signals that we get, until they are stopped.
func (j *job) forward(signals jobSignals) {
	for sig := range signals {
		if sig == syscall.SIGCONT {
			j.continued()
		} else {
			j.group.signal(syscall.SIGTSTP) // fails only if the child is gone
		}
	}
}

// continued deals with a SIGCONT that we got. After a stop of our own, stopped
// continues the child. The SIGCONT that ended that stop arrives here later, and
// is not forwarded: the child may have been stopped again since.
func (j *job) continued() {
	j.group.mu.Lock()
	forward := j.group.tty == nil || j.halted
	j.halted = false
	j.group.mu.Unlock()
	if forward {
		j.group.signal(syscall.SIGCONT)
	}
}

// jobSignals is SIGTSTP and SIGCONT, as long as a child is there to get them.
type jobSignals chan os.Signal

func catchJobSignals() jobSignals {
	// Both are merged while they are pending, so few can be on their way.
	in := make(jobSignals, 8)
	signal.Notify(in, syscall.SIGCONT)
	catchStop(in)
	return in
}

func (in jobSignals) stop() {
	releaseStop(in)
	close(in)
}
