package main

import (
	"context"
	"fmt"
	"strings"
	"sync"
	"time"

	"github.com/leasectl/leasectl/holder"
	"github.com/leasectl/leasectl/leaseapi"
	"github.com/leasectl/leasectl/proxyclient"
)

// A waiting user is told what for, at which place, how many are in use, and
// who has held longest: every 30 s on a new line in a log, on a terminal every
// second in the same one.
const (
	// firstReport is when a wait is worth a line: most waits are shorter. It is
	// a little later than the answer on the place in the queue.
	firstReport = 2100 * time.Millisecond
	logEvery    = 30 * time.Second
	liveEvery   = time.Second
)

// showWait tells of a wait until stop is called.
func showWait(w *holder.Wait, m *messenger) (stop func()) {
	ctx, cancel := context.WithCancel(context.Background())
	var shown sync.WaitGroup
	shown.Go(func() {
		every, show := logEvery, m.say
		if m.live {
			every, show = liveEvery, m.show
		}
		for pause := firstReport; proxyclient.Sleep(ctx, pause) == nil; pause = every {
			show("leasectl: " + leaseapi.Printable(waitLine(w, time.Now())))
		}
		if m.live {
			m.show("")
		}
	})
	return func() { cancel(); shown.Wait() }
}

// waitLine says how a wait stands.
func waitLine(w *holder.Wait, now time.Time) string {
	if t := w.Trouble(); t.Err != nil {
		return fmt.Sprintf("no good answer from the proxy since %s: %v", t.Since.Local().Format(time.TimeOnly), t.Err)
	}
	var b strings.Builder
	fmt.Fprintf(&b, "waiting %s for a lease of type %q", leaseapi.Duration(now.Sub(w.Begun).Round(time.Second)), w.Type)
	q, at := w.Queued()
	if q.Place > 0 {
		fmt.Fprintf(&b, ": place %d of %d", q.Place, q.Length)
	}
	if q.Capacity > 0 {
		fmt.Fprintf(&b, ", %d of %d in use", q.InUse, q.Capacity)
	}
	if o := q.Oldest; o != nil {
		since := at.Add(-time.Duration(o.Age))
		fmt.Fprintf(&b, ", held longest by %s since %s", o.Owner, since.Format(time.TimeOnly))
	}
	if left := time.Duration(q.Estimate) - now.Sub(at); q.Estimate > 0 && left > 0 {
		fmt.Fprintf(&b, ", about %s to go", leaseapi.Duration(left.Round(time.Second)))
	}
	return b.String()
}
