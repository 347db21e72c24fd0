package supervisor

import (
	"context"
	"fmt"
	"slices"
	"sync"
	"time"

	"github.com/leasectl/leasectl/internal/holder"
	"github.com/leasectl/leasectl/internal/supervisor/follow"
	"github.com/leasectl/leasectl/leaseapi"
)

// reportTime bounds how long a report delays the end of a run: only later runs need it. A test
// shortens it.
var reportTime = 3 * time.Second

// testimony is what one attempt finds out. The release of its lease takes it to the proxy. A
// match in the log is also reported at once.
type testimony struct {
	Witness
	lease  *holder.Lease
	report Reporter
	log    *follow.Log

	stop      context.CancelFunc // ends following
	abort     context.CancelFunc // ends a report that is being sent
	following sync.WaitGroup

	warned bool // that the log cannot be read

	// found is what following found in the log; zero: nothing. It may be read when following is
	// over.
	found holder.Outcome
	// told is the word that needs no report of its own: the proxy has it, or the lease had it
	// from the beginning, so that an early release took it along. "": none.
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
	} else if len(t.ThrottledOn) == 0 { // otherwise the exit code may say throttled
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

// end notes what the end of the command says, for the release of its lease. If the lease was
// released already, end tells the proxy now. It takes at most reportTime.
func (t *testimony) end(ctx context.Context, end End) {
	if t == nil {
		return
	}
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), reportTime)
	defer cancel()
	if t.log != nil {
		t.stop()
		if !t.lease.GivenBack() {
			t.abort() // the release tells the proxy
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

// outcome returns what the log and the end of the command say.
func (t *testimony) outcome(end End) holder.Outcome {
	switch {
	case t.found.Word != "":
		return t.found
	case !end.byItself():
		return holder.Outcome{} // the command did not get far enough to tell
	case slices.Contains(t.ThrottledOn, end.Status.Code):
		return holder.Outcome{Word: leaseapi.OutcomeThrottled, Detail: fmt.Sprintf("exit code %d", end.Status.Code)}
	case t.log != nil && t.log.Unread() != nil:
		if !t.warned {
			t.report.Failf("--in-log: %v: nothing is reported", t.log.Unread())
		}
		return holder.Outcome{} // the log may say throttled
	}
	if t.log != nil && !t.log.Found() {
		t.report.Notef("--in-log: there was no log %s: that counts as ok", t.Log) // with a mistyped path this happens each time
	}
	return holder.Outcome{Word: leaseapi.OutcomeOK}
}
