package supervisor

import (
	"context"
	"strings"
	"sync"
	"time"

	"github.com/leasectl/leasectl/holder"
	"github.com/leasectl/leasectl/leaseapi"
	"github.com/leasectl/leasectl/trap/child"
)

// supervisor is one run: its attempts, one after the other.
type supervisor struct {
	Options
	h        *holder.Holder
	path     string        // of the command's file
	lease    *holder.Lease // that is ours to give back; nil: none
	signals  *signals
	prepared sync.WaitGroup // of what the command needs beside a lease
}

// States of the lease, as the command sees them in LEASECTL_STATE.
const (
	StateAcquired = "acquired"
	stateSkipped  = "skipped"  // dry run
	stateDegraded = "degraded" // optional, and none was had
)

// confirmAfter puts off the call that confirms a grant: a command that ends
// before needs none, since its release says that the lease was received.
const confirmAfter = time.Second

// attempt takes a lease and runs the command once. An error means that the
// command did not run. The lease is still held, for the next attempt to swap.
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
	kept, grace := context.Background(), s.GracePeriod // without a lease none is lost
	if lease != nil {
		grace = s.graceWithin(lease)
		var end func()
		kept, end = lease.Keep(ctx, holder.KeepOptions{
			Margin:       grace + StopMargin,
			ConfirmAfter: confirmAfter,
			ReleaseAfter: s.ReleaseAfter,
		})
		defer end()
	}
	s.Report.Flush()
	testimony := s.witness(lease)
	stop := s.graceUnder()
	env := environment(s.Environment, lease, state)
	command, err := child.Start(child.Command{
		Path:        s.path,
		Args:        s.Args,
		Env:         withVariable(env, graceVariable, min(stop, grace).String()),
		Stdin:       s.Stdin,
		Stdout:      s.Stdout,
		Stderr:      s.Stderr,
		ParentDeath: s.ParentDeath,
		Peak:        lease != nil && lease.OfMemory(),
	})
	if err != nil {
		return End{}, err
	}
	s.Report.Debugf("attempt %d: process %d runs %s", n, command.Pid(), s.path)
	testimony.begin(ctx)
	w := watch{Options: s.Options, command: command, signals: s.signals.heard, kept: kept, grace: grace, stop: stop}
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

// witness begins to find out, before the command starts. It is nil if nobody asks, or
// there is no lease to tell of.
func (s *supervisor) witness(lease *holder.Lease) *testimony {
	if lease == nil || !s.Witness.asked() {
		return nil
	}
	return newTestimony(s.Witness, lease, s.Report)
}

// reportPeak says how much memory the command used, and leaves it to the lease for
// the proxy, where it stands beside what was asked for.
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
		r.Private = false // the attempt before may have written it
		r.Replaces = s.replaces
		if s.lease != nil {
			s.sayReleased(s.lease.ReleaseIfRemoved(ctx))
		}
	}
	lease, err := s.h.Acquire(ctx, r)
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

// replaces tells what a further attempt gives back before it acquires: the lease
// of the attempt before, or what its handle still owes. What another process has
// put into the handle meanwhile belongs to that process.
func (s *supervisor) replaces(r holder.Record) bool {
	return s.lease != nil && s.lease.Is(r) || r.State == holder.StateReleasing
}

// graceWithin returns the grace period that the granted TTL leaves time for, if
// the lease is lost because nobody could renew it, and says so if it is less than
// was asked for.
func (s *supervisor) graceWithin(lease *holder.Lease) time.Duration {
	grace := s.GracePeriod
	if ttl := lease.TTL(); ttl > 0 && !s.WarnOnLost {
		// Half the TTL is left for renewals, as the heartbeat sees to.
		grace = max(0, min(grace, ttl/2-StopMargin))
	}
	if grace < s.GracePeriod {
		s.Report.Failf("the lease was granted for %s: if it is lost, the command has %s to end, not the grace period of %s",
			leaseapi.Duration(lease.TTL()), leaseapi.Duration(grace), leaseapi.Duration(s.GracePeriod))
	}
	return grace
}

// nestedMargin is how long before its outer exec ends it a nested one has ended its own
// command: a release takes 3 s at most after a signal, and a timer may be late. It is at
// most half the time, since a command of a short one needs some, too.
const nestedMargin = 4 * time.Second

// graceUnder returns the grace period after a signal. Below another exec, which passes its
// signals on and kills this process at the end of its own grace period, it ends earlier:
// else the command, whose group the outer one does not know, would outlive both.
func (s *supervisor) graceUnder() time.Duration {
	outer, err := time.ParseDuration(variable(s.Environment, graceVariable))
	if err != nil || outer < 0 {
		return s.GracePeriod
	}
	return min(s.GracePeriod, outer-min(nestedMargin, outer/2))
}

// giveBack releases at the end of a run what it took itself.
func (s *supervisor) giveBack(ctx context.Context) {
	if s.lease == nil {
		return
	}
	released, err := s.lease.Release(ctx)
	if err != nil {
		s.lease.Leave()
	}
	s.sayReleased(released, err)
}

func (s *supervisor) sayReleased(released []string, err error) {
	if err != nil {
		s.Report.Failf("%v", err)
	} else if len(released) > 0 {
		s.Report.Notef("released %s", strings.Join(released, ", "))
	}
}
