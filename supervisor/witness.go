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

// reportTime bounds what a report costs the end of a run: it is for later runs.
const reportTime = 3 * time.Second

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

	// Of the log; valid when following is over.
	throttled bool
	told      bool // the proxy has it
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
	if len(t.ThrottledOn) == 0 { // else its end may say otherwise
		t.lease.Tell(holder.Outcome{Word: leaseapi.OutcomeOK})
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
		outcome := holder.Outcome{Word: leaseapi.OutcomeThrottled, Detail: line}
		t.throttled = true
		t.lease.Tell(outcome)
		t.report.Notef("the account throttles: %.200s", leaseapi.Printable(line))
		_, err := t.lease.Report(telling, outcome)
		if t.told = err == nil; !t.told && telling.Err() == nil {
			t.report.Notef("%v: it goes with the release", err)
		}
	})
}

// end notes what the end of the command says, for the release of its lease. If that
// has happened already, the proxy is told now.
func (t *testimony) end(ctx context.Context, end End) {
	if t == nil {
		return
	}
	wasOK := t.log != nil && len(t.ThrottledOn) == 0 // it went with an earlier release
	if t.log != nil {
		t.stop()
		if !t.lease.GivenBack() {
			t.abort() // the release tells it
		}
		t.following.Wait()
		t.abort()
	}
	outcome := holder.Outcome{Word: leaseapi.OutcomeOK}
	switch code := end.Status.Code; {
	case t.throttled && t.told:
		return
	case t.throttled:
		outcome.Word = leaseapi.OutcomeThrottled
	case end.Status.Signal == 0 && !end.stopped() && slices.Contains(t.ThrottledOn, code):
		outcome = holder.Outcome{Word: leaseapi.OutcomeThrottled, Detail: fmt.Sprintf("exit code %d", code)}
	case end.Status.Signal != 0 || end.stopped():
		outcome = holder.Outcome{} // it did not get far enough to tell
	}
	if !t.throttled {
		t.lease.Tell(outcome)
	}
	if outcome.Word == "" || outcome.Word == leaseapi.OutcomeOK && wasOK || !t.lease.GivenBack() {
		return
	}
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), reportTime)
	defer cancel()
	if _, err := t.lease.Report(ctx, outcome); err != nil {
		t.report.Failf("%v", err)
	}
}
