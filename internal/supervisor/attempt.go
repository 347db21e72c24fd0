package supervisor

import (
	"context"
	"strings"
	"sync"
	"time"

	"github.com/leasectl/leasectl/internal/child"
	"github.com/leasectl/leasectl/internal/holder"
	"github.com/leasectl/leasectl/internal/holder/shared"
	"github.com/leasectl/leasectl/leaseapi"
)

// supervisor is one run: its attempts, one after the other.
type supervisor struct {
	Options
	h        *holder.Holder
	path     string        // of the command's file
	lease    *holder.Lease // to give back at the end; nil: none
	signals  *signals
	prepared sync.WaitGroup // of prepare
}

// States of the lease, as the command sees them in LEASECTL_STATE.
const (
	StateAcquired = "acquired"
	stateSkipped  = "skipped"  // dry run
	stateDegraded = "degraded" // optional, and there was none
)

// attempt takes a lease and runs the command once. An error means that the command did not run.
// The lease stays held, for the next attempt to swap.
func (s *supervisor) attempt(ctx context.Context, n int) (End, error) {
	lease, state, err := s.acquire(ctx, n)
	if err != nil {
		return End{}, err
	}
	s.prepared.Wait()
	s.signals.drop()
	if err := context.Cause(ctx); err != nil {
		return End{}, err // a signal came between the grant and now
	}
	w := watch{Options: s.Options, signals: s.signals.heard, signalGrace: s.graceAfterSignal()}
	w.kept, w.lossGrace = context.Background(), s.GracePeriod // without a lease nothing can be lost
	if lease != nil {
		w.lossGrace = s.graceAfterLoss(lease)
		var end func()
		w.kept, end = lease.Keep(ctx, holder.KeepOptions{
			Margin:       w.lossGrace + StopMargin,
			ConfirmAfter: holder.ConfirmAfter,
			ReleaseAfter: s.ReleaseAfter,
		})
		defer end()
	}
	s.Report.Flush()
	testimony := s.witness(lease)
	command, err := s.start(lease, state, min(w.signalGrace, w.lossGrace))
	if err != nil {
		return End{}, err
	}
	s.Report.Debugf("attempt %d: process %d runs %s", n, command.Pid(), s.path)
	testimony.begin(ctx)
	w.command = command
	end := w.untilEnd()
	testimony.end(ctx, end)
	if peak, known := command.Peak(); known {
		s.reportPeak(lease, peak)
	}
	if lease != nil && s.Request.Coalesce != "" && end.byItself() && ctx.Err() == nil {
		lease.Exited(end.Status.Code)
	}
	return end, nil
}

// start starts the command, and tells it about its lease. A nested exec gets grace as the time
// that it has to end after a signal.
func (s *supervisor) start(lease *holder.Lease, state string, grace time.Duration) (*child.Process, error) {
	env := environment(s.Environment, lease, state)
	return child.Start(child.Command{
		Path:        s.path,
		Args:        s.Args,
		Env:         withVariable(env, graceVariable, grace.String()),
		Stdin:       s.Stdin,
		Stdout:      s.Stdout,
		Stderr:      s.Stderr,
		ParentDeath: s.ParentDeath,
		Peak:        lease != nil && lease.OfMemory(),
	})
}

// witness returns the testimony of an attempt, and opens its log before the command starts. It
// is nil if the user asked for none, or if there is no lease to report on.
func (s *supervisor) witness(lease *holder.Lease) *testimony {
	if lease == nil || !s.Witness.asked() {
		return nil
	}
	return newTestimony(s.Witness, lease, s.Report)
}

// reportPeak tells the user how much memory the command used. The lease tells the proxy, which
// shows it beside the units that were asked for.
func (s *supervisor) reportPeak(lease *holder.Lease, peak child.Peak) {
	source, whose := leaseapi.PeakOfProcess, "its largest process"
	if peak.Cgroup {
		source, whose = leaseapi.PeakOfCgroup, "its cgroup"
	}
	lease.Used(leaseapi.Peak{Bytes: peak.Bytes, Source: source})
	s.Report.Notef("peak memory of the command: %d MiB (%s); units: %d", (peak.Bytes+1<<20-1)>>20, whose, lease.Units())
}

// acquire takes the lease of one attempt, or says why there is none.
func (s *supervisor) acquire(ctx context.Context, attempt int) (*holder.Lease, string, error) {
	if s.DryRun {
		return nil, stateSkipped, nil
	}
	r := s.Request
	if attempt > 1 {
		r.Private = false // the attempt before may have written the handle
		r.Replaces = s.replaces
		if s.lease != nil {
			s.sayReleased(s.lease.ReleaseIfRemoved(ctx))
		}
	}
	lease, err := s.take(ctx, r)
	switch {
	case err == nil:
		s.lease = lease
		s.Report.Notef("acquired %s for %s", strings.Join(lease.Names(), ", "), lease.Owner())
		return lease, StateAcquired, nil
	case s.Optional && holder.Denied(ctx, err):
		s.Report.Failf("%s runs without a lease: %s", s.Args[0], holder.Describe(err))
		return nil, stateDegraded, nil
	}
	return nil, "", err
}

// take acquires a lease for this run alone, or takes part in a shared one.
func (s *supervisor) take(ctx context.Context, r holder.Request) (*holder.Lease, error) {
	if s.Shared != nil {
		return shared.Acquire(ctx, s.h, *s.Shared, r)
	}
	return s.h.Acquire(ctx, r)
}

// replaces tells whether a further attempt gives r back before it acquires: r is the lease of
// the attempt before, or the release of its handle has begun, or the handle is of this run alone. A lease
// that another process has put into a handle that the user named belongs to that process.
func (s *supervisor) replaces(r holder.Record) bool {
	return s.Request.Private && !r.Bare() || s.lease != nil && s.lease.Is(r) || r.State == holder.HandleReleasing
}

// graceAfterLoss returns the grace period of the command if its lease is lost because nobody
// could renew it. If the granted TTL leaves less time than the user asked for, the period is cut
// to that, and graceAfterLoss says so.
func (s *supervisor) graceAfterLoss(lease *holder.Lease) time.Duration {
	grace := s.GracePeriod
	if ttl := lease.TTL(); ttl > 0 && !s.WarnOnLost {
		// The other half of the TTL is for renewals, as the heartbeat sees to.
		grace = max(0, min(grace, ttl/2-StopMargin))
	}
	if grace < s.GracePeriod {
		s.Report.Failf("the lease was granted for %s: if it is lost, the command has %s to end, not the grace period of %s",
			leaseapi.Duration(lease.TTL()), leaseapi.Duration(grace), leaseapi.Duration(s.GracePeriod))
	}
	return grace
}

// nestedMargin is how long before the outer exec kills it a nested exec must have ended its own
// command: a release takes 3 s at most after a signal, and a timer may be late. graceAfterSignal
// subtracts at most half of the outer grace period, so that a short one leaves time for the
// command.
const nestedMargin = 4 * time.Second

// graceAfterSignal returns the grace period of the command after a signal. An outer exec passes
// its signals on, and kills this process at the end of its own grace period. So the grace period
// of a nested exec ends earlier: else the command, whose group the outer exec does not know,
// would outlive both.
func (s *supervisor) graceAfterSignal() time.Duration {
	outer, err := time.ParseDuration(variable(s.Environment, graceVariable))
	if err != nil || outer < 0 {
		return s.GracePeriod
	}
	return min(s.GracePeriod, outer-min(nestedMargin, outer/2))
}

// giveBack releases, at the end of a run, the lease that the run took.
func (s *supervisor) giveBack(ctx context.Context) {
	if s.lease == nil {
		return
	}
	released, err := s.lease.Release(ctx)
	if err != nil {
		s.lease.Leave()
	}
	s.sayReleased(released, err)
	s.sayReleased(s.lease.Vacate(ctx, s.Request.Private))
}

func (s *supervisor) sayReleased(released []string, err error) {
	if err != nil {
		s.Report.Failf("%v", err)
	} else if len(released) > 0 {
		s.Report.Notef("released %s", strings.Join(released, ", "))
	}
}
