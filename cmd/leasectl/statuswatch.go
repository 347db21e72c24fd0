package main

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"strings"
	"time"

	"github.com/leasectl/leasectl/leaseapi"
	"github.com/leasectl/leasectl/proxyclient"
)

// watchEvery is the time between two requests for the pools: short enough for a person who
// watches, and no load for the proxy.
const watchEvery = time.Second

// watchStatus shows the pools, or the pool of type typ, and each change, until a signal ends it. If
// the proxy fails after its first answer, watchStatus says so and goes on.
func (a *app) watchStatus(ctx context.Context, typ string) error {
	w := poolWatch{app: a, live: a.output == "text" && canRewrite(a.stdout)}
	for {
		asking, cancel := context.WithTimeout(ctx, statusTimeout)
		all, err := a.askPoolsOf(asking, a.proxy.url, typ)
		cancel()
		if w.begun && errors.Is(err, proxyclient.ErrUnknownType) {
			all.Pools, err = nil, nil // the pool that is watched was removed, and may come back
		}
		switch {
		case ctx.Err() != nil:
			return watched(ctx)
		case err == nil:
			err = w.show(all.Pools, time.Now())
		case w.begun:
			w.fail(err, time.Now())
			err = nil
		}
		if err != nil {
			return err
		}
		if proxyclient.Sleep(ctx, watchEvery) != nil {
			return watched(ctx)
		}
	}
}

// watched returns the error of a watch that a signal ended. The exit code tells of the signal, and
// nothing is printed.
func watched(ctx context.Context) error {
	sig, ok := errors.AsType[signalError](context.Cause(ctx))
	switch {
	case !ok:
		return context.Cause(ctx)
	case isKeyHere(sig.Signal):
		return dieOf{sig: sig.Signal}
	}
	return statusError{code: 128 + int(sig.Signal)}
}

// poolWatch remembers what a watch has shown.
type poolWatch struct {
	app     *app
	live    bool // show the whole table each time, not the changes
	begun   bool
	pools   map[string]leaseapi.Pool
	trouble time.Time // since when the proxy fails; zero: it does not
}

// show prints what has changed in pools, or the whole table if w.live.
func (w *poolWatch) show(pools []leaseapi.Pool, now time.Time) error {
	if !w.trouble.IsZero() && !w.live {
		w.app.Notef("the proxy answers again")
	}
	w.trouble = time.Time{}
	if w.live {
		w.begun = true
		return w.app.print("%s%s%s%s", homeAndClear, now.Format(time.DateTime), "\n\n", statusText(pools))
	}
	before := w.pools
	w.pools = make(map[string]leaseapi.Pool, len(pools))
	for _, p := range pools {
		w.pools[p.Type] = p
	}
	w.begun = true
	for _, p := range pools {
		old, known := before[p.Type]
		lines := poolChanges(old, p)
		if !known {
			lines = append([]string{"is a pool"}, lines...)
		}
		if err := w.print(p, lines, now); err != nil {
			return err
		}
	}
	for _, p := range before {
		if _, still := w.pools[p.Type]; !still {
			if err := w.print(leaseapi.Pool{Type: p.Type}, []string{"is no pool any more"}, now); err != nil {
				return err
			}
		}
	}
	return nil
}

// print prints the changes of a pool: a line each, or one JSON object for all.
func (w *poolWatch) print(p leaseapi.Pool, lines []string, now time.Time) error {
	if len(lines) == 0 {
		return nil
	}
	if w.app.output == "json" {
		text, err := json.Marshal(struct {
			Time    time.Time     `json:"time"`
			Changes []string      `json:"changes"`
			Pool    leaseapi.Pool `json:"pool"`
		}{now.UTC().Round(time.Millisecond), lines, p})
		if err != nil {
			return fmt.Errorf("encode the output: %w", err)
		}
		return w.app.print("%s\n", text)
	}
	var text strings.Builder
	for i, line := range lines {
		summary := ""
		if i == len(lines)-1 {
			summary = fmt.Sprintf(" (%d of %d in use, %d waiting)", p.InUse, p.Capacity, p.Waiting)
		}
		fmt.Fprintf(&text, "%s %s: %s%s\n", now.Format(time.DateTime), leaseapi.Printable(p.Type), leaseapi.Printable(line), summary)
	}
	return w.app.print("%s", text.String())
}

// fail reports that the proxy fails, once until it answers again.
func (w *poolWatch) fail(err error, now time.Time) {
	if w.trouble.IsZero() {
		w.trouble = now
		w.app.Failf("%v; trying since %s", err, now.Format(time.TimeOnly))
	}
}

// poolChanges describes what has happened to a pool, in the words of the server's log. Ages and
// estimates are no changes, since they change by themselves.
func poolChanges(old, p leaseapi.Pool) (lines []string) {
	lines = append(leaseChanges(old, p), waiterChanges(old, p)...)
	if old.Capacity != 0 && old.Capacity != p.Capacity {
		lines = append(lines, fmt.Sprintf("capacity %d, before %d", p.Capacity, old.Capacity))
	}
	switch {
	case p.Paused != "" && p.Paused != old.Paused:
		lines = append(lines, "is paused: "+p.Paused)
	case p.Paused == "" && old.Paused != "":
		lines = append(lines, "is resumed")
	}
	return lines
}

// leaseChanges describes what has happened to the leases of a pool, first those that have ended.
func leaseChanges(old, p leaseapi.Pool) (lines []string) {
	held := make(map[uint64]leaseapi.PoolLease) // by generation
	for _, l := range old.Leases {
		held[l.Generation] = l
	}
	for _, l := range p.Leases {
		before, was := held[l.Generation]
		delete(held, l.Generation)
		switch {
		case !was:
			lines = append(lines, fmt.Sprintf("%s is held by %s%s", l.Name, ownerOf(l.Owner, l.Token), unitsAndKey(l)))
		case max(1, before.Units) != max(1, l.Units): // the proxy may send 0 for 1
			lines = append(lines, fmt.Sprintf("%s of %s holds %d units, before %d", l.Name, ownerOf(l.Owner, l.Token), l.Units, before.Units))
		}
		if before.Broken != l.Broken {
			lines = append(lines, fmt.Sprintf("%s of %s is broken: %s", l.Name, ownerOf(l.Owner, l.Token), l.Broken))
		}
		if before.ReleaseAt.IsZero() && !l.ReleaseAt.IsZero() {
			lines = append(lines, fmt.Sprintf("%s of %s is to be released in %s", l.Name, ownerOf(l.Owner, l.Token), age(l.ExpiresIn)))
		}
	}
	var ended []string
	for _, l := range old.Leases {
		if _, gone := held[l.Generation]; gone {
			ended = append(ended, fmt.Sprintf("%s of %s has ended, held for %s", l.Name, ownerOf(l.Owner, l.Token), age(l.Age)))
		}
	}
	return append(ended, lines...)
}

// unitsAndKey describes what a lease has besides its name.
func unitsAndKey(l leaseapi.PoolLease) (text string) {
	if l.Units > 0 {
		text += fmt.Sprintf(", %d units", l.Units)
	}
	if l.Key != "" {
		text += ", key " + l.Key
	}
	if l.Overcommit {
		text += ", overcommit"
	}
	return text
}

// byID returns a key for each waiter: its request id, or a number for a waiter of a version-1
// client, which has no id.
func byID(waiters []leaseapi.Waiter) (keys []string) {
	anonymous := 0
	for _, w := range waiters {
		key := w.RequestID
		if key == "" {
			anonymous++
			key = fmt.Sprintf("number %d", anonymous) // no id has a space
		}
		keys = append(keys, key)
	}
	return keys
}

func waiterChanges(old, p leaseapi.Pool) (lines []string) {
	was := make(map[string]leaseapi.Waiter)
	oldKeys := byID(old.Waiters)
	for i, w := range old.Waiters {
		was[oldKeys[i]] = w
	}
	keys := byID(p.Waiters)
	for i, w := range p.Waiters {
		before, waited := was[keys[i]]
		delete(was, keys[i])
		owner := ownerOf(w.Owner, w.Token)
		switch {
		case !waited:
			key := ""
			if w.Key != "" {
				key = ", key " + w.Key
			}
			lines = append(lines, fmt.Sprintf("%s waits for %d at place %d%s: %s", owner, w.Count, w.Place, key, reasonOf(w)))
		case reasonOf(before) != reasonOf(w):
			lines = append(lines, fmt.Sprintf("%s waits at place %d: %s", owner, w.Place, reasonOf(w)))
		}
	}
	for i, w := range old.Waiters {
		if _, gone := was[oldKeys[i]]; gone {
			lines = append(lines, fmt.Sprintf("%s waits no more, after %s", ownerOf(w.Owner, w.Token), age(w.Age)))
		}
	}
	return lines
}
