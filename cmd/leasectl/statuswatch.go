package main

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/leasectl/leasectl/cmd/leasectl/console"
	"github.com/leasectl/leasectl/internal/holder/shared"
	"github.com/leasectl/leasectl/leaseapi"
	"github.com/leasectl/leasectl/proxyclient"
)

// watchEvery is the time between two requests for the pools: short enough for a person who
// watches, and no load for the proxy.
const watchEvery = time.Second

// watchStatus shows what status shows, of all pools or of the pool of type o.typ, and each change,
// until a signal ends it. If the proxy fails after its first answer, watchStatus says so and goes on.
func (a *app) watchStatus(ctx context.Context, o *statusOptions) error {
	w := statusWatch{app: a, live: a.output == "text" && console.CanRewrite(a.stdout), short: o.short}
	if o.short && !w.live {
		return usagef("--short goes with --watch only on a terminal: elsewhere each change is printed")
	}
	for {
		asking, cancel := context.WithTimeout(ctx, statusTimeout)
		all, err := a.askPools(asking, a.proxy.url, o.typ)
		cancel()
		if w.begun && errors.Is(err, proxyclient.ErrUnknownType) {
			all.Pools, err = nil, nil // the pool that is watched was removed, and may come back
		}
		switch {
		case ctx.Err() != nil:
			return watched(ctx)
		case err == nil:
			err = w.show(overview{all, w.sharedRounds(o.typ)}, time.Now())
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

// statusWatch remembers what a watch has shown.
type statusWatch struct {
	app     *app
	live    bool // show the whole status each time, not the changes
	short   bool // of that, the pools only
	begun   bool
	shown   overview
	trouble time.Time // since when the proxy fails; zero: it does not

	unread string // why the shared leases cannot be read; "": they can
}

// sharedRounds is [app.sharedRounds]. It reports a failure once, and then returns what was shown
// before, since rounds that cannot be read have not ended.
func (w *statusWatch) sharedRounds(typ string) []shared.Round {
	rounds, err := w.app.sharedRounds(typ)
	if err == nil {
		w.unread = ""
		return rounds
	}
	if w.unread != err.Error() {
		w.unread = err.Error()
		w.app.Failf("%v", err)
	}
	return w.shown.Shared
}

// show prints what has changed since the last call, or the whole status if w.live.
func (w *statusWatch) show(now overview, at time.Time) error {
	if !w.trouble.IsZero() && !w.live {
		w.app.Notef("the proxy answers again")
	}
	before := w.shown
	w.trouble, w.begun, w.shown = time.Time{}, true, now
	if w.live {
		// Two lines are above it, and the cursor is below.
		return w.app.print("%s%s\n\n%s", console.HomeAndClear, at.Format(time.DateTime), now.text(at, roomOf(w.app.stdout).without(3), w.short))
	}
	for _, c := range changesOf(before, now) {
		if err := w.print(c, at); err != nil {
			return err
		}
	}
	return nil
}

// change is what has changed about the leader, a pool or a round of a shared lease.
type change struct {
	subject string // what has changed, for people
	summary string // how it is now, for people
	lines   []string

	// One of these is set, to how it is now.
	pool   *leaseapi.Pool
	shared *shared.Round
	leader *leaseapi.Leader
}

// changesOf returns the changes from one overview to the next, in the order in which status shows
// the parts.
func changesOf(before, now overview) (changes []change) {
	add := func(c change) {
		if len(c.lines) > 0 {
			changes = append(changes, c)
		}
	}
	add(leaderChange(before.Leader, now.Leader))
	pools := make(map[string]leaseapi.Pool)
	for _, p := range before.Pools {
		pools[p.Type] = p
	}
	for _, p := range now.Pools {
		old, known := pools[p.Type]
		delete(pools, p.Type)
		lines := poolChanges(old, p)
		if !known {
			lines = append([]string{"is a pool"}, lines...)
		}
		add(poolChange(p, lines))
	}
	for _, p := range before.Pools {
		if _, gone := pools[p.Type]; gone {
			add(poolChange(leaseapi.Pool{Type: p.Type}, []string{"is no pool any more"}))
		}
	}
	rounds := make(map[string]shared.Round)
	for _, r := range before.Shared {
		rounds[r.Round] = r
	}
	for _, r := range now.Shared {
		add(roundChange(r, roundChanges(rounds[r.Round], r)))
		delete(rounds, r.Round)
	}
	for _, r := range before.Shared {
		if _, gone := rounds[r.Round]; gone {
			add(roundChange(r, []string{"has ended"}))
		}
	}
	return changes
}

func poolChange(p leaseapi.Pool, lines []string) change {
	return change{subject: p.Type, summary: fmt.Sprintf("%d of %d in use, %d waiting", p.InUse, p.Capacity, p.Waiting), lines: lines, pool: &p}
}

func roundChange(r shared.Round, lines []string) change {
	return change{
		subject: "shared " + r.Name + ": round " + shortID(r),
		summary: fmt.Sprintf("%s, uses %s, users %d", r.Type, usesOf(r), r.Users),
		lines:   lines, shared: &r,
	}
}

// leaderChange describes a change of the leader. Both are nil if there is only one server.
func leaderChange(old, l *leaseapi.Leader) change {
	if l == nil {
		return change{} // the servers were replaced by one; the pools tell what has become of them
	}
	c := change{subject: "leader", summary: fmt.Sprintf("%d standing by", l.Standby), leader: l}
	switch {
	case old == nil || old.URL != l.URL || !old.Since.Equal(l.Since):
		c.lines = []string{leaderName(l) + " leads"}
	case old.Standby != l.Standby:
		c.lines = []string{fmt.Sprintf("%s has %d standing by, before %d", leaderName(l), l.Standby, old.Standby)}
	}
	return c
}

// roundChanges describes what has happened to a round of a shared lease. The zero old is one that
// was not there.
func roundChanges(old, r shared.Round) (lines []string) {
	if r.State != old.State || !slices.Equal(r.Names, old.Names) {
		line := "is " + string(r.State)
		if len(r.Names) > 0 {
			line += " as " + strings.Join(r.Names, ", ")
		}
		return []string{line}
	}
	if r.Uses != old.Uses {
		lines = append(lines, fmt.Sprintf("uses %s, before %d", usesOf(r), old.Uses))
	}
	if r.Users != old.Users {
		lines = append(lines, fmt.Sprintf("users %d, before %d", r.Users, old.Users))
	}
	if s := r.Service; s != nil && old.Service != nil && s.State != old.Service.State {
		lines = append(lines, "its service is "+s.State)
	}
	return lines
}

// print prints a change: a line each, or one JSON object for all.
func (w *statusWatch) print(c change, at time.Time) error {
	if w.app.output == "json" {
		text, err := json.Marshal(struct {
			Time    time.Time        `json:"time"`
			Changes []string         `json:"changes"`
			Pool    *leaseapi.Pool   `json:"pool,omitempty"`
			Shared  *shared.Round    `json:"shared,omitempty"`
			Leader  *leaseapi.Leader `json:"leader,omitempty"`
		}{at.UTC().Round(time.Millisecond), c.lines, c.pool, c.shared, c.leader})
		if err != nil {
			return fmt.Errorf("encode the output: %w", err)
		}
		return w.app.print("%s\n", plainJSON(text))
	}
	var text strings.Builder
	for i, line := range c.lines {
		summary := ""
		if i == len(c.lines)-1 {
			summary = " (" + leaseapi.Printable(c.summary) + ")"
		}
		fmt.Fprintf(&text, "%s %s: %s%s\n", at.Format(time.DateTime), leaseapi.Printable(c.subject), leaseapi.Printable(line), summary)
	}
	return w.app.print("%s", text.String())
}

// fail reports that the proxy fails, once until it answers again.
func (w *statusWatch) fail(err error, now time.Time) {
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
	lines = append(lines, limitChange(old, p)...)
	if old.LockDelayed != p.LockDelayed {
		lines = append(lines, fmt.Sprintf("%d with a lock delay, before %d", p.LockDelayed, old.LockDelayed))
	}
	lines = append(lines, reservedChanges(old, p)...)
	switch {
	case p.Paused != "" && p.Paused != old.Paused:
		lines = append(lines, "is paused: "+p.Paused)
	case p.Paused == "" && old.Paused != "":
		lines = append(lines, "is resumed")
	}
	return lines
}

// reservedChanges describes which names people have taken out of a pool, or given back.
func reservedChanges(old, p leaseapi.Pool) (lines []string) {
	index := func(all []leaseapi.Reservation, name string) int {
		return slices.IndexFunc(all, func(r leaseapi.Reservation) bool { return r.Name == name })
	}
	for _, r := range p.Reservations {
		if i := index(old.Reservations, r.Name); i < 0 || old.Reservations[i].Reason != r.Reason {
			lines = append(lines, fmt.Sprintf("%s is reserved by %s: %s", r.Name, ownerOf(r.Owner, r.Token), r.Reason))
		}
	}
	for _, r := range old.Reservations {
		if index(p.Reservations, r.Name) < 0 {
			lines = append(lines, fmt.Sprintf("%s of %s is reserved no more, after %s", r.Name, ownerOf(r.Owner, r.Token), age(r.Age)))
		}
	}
	return lines
}

// limitChange describes a move of the limit, unless the limit is the capacity, before and after. If
// the report of a holder moved it, that is named.
func limitChange(old, p leaseapi.Pool) []string {
	before, limit := cmp.Or(old.Limit, old.Capacity), cmp.Or(p.Limit, p.Capacity)
	if old.Capacity == 0 || before == limit || before == old.Capacity && limit == p.Capacity {
		return nil
	}
	line := fmt.Sprintf("limit %d, before %d", limit, before)
	if m := p.Moved; m != nil && m.To == limit {
		line += ": report of " + ownerOf(m.Owner, m.Token)
		if m.Detail != "" {
			line += ": " + m.Detail
		}
	}
	return []string{line}
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
		if !before.Draining && l.Draining {
			lines = append(lines, fmt.Sprintf("%s of %s is draining", l.Name, ownerOf(l.Owner, l.Token)))
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
		text += ", key " + leaseapi.KeyWords(l.Key, l.KeyMode)
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
			if w.Name != "" {
				key = ", name " + w.Name
			}
			if w.Key != "" {
				key = ", key " + leaseapi.KeyWords(w.Key, w.KeyMode)
			}
			lines = append(lines, fmt.Sprintf("%s waits for %d at place %d%s: %s", owner, w.Count, w.Place, key, reasonOf(w)))
		case whyOf(before) != whyOf(w) || before.Priority != w.Priority: // not each time that something overtakes it
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
