package supervisor

import (
	"sync"
	"syscall"
	"time"

	"github.com/leasectl/leasectl/trap"
)

// signals are the signals that leasectl hears while it runs commands.
type signals struct {
	chain *trap.Chain
	heard chan syscall.Signal
	rare  *time.Timer // installs the handlers of rare signals; nil: listen was not called
	late  sync.WaitGroup
}

// rareAfter delays installing the handlers of 35 signals that hardly anybody sends. That takes
// a millisecond, for which a short command should not wait on a slow machine either.
const rareAfter = 100 * time.Millisecond

// hear takes the signals that the chain hears until stop is called. stop must not be called
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

// listen makes the chain hear the signals to forward. It returns when the signals that people
// send are heard; the rare ones follow after rareAfter.
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
		default: // full: no command takes them, or it has 64 others to get
		}
	}
	return nil
}

// drop forgets the signals that came so far: they are not for the command that starts next.
func (s *signals) drop() {
	for len(s.heard) > 0 {
		<-s.heard
	}
}
