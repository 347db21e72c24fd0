package supervisor

import (
	"context"
	"os"
	"slices"

	"github.com/leasectl/leasectl/holder"
	"github.com/leasectl/leasectl/trap/child"
	"github.com/leasectl/leasectl/trap/process"
)

// Run finds the command's file, takes a lease, runs the command, and gives the
// lease back. It does so again as long as attempts are left and the command's exit
// code is one of RetryOn. Each further attempt swaps the lease of the one before.
//
// The release at the end takes at most [holder.ReleaseTimeout], and 3 s if the run
// failed or the command was stopped.
//
// As process 1 it also reaps the orphans that it inherits.
//
// An error means that the last attempt had no lease, or that the command could
// not be started. A release that failed is reported and no error: the lease ends
// with its TTL.
func Run(ctx context.Context, h *holder.Holder, o Options) (End, error) {
	path, err := child.LookPath(o.Args[0])
	if err != nil {
		return End{}, err
	}
	if os.Getpid() == 1 {
		defer process.ReapOrphans()()
	}
	signals, stop := hear(o.Signals)
	defer stop()
	s := &supervisor{Options: o, h: h, path: path, signals: signals}
	s.prepared.Go(s.prepare)
	defer s.prepared.Wait()
	for attempt := 1; ; attempt++ {
		end, err := s.attempt(ctx, attempt)
		again := err == nil && !end.stopped() && attempt < o.Attempts &&
			end.Status.Signal == 0 && slices.Contains(o.RetryOn, end.Status.Code) && ctx.Err() == nil
		if !again {
			if err != nil || end.stopped() {
				ctx = ended(ctx)
			}
			s.giveBack(ctx)
			return end, err
		}
		s.Report.Notef("attempt %d of %d ended with exit code %d: taking the lease anew", attempt, o.Attempts, end.Status.Code)
	}
}

// prepare does what a run needs before its first command starts and what depends on no
// lease, while the proxy is asked for one: it installs handlers of signals. What asks
// leasectl to end comes first, since no request is sent before.
func (s *supervisor) prepare() {
	<-s.Listening
	s.signals.listen()
	child.Prepare()
}

// ended returns a context like ctx that is over, so that a release takes no longer
// than after a signal. A caller that waits for the end of a failed or stopped run
// does not care for its proxy.
func ended(ctx context.Context) context.Context {
	ctx, cancel := context.WithCancel(ctx)
	cancel()
	return ctx
}
