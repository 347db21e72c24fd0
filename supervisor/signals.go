package supervisor

import (
	"sync"
	"syscall"
	"time"

	"github.com/leasectl/leasectl/trap"
	"github.com/leasectl/leasectl/trap/child"
)

// signals are what leasectl hears while it runs commands.
type signals struct {
	chain     *trap.Chain
	listening <-chan struct{} // closed when all is heard that people send, and a child can be started
	heard     chan syscall.Signal
}

// rareAfter delays installing 35 handlers of signals that hardly anybody sends: a
// millisecond of work, which a short command is not to pay for on a slow machine
// either.
const rareAfter = 100 * time.Millisecond

// hear makes the chain listen to what is to be forwarded, while the lease is
// being taken, until stop. ready is closed when the chain hears what asks leasectl
// to end, which may be later.
func hear(chain *trap.Chain, ready <-chan struct{}) (s *signals, stop func()) {
	listening, end := make(chan struct{}), make(chan struct{})
	s = &signals{chain: chain, listening: listening, heard: make(chan syscall.Signal, 64)}
	remove := chain.OnSignal(s.pass)
	var listener sync.WaitGroup
	listener.Go(func() {
		<-ready // first those that the program waits for
		chain.Listen(trap.Signals()...)
		child.Prepare()
		close(listening)
		late := time.NewTimer(rareAfter)
		defer late.Stop()
		select {
		case <-late.C:
			chain.Listen(trap.RareSignals()...)
		case <-end:
		}
	})
	return s, func() {
		close(end)
		listener.Wait()
		remove()
	}
}

// pass hands a signal to the watch of the command.
func (s *signals) pass(e trap.Event) error {
	if sig, ok := e.Signal.(syscall.Signal); ok {
		select {
		case s.heard <- sig:
		default: // nobody waits: no command runs, or one that has 64 others to get
		}
	}
	return nil
}

// drop forgets what came so far: it is not for the command that starts next.
func (s *signals) drop() {
	for len(s.heard) > 0 {
		<-s.heard
	}
}
