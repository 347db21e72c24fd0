package supervisor

import (
	"context"
	"fmt"
	"slices"
	"sync"
	"time"

	"github.com/leasectl/leasectl/holder"
	"github.com/leasectl/leasectl/leaseapi"
	"github.com/leasectl/leasectl/supervisor/follow"
)

// reportTime bounds what a report costs the end of a run: it is for later runs. A test
// shortens it.
var reportTime = 3 * time.Second

// testimony is what one attempt finds out. Its lease carries it to the proxy with the
// release. What is found in the log is told at once, too.
type testimony struct {
	Witness
	lease  *holder.Lease
	report Reporter
	log    *follow.Log

	stop      context.CancelFunc // of following
	abort     context.CancelFunc // of telling
	following sync.WaitGroup

	warned bool // that the log cannot be read

	// found is what following saw in the log, to be read when that is over; zero: nothing.
	found holder.Outcome
	// told is the word that needs no report of its own: the proxy has it, or the lease
	// had it from the beginning, so that an early release took it along. Empty: none.
	told string
}

func newTestimony(w Witness, lease *holder.Lease, report Reporter) *testimony {
	t := &testimony{Witness: w, lease: lease, report: report}
	if t.Log != "" {
		t.log = follow.New(t.Log)
	}
	return t
}

// begin follows the log of a command that has started.
func (t *testimony) begin(ctx context.Context) {
	if t == nil || t.log == nil {
		return
	}
	if err := t.log.Unread(); err != nil {
		t.warned = true
		t.report.Failf("--in-log: %v: nothing is reported unless it can be read later", err)
	} else if len(t.ThrottledOn) == 0 { // else the end of the command may say otherwise
		t.told = leaseapi.OutcomeOK
		t.lease.Tell(holder.Outcome{Word: t.told})
	}
	ctx = context.WithoutCancel(ctx)
	following, stop := context.WithCancel(ctx)
	telling, abort := context.WithCancel(ctx)
	t.stop, t.abort = stop, abort
	t.following.Go(func() {
		line, found := t.log.Find(following, t.Throttled.Match)
		if !found {
			return
		}
		t.found = holder.Outcome{Word: leaseapi.OutcomeThrottled, Detail: line}
		t.lease.Tell(t.found)
		t.report.Notef("the account throttles: %.200s", leaseapi.Printable(line))
		_, err := t.lease.Report(telling, t.found)
		switch {
		case err == nil:
			t.told = t.found.Word
		case telling.Err() == nil:
			t.report.Notef("%v: it goes with the release", err)
		}
	})
}

// end notes what the end of the command says, for the release of its lease. If that
// has happened already, the proxy is told now. It takes at most reportTime.
func (t *testimony) end(ctx context.Context, end End) {
	if t == nil {
		return
	}
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), reportTime)
	defer cancel()
	if t.log != nil {
		t.stop()
		if !t.lease.GivenBack() {
			t.abort() // the release tells it
		}
		context.AfterFunc(ctx, t.abort) // at the latest when this call is over
		t.following.Wait()
	}
	outcome := t.outcome(end)
	t.lease.Tell(outcome)
	if outcome.Word == "" || outcome.Word == t.told || !t.lease.GivenBack() {
		return
	}
	if _, err := t.lease.Report(ctx, outcome); err != nil {
		t.report.Failf("%v", err)
	}
}

// outcome is what the log and the end of the command say.
func (t *testimony) outcome(end End) holder.Outcome {
	switch {
	case t.found.Word != "":
		return t.found
	case !end.byItself():
		return holder.Outcome{} // it did not get far enough to tell
	case slices.Contains(t.ThrottledOn, end.Status.Code):
		return holder.Outcome{Word: leaseapi.OutcomeThrottled, Detail: fmt.Sprintf("exit code %d", end.Status.Code)}
	case t.log != nil && t.log.Unread() != nil:
		if !t.warned {
			t.report.Failf("--in-log: %v: nothing is reported", t.log.Unread())
		}
		return holder.Outcome{} // it may say otherwise
	}
	if t.log != nil && !t.log.Found() {
		t.report.Notef("--in-log: there was no log %s: that counts as ok", t.Log) // a mistyped path does so each time
	}
	return holder.Outcome{Word: leaseapi.OutcomeOK}
}
