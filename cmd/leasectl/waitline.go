package main

import (
	"context"
	"errors"
	"fmt"
	"net"
	"time"

	"github.com/leasectl/leasectl/cmd/leasectl/console"
	"github.com/leasectl/leasectl/internal/holder"
	"github.com/leasectl/leasectl/leaseapi"
	"github.com/leasectl/leasectl/proxyclient"
)

// A line about a wait says what the user waits for, at which place, why, who has held longest, for
// how long still, until when, and which page of the proxy shows the queue. A log gets a new line when
// something has changed, every 30 s at most, and else ever more rarely; on a terminal one line is
// rewritten every second.
const (
	// firstReport is how long a wait must last before it gets a line: most waits are shorter.
	firstReport = leaseapi.FirstSlice
	// firstNews is how long the first line waits for the proxy's answer about the queue, which comes
	// when firstReport is over.
	firstNews = 3 * time.Second
	logEvery  = 30 * time.Second
	logRarely = 10 * time.Minute
	liveEvery = time.Second
)

// showWait reports on a wait until stop is called.
func showWait(w *holder.Wait, m *console.Messenger) (stop func()) {
	return proxyclient.After(context.Background(), firstReport, func(ctx context.Context) {
		if m.Live() {
			tellOfWait(ctx, w, liveEvery, liveEvery, liveLine(w, m))
			m.Show("")
		} else {
			tellOfWait(ctx, w, logEvery, logRarely, m.Say)
		}
	})
}

// liveLine returns a function that shows a line as the live line. If the terminal is too narrow,
// the line is also printed in full once for each oldest holder, or nobody could read who that is.
func liveLine(w *holder.Wait, m *console.Messenger) func(string) {
	var said leaseapi.Lease
	return func(line string) {
		q, _ := w.Queued()
		if q.Oldest != nil && q.Oldest.Lease != said && !m.Fits(line) {
			said = q.Oldest.Lease
			m.Say(line)
		}
		m.Show(line)
	}
}

// tellOfWait calls tell with the state of the wait until ctx ends: first when the proxy has said
// something or firstNews has passed, then after every if something has changed, or after a pause that
// doubles up to most.
func tellOfWait(ctx context.Context, w *holder.Wait, every, most time.Duration, tell func(string)) {
	select {
	case <-w.Heard():
	case <-ctx.Done():
	case <-time.After(firstNews):
	}
	for pause := every; ctx.Err() == nil; {
		tell("leasectl: " + leaseapi.Printable(waitLine(w, time.Now())))
		said, changed := causeOf(w), false
		for quiet := time.Duration(0); quiet < pause && !changed; quiet += every {
			if proxyclient.Sleep(ctx, every) != nil {
				return
			}
			changed = causeOf(w) != said
		}
		pause = min(2*pause, most)
		if changed {
			pause = every
		}
	}
}

// waitCause is what of a wait is worth a new line.
type waitCause struct {
	trouble string
	reason  leaseapi.WaitReason
	place   int
	oldest  leaseapi.Lease
}

func causeOf(w *holder.Wait) (c waitCause) {
	if t := w.Trouble(); t.Err != nil {
		return waitCause{trouble: troubleWith(t.Err)}
	}
	q, _ := w.Queued()
	c.reason, c.place = q.Reason, q.Place
	if q.Oldest != nil {
		c.oldest = q.Oldest.Lease
	}
	return c
}

// waitLine describes the state of a wait. While the proxy fails, it describes the failure, since
// nothing is known of the queue.
func waitLine(w *holder.Wait, now time.Time) string {
	if t := w.Trouble(); t.Err != nil {
		return fmt.Sprintf("%s; trying since %s", troubleWith(t.Err), t.Since.Local().Format(time.TimeOnly))
	}
	line := fmt.Sprintf("waiting %s for a lease of type %q", leaseapi.Duration(now.Sub(w.Begun).Round(time.Second)), w.Type)
	q, at := w.Queued()
	if place := holder.DescribeQueue(q, at, now); place != "" {
		line += ": " + place
	}
	if !w.GivesUp.IsZero() && q.Reason.Kind != leaseapi.WaitJoined {
		line += "; gives up at " + clockTime(w.GivesUp, now)
	}
	if q.Page != "" {
		line += "; " + q.Page
	}
	return line
}

// clockTime is a time of day, with the date if it is not of the next twelve hours.
func clockTime(at, now time.Time) string {
	if at.Sub(now) < 12*time.Hour {
		return at.Local().Format("15:04")
	}
	return at.Local().Format("15:04 on 2 January")
}

// troubleWith says why no answer comes: no leader, no token, no connection, or a failure of the proxy.
func troubleWith(err error) string {
	if standby, ok := errors.AsType[*proxyclient.NotLeaderError](err); ok && standby.Leader == "" {
		return "no server of the proxy leads"
	}
	if errors.Is(err, proxyclient.ErrNoTokenGiven) {
		return fmt.Sprintf("no token yet: %v", err)
	}
	if _, network := errors.AsType[net.Error](err); network {
		return fmt.Sprintf("cannot reach the proxy: %v", err)
	}
	return fmt.Sprintf("the proxy does not serve: %v", err)
}
