package supervisor

import (
	"context"
	"os"
	"slices"

	"github.com/leasectl/leasectl/internal/child"
	"github.com/leasectl/leasectl/internal/holder"
	"github.com/leasectl/leasectl/internal/process"
)

// Run finds the command's file, takes a lease, runs the command, and gives the lease back. It
// repeats this as long as attempts are left and the command's exit code is one of RetryOn. Each
// further attempt swaps the lease of the attempt before.
//
// The release at the end takes at most ten seconds, and 3 s if the run failed or
// the command was stopped; the last user of a service also waits until that is gone.
//
// As process 1 it also reaps the orphans that it inherits.
//
// An error means that the last attempt had no lease, or that its command was not started.
// A failed release is reported, but is no error: the lease ends with its TTL.
func Run(ctx context.Context, h *holder.Holder, o Options) (End, error) {
	path, err := child.LookPath(o.Args[0])
	if err != nil {
		return End{}, err
	}
	if os.Getpid() == 1 {
		defer process.ReapOrphans()()
	}
	if o.Shared != nil && o.Shared.Service != nil {
		o.Shared.Service.Environment = o.serviceEnvironment
	}
	signals, stop := hear(o.Signals)
	defer stop()
	s := &supervisor{Options: o, h: h, path: path, signals: signals}
	s.prepared.Go(s.prepare)
	defer s.prepared.Wait()
	for attempt := 1; ; attempt++ {
		end, err := s.attempt(ctx, attempt)
		again := err == nil && end.byItself() && slices.Contains(o.RetryOn, end.Status.Code) &&
			attempt < o.Attempts && ctx.Err() == nil
		if !again {
			if err != nil || end.stopped() {
				ctx = ended(ctx)
			}
			s.giveBack(ctx)
			return end, err
		}
		s.Report.Notef("attempt %d of %d ended with exit code %d: trying again", attempt, o.Attempts, end.Status.Code)
	}
}

// prepare installs the signal handlers that a run needs before its first command starts, while
// the proxy is asked for a lease.
func (s *supervisor) prepare() {
	s.signals.listen()
	child.Prepare()
}

// ended returns a cancelled copy of ctx, so that a release takes no longer than after a signal.
// A caller that waits for the end of a failed or stopped run should not wait for its proxy.
func ended(ctx context.Context) context.Context {
	ctx, cancel := context.WithCancel(ctx)
	cancel()
	return ctx
}
