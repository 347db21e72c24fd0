package supervisor

import (
	"sync"
	"sync/atomic"
	"syscall"
	"time"

	"github.com/leasectl/leasectl/trap"
)

// signals are what leasectl hears while it runs commands.
type signals struct {
	chain     *trap.Chain
	listening <-chan struct{} // closed when all is heard that people send
	running   atomic.Bool     // a command is, or is about to be
	heard     chan syscall.Signal
}

// rareAfter delays installing 35 handlers of signals that hardly anybody sends,
// so that short commands do not pay for them.
const rareAfter = 10 * time.Millisecond

// hear makes the chain listen to what is to be forwarded, while the lease is
// being taken, until stop. ready is closed when the chain hears what asks leasectl
// to end, which may be later.
func hear(chain *trap.Chain, ready <-chan struct{}) (s *signals, stop func()) {
	listening, end := make(chan struct{}), make(chan struct{})
	s = &signals{chain: chain, listening: listening, heard: make(chan syscall.Signal, 64)}
	remove := chain.OnSignal(s.pass)
	var listener sync.WaitGroup
	listener.Go(func() {
		chain.Listen(trap.Signals()...)
		<-ready
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

// pass hands a signal to the watch of the command, if there is one. A signal that
// came before its start is not for it.
func (s *signals) pass(e trap.Event) error {
	if sig, ok := e.Signal.(syscall.Signal); ok && s.running.Load() {
		select {
		case s.heard <- sig:
		default: // 64 unread signals: the command is being stopped already
		}
	}
	return nil
}

// forward makes what comes from now on the command's, until stop.
func (s *signals) forward() (stop func()) {
	for len(s.heard) > 0 {
		<-s.heard // the command of the attempt before ended first
	}
	s.running.Store(true)
	return func() { s.running.Store(false) }
}
