package supervisor

import (
	"sync"
	"syscall"
	"time"

	"github.com/leasectl/leasectl/trap"
)

// signals are what leasectl hears while it runs commands.
type signals struct {
	chain *trap.Chain
	heard chan syscall.Signal
	rare  *time.Timer // installs the handlers of rare signals; nil: listen was not called
	late  sync.WaitGroup
}

// rareAfter delays installing 35 handlers of signals that hardly anybody sends: a
// millisecond of work, which a short command is not to pay for on a slow machine
// either.
const rareAfter = 100 * time.Millisecond

// hear takes what the chain hears until stop is called, which is not to be called
// while listen runs.
func hear(chain *trap.Chain) (s *signals, stop func()) {
	s = &signals{chain: chain, heard: make(chan syscall.Signal, 64)}
	remove := chain.OnSignal(s.pass)
	return s, func() {
		if s.rare != nil && s.rare.Stop() {
			s.late.Done()
		}
		s.late.Wait()
		remove()
	}
}

// listen makes the chain hear what is to be forwarded. It returns when all is heard
// that people send.
func (s *signals) listen() {
	s.chain.Listen(trap.Signals()...)
	s.late.Add(1)
	s.rare = time.AfterFunc(rareAfter, func() {
		defer s.late.Done()
		s.chain.Listen(trap.RareSignals()...)
	})
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
