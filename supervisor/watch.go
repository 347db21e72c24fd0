package supervisor

import (
	"errors"
	"sync"
	"syscall"
	"time"

	"github.com/leasectl/leasectl/holder"
	"github.com/leasectl/leasectl/trap"
)

// watch is a command that runs, and what may befall it.
type watch struct {
	Options
	child   *trap.Child
	signals <-chan syscall.Signal // to forward
	grace   time.Duration         // after a lost lease
	lost    <-chan struct{}       // the lease is
	cause   func() error          // why it is

	end     *End             // what the command was stopped for; nil: nothing yet
	stopped chan trap.Status // the first stop is over
	stops   sync.WaitGroup
}

// untilEnd forwards every signal to the command's group until the command ends.
// TERM, INT and a lost lease also bound its end by the grace period.
func (w *watch) untilEnd() End {
	w.stopped = make(chan trap.Status, 1)
	defer w.stops.Wait()
	done := w.child.Done()
	for {
		select {
		case sig := <-w.signals:
			w.signal(sig)
		case <-w.lost:
			w.lost = nil
			w.loseLease()
		case <-done:
			if w.end == nil {
				return End{Status: w.child.Wait()}
			}
			done = nil // its group may live on: the stop sees to that
		case status := <-w.stopped:
			w.end.Status = status
			return *w.end
		}
	}
}

// signal forwards sig. The first that asks for the end begins the grace period.
func (w *watch) signal(sig syscall.Signal) {
	if sig != syscall.SIGTERM && sig != syscall.SIGINT {
		w.child.Signal(sig)
		return
	}
	w.stop(End{Stopped: sig}, sig, w.GracePeriod)
}

// loseLease stops the command, or says that it goes on.
func (w *watch) loseLease() {
	err := w.cause()
	if w.WarnOnLost {
		w.Report.Failf("%v: the command goes on without it", err)
		return
	}
	sig, grace := syscall.SIGTERM, w.grace
	if l, ok := errors.AsType[*holder.Loss](err); ok && l.Over {
		sig, grace = syscall.SIGKILL, 0
	}
	w.stop(End{Lost: true}, sig, grace)
	w.Report.Failf("%v: stopping the command", err)
}

// stop sends sig to the group, and KILL when the grace period is over. What it
// was stopped for first is how the run ends.
func (w *watch) stop(end End, sig syscall.Signal, grace time.Duration) {
	if w.end == nil {
		w.end = &end
	}
	w.stops.Go(func() {
		status := w.child.Stop(sig, grace)
		select {
		case w.stopped <- status:
		default: // another stop has said so
		}
	})
}
