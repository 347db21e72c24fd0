package child

import (
	"os"
	"os/signal"
	"sync"
	"syscall"

	"github.com/leasectl/leasectl/internal/sys"
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
// A ^Z at the moment when the child first asks for the terminal may be lost: the
// SIGCONT that continues the child discards a pending stop.
//
// We do not follow a stop by SIGSTOP: its sender meant that one process and will
// continue it. A supervisor that stopped as well could not keep its lease. But we
// take the terminal back: the child may have stopped itself, as bash's suspend does,
// and the keys of the terminal would reach nobody.

// job makes the child stop and continue with our process group, the shell's job.
type job struct {
	group  *group
	halted bool // the child stays stopped until somebody else continues it; guarded by group.mu
}

// stopped handles a stop of the child. If mayFollow allows it, it stops our process group too,
// and continues the child afterwards.
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
		// The kernel has not stopped us, since nobody could continue us. If we
		// continued the child, it would ask for the terminal and stop again.
		j.halted = true
		return
	}
	// Continue the child even if the kernel has not stopped us for a ^Z: in our place it would
	// not have stopped the child either.
	j.group.tty.lend(j.group.id)
	j.group.kill(syscall.SIGCONT)
}

// mayFollow decides whether our group stops with the child, and if so takes the
// terminal back. A child that only lacked the terminal gets it and goes on.
func (j *job) mayFollow(sig syscall.Signal) bool {
	g := j.group
	g.mu.Lock()
	defer g.mu.Unlock()
	switch {
	case g.tty == nil || sig != syscall.SIGTSTP && sig != syscall.SIGTTIN && sig != syscall.SIGTTOU:
		j.halted = true
		if g.tty.reclaim(g.id) {
			g.tty.restoreModes()
		}
		return false
	case sig != syscall.SIGTSTP && g.tty.lend(g.id):
		g.kill(syscall.SIGCONT)
		return false
	case g.pins > 0:
		return false // Process.Stop is under way, and ends stopped processes too
	}
	if g.tty.reclaim(g.id) {
		g.tty.restoreModes()
	}
	return true
}

// forward sends the job signals that we get to the child, until signals are stopped.
func (j *job) forward(signals jobSignals) {
	for {
		select {
		case sig := <-signals.heard:
			if sig == syscall.SIGCONT {
				j.continued()
			} else {
				j.group.signal(syscall.SIGTSTP) // an error means that the child has ended
			}
		case <-signals.stopped:
			return
		}
	}
}

// continued handles a SIGCONT that we got. It is forwarded to a child that is
// halted or has no terminal. After a stop of our own the method stopped continues
// the child; the SIGCONT that ended our stop arrives here later, and is dropped,
// since the child may have been stopped again.
func (j *job) continued() {
	j.group.mu.Lock()
	forward := j.group.tty == nil || j.halted
	j.halted = false
	j.group.mu.Unlock()
	if forward {
		j.group.signal(syscall.SIGCONT)
	}
}

// jobSignals are the SIGTSTP and SIGCONT that we get while a child lives.
type jobSignals struct {
	heard   chan os.Signal
	stopped chan struct{}
}

// unheard are the channels of children that have ended, for later children. The runtime goes on
// sending to them, although nobody receives: to stop it, and to listen again for the next
// child, would take two switches of threads each time.
var unheard struct {
	sync.Mutex
	channels []chan os.Signal
}

// Prepare installs the signal handlers of job control, as the first [Start] would. That takes
// as long as starting a process, so a program that waits for something before it starts its
// first command calls Prepare meanwhile. A ^Z in the microseconds of this call may be lost.
func Prepare() { catchJobSignals().stop(new(sync.WaitGroup)) }

func catchJobSignals() jobSignals {
	s := jobSignals{stopped: make(chan struct{})}
	unheard.Lock()
	if last := len(unheard.channels) - 1; last >= 0 {
		s.heard, unheard.channels = unheard.channels[last], unheard.channels[:last]
	}
	unheard.Unlock()
	if s.heard == nil {
		// The kernel merges pending signals, so few can be unread at once.
		s.heard = make(chan os.Signal, 8)
		signal.Notify(s.heard, syscall.SIGCONT)
	}
	for len(s.heard) > 0 {
		<-s.heard // came when no child lived
	}
	catchStop(s.heard)
	return s
}

// stop undoes catchJobSignals, and waits for the goroutine that forwards the signals.
func (s jobSignals) stop(forwarding *sync.WaitGroup) {
	releaseStop()
	close(s.stopped)
	forwarding.Wait()
	unheard.Lock()
	defer unheard.Unlock()
	unheard.channels = append(unheard.channels, s.heard)
}
