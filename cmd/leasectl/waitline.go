package main

import (
	"context"
	"errors"
	"fmt"
	"net"
	"time"

	"github.com/leasectl/leasectl/holder"
	"github.com/leasectl/leasectl/leaseapi"
	"github.com/leasectl/leasectl/proxyclient"
)

// A waiting user is told what for, at which place, why, who has held longest, for how
// long still, and which page of the proxy shows it: every 30 s on a new line in a log,
// on a terminal every second in the same one.
const (
	// firstReport is when a wait is worth a line: most waits are shorter.
	firstReport = 2 * time.Second
	// firstNews is how long the first line waits for the proxy's word on the
	// queue, which is asked for at that time.
	firstNews = 3 * time.Second
	logEvery  = 30 * time.Second
	liveEvery = time.Second
)

// showWait tells of a wait until stop is called.
func showWait(w *holder.Wait, m *messenger) (stop func()) {
	return proxyclient.After(context.Background(), firstReport, func(ctx context.Context) {
		if m.live {
			tellOfWait(ctx, w, liveEvery, liveLine(w, m))
			m.show("")
		} else {
			tellOfWait(ctx, w, logEvery, m.say)
		}
	})
}

// liveLine shows a line below the others. A terminal that is too narrow for it
// gets it in full once for each holder, or nobody could read who that is.
func liveLine(w *holder.Wait, m *messenger) func(string) {
	var said leaseapi.Lease
	return func(line string) {
		q, _ := w.Queued()
		if q.Oldest != nil && q.Oldest.Lease != said && m.fit(line) != line {
			said = q.Oldest.Lease
			m.say(line)
		}
		m.show(line)
	}
}

// tellOfWait calls tell with how the wait stands until ctx ends: first when something
// is known, then every so often.
func tellOfWait(ctx context.Context, w *holder.Wait, every time.Duration, tell func(string)) {
	select {
	case <-w.Heard():
	case <-ctx.Done():
	case <-time.After(firstNews):
	}
	for ctx.Err() == nil {
		tell("leasectl: " + leaseapi.Printable(waitLine(w, time.Now())))
		if proxyclient.Sleep(ctx, every) != nil {
			return
		}
	}
}

// waitLine says how a wait stands. While the proxy fails, nobody knows of a queue.
func waitLine(w *holder.Wait, now time.Time) string {
	if t := w.Trouble(); t.Err != nil {
		return fmt.Sprintf("%s; trying since %s", troubleWith(t.Err), t.Since.Local().Format(time.TimeOnly))
	}
	line := fmt.Sprintf("waiting %s for a lease of type %q", leaseapi.Duration(now.Sub(w.Begun).Round(time.Second)), w.Type)
	q, at := w.Queued()
	if place := holder.DescribeQueue(q, at, now); place != "" {
		line += ": " + place
	}
	if q.Page != "" {
		line += "; " + q.Page
	}
	return line
}

// troubleWith says whether the proxy is there, and what it said last.
func troubleWith(err error) string {
	if standby, ok := errors.AsType[*proxyclient.NotLeaderError](err); ok && standby.Leader == "" {
		return "no server of the proxy leads"
	}
	if _, network := errors.AsType[net.Error](err); network {
		return fmt.Sprintf("cannot reach the proxy: %v", err)
	}
	return fmt.Sprintf("the proxy does not serve: %v", err)
}
