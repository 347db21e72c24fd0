package supervisor

import (
	"context"
	"errors"
	"syscall"
	"time"

	"github.com/leasectl/leasectl/internal/child"
	"github.com/leasectl/leasectl/internal/holder"
	"github.com/leasectl/leasectl/leaseapi"
)

// watch is a running command, and the events that may end it.
type watch struct {
	Options
	command *child.Process
	signals <-chan syscall.Signal // to forward
	kept    context.Context       // ends when the lease is lost, and says why

	lossGrace, signalGrace time.Duration // grace periods after a lost lease, and after a signal

	end End // why the command is stopped, if it is
}

// untilEnd forwards every signal to the command's group until the command ends. After TERM, INT
// or a lost lease the command has to end within the grace period.
func (w *watch) untilEnd() End {
	lost := w.kept.Done()
	for {
		select {
		case sig := <-w.signals:
			w.forward(sig)
		case <-lost:
			lost = nil
			w.loseLease(context.Cause(w.kept))
		case <-w.command.Done():
			w.end.Status = w.command.Wait()
			return w.end
		}
	}
}

// forward sends sig to the command. The first TERM or INT also begins a grace period, even if
// the command is being stopped for its lost lease: the rest of that grace period may be longer.
func (w *watch) forward(sig syscall.Signal) {
	if asksToEnd := sig == syscall.SIGTERM || sig == syscall.SIGINT; !asksToEnd || w.end.Stopped != 0 {
		w.command.Signal(sig)
		return
	}
	if !w.command.Stop(sig, w.signalGrace) {
		return // the command ended by itself
	}
	w.end.Stopped = sig
	if w.signalGrace < w.GracePeriod {
		w.Report.Failf("the outer exec ends first: the command has %s to end, not the grace period of %s",
			leaseapi.Duration(w.signalGrace), leaseapi.Duration(w.GracePeriod))
	}
}

// loseLease stops the command when its lease is lost by err; with WarnOnLost it only says so.
func (w *watch) loseLease(err error) {
	if w.WarnOnLost {
		w.Report.Failf("%v: the command goes on without it", err)
		return
	}
	sig, grace := syscall.SIGTERM, w.lossGrace
	if l, ok := errors.AsType[*holder.Loss](err); ok {
		grace = l.Grace(grace, StopMargin/2)
		if grace == 0 && w.lossGrace > 0 { // as after a suspension: somebody else may have the lease
			sig = syscall.SIGKILL
		}
	}
	if !w.command.Stop(sig, grace) {
		return // the command ended by itself, such as while leasectl was suspended
	}
	w.end.Lost = !w.end.stopped()
	w.Report.Failf("%v: stopping the command", err)
}
