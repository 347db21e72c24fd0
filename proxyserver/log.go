package proxyserver

import (
	"context"
	"encoding/json"
	"errors"
	"log/slog"
	"strconv"
	"strings"
	"sync"
	"time"

	"github.com/leasectl/leasectl/pool"
)

// changeLog writes what the pools did to the log.
type changeLog struct {
	*slog.Logger
	clock clock
}

// changes writes a line for each grant, each end of a lease and of a wait without one,
// each act of an operator, and what else holders did to leases and limits, when it is
// durable.
func (l changeLog) changes(changes []pool.Change) {
	if !l.Enabled(context.Background(), slog.LevelInfo) {
		return
	}
	for i := range changes {
		switch c := &changes[i]; c.Kind {
		case pool.Granted:
			l.grant(c)
		case pool.Delayed:
			l.lease("release delayed", c.Lease, slog.Duration("delay", round(l.clock.until(c.Lease.ReleaseAt))))
		case pool.Resized:
			if c.Lease.Units != c.Before {
				l.lease("resized", c.Lease, slog.Int("units", c.Lease.Units), slog.Int("before", c.Before))
			}
		case pool.Broken:
			l.lease("breaking", c.Lease, slogText("by", c.Act.By), slog.Duration("ends_in", round(l.clock.until(c.Lease.Ends()))), slog.String("reason", c.Lease.Broken))
		case pool.Done:
			l.end(c)
		case pool.Dropped:
			l.drop(c)
		case pool.Paused:
			l.write(slog.LevelInfo, "paused", slogText("by", c.Act.By), slog.String("type", c.Pause.Type), slog.String("reason", c.Pause.Reason))
		case pool.Resumed:
			l.write(slog.LevelInfo, "resumed", slogText("by", c.Act.By), slog.String("type", c.Pause.Type),
				slog.Duration("paused", round(-l.clock.until(c.Pause.Since))), slogText("reason", c.Act.Reason))
		case pool.Told:
			l.report(*c.Reported)
		case pool.Adapted:
			if c.Moved {
				l.limitMoved(*c.Reports)
			}
		}
	}
}

// queued writes a line for a request that begins to wait, or to follow another, or has
// come back to its place after a restart.
func (l changeLog) queued(r pool.Request, at pool.Place) {
	place, waiting := slog.Int("place", at.Place), slog.Int("waiting", at.Length)
	if at.Follows != "" && at.Waited == 0 {
		l.request("joined", r, slog.String("follows", at.Follows))
		return
	}
	if at.Waited > 0 {
		l.request("returned", r, place, waiting, slog.Duration("waited", round(at.Waited)))
		return
	}
	l.request("queued", r, place, waiting)
}

// arrivals are the requests that began to wait and have no line in the log yet. Their calls
// write these lines, and so does each commit before its own: else a call that is late would
// say that its request waits after the log has how the wait ended.
type arrivals struct {
	writing sync.Mutex // taken before mu
	mu      sync.Mutex // never held during I/O
	due     []arrival
}

type arrival struct {
	pool.Request
	at pool.Place
}

func (a *arrivals) add(r pool.Request, at pool.Place) {
	a.mu.Lock()
	defer a.mu.Unlock()
	a.due = append(a.due, arrival{r, at})
}

// write returns when all that were added have their lines, whoever writes them.
func (a *arrivals) write(l changeLog) {
	a.writing.Lock()
	defer a.writing.Unlock()
	a.mu.Lock()
	due := a.due
	a.due = nil
	a.mu.Unlock()
	for _, r := range due {
		l.queued(r.Request, r.at)
	}
}

// drop writes a line for a waiter that left the queue without a lease.
func (l changeLog) drop(c *pool.Change) {
	waited := slog.Duration("waited", round(c.Took))
	why := c.WaitEnd()
	switch why {
	case pool.WaitRemoved:
		l.request(string(why), *c.Request, slogText("by", c.Act.By), slog.String("reason", c.WaitEndWhy()), waited)
	case pool.WaitTimedOut, pool.WaitCancelled, pool.WaitSuperseded:
		l.request(string(why), *c.Request, waited)
	case pool.WaitCoalesced:
		merged, _ := errors.AsType[*pool.CoalescedError](c.Err)
		code, _ := merged.Result.ExitCode()
		l.request(string(why), *c.Request, waited, slog.Int("exit_code", code))
	case pool.WaitGone:
		l.request(string(pool.WaitCancelled), *c.Request, waited, slog.String("reason", "its client has gone"))
	default:
		l.request(string(why), *c.Request, waited, slog.String("reason", c.WaitEndWhy()))
	}
}

func (l changeLog) request(what string, r pool.Request, attrs ...slog.Attr) {
	token, owner := pool.SplitOwner(r.Owner)
	id := r.ID
	if r.Anonymous {
		id = ""
	}
	all := append(make([]slog.Attr, 0, 12), // which is not on the heap
		slog.String("owner", owner), slogText("token", token), slog.String("type", r.Type),
		slogCount(r), slog.String("request_id", id), slogText("key", r.Key), slogOvercommit(r.Overcommit),
	)
	l.write(slog.LevelInfo, what, append(all, attrs...)...)
}

func (l changeLog) grant(c *pool.Change) {
	names := make(logNames, len(c.Leases))
	generations := make(logGenerations, len(c.Leases))
	for i, granted := range c.Leases {
		names[i], generations[i] = granted.Name, granted.Generation
	}
	first := c.Leases[0]
	token, owner := pool.SplitOwner(first.Owner)
	l.write(slog.LevelInfo, "granted",
		slog.String("owner", owner), slogText("token", token), slog.String("type", first.Type),
		slog.Any("names", names), slog.Any("generations", generations),
		slog.String("request_id", first.RequestID), slog.Duration("waited", round(c.Took)),
		slogUnits(first.Units), slogText("key", first.Key), slogOvercommit(first.Overcommit))
}

func (l changeLog) end(c *pool.Change) {
	held := slog.Duration("held", round(c.Took))
	if c.Reason.Broken() {
		l.lease("broken", c.Lease, slogText("by", c.Act.By), held, slog.String("reason", c.Lease.Broken))
		return
	}
	if c.Reason == pool.Expired && c.Lease.OfVersion1() {
		l.leaseAt(slog.LevelWarn, string(c.Reason), c.Lease, held,
			slog.String("reason", "a version-1 client does not renew: it may still work: v1_ttl of the pool is for how long"))
		return
	}
	if c.Reason == pool.Expired && c.Lease.Provisional { // sooner than its TTL says
		l.lease(string(c.Reason), c.Lease, held, slog.String("reason", "no renewal confirmed it: its client may not have heard of it"))
		return
	}
	l.lease(string(c.Reason), c.Lease, held)
}

// version1Ending writes a line for a lease that nobody renews and that ends soon.
func (l changeLog) version1Ending(lease pool.Lease) {
	l.leaseAt(slog.LevelWarn, "ending", lease,
		slog.Duration("ends_in", round(l.clock.until(lease.Ends()))),
		slog.String("reason", "a version-1 client does not renew: if it still works, another gets the name: v1_ttl of the pool is for how long"))
}

func (l changeLog) lease(what string, lease pool.Lease, attrs ...slog.Attr) {
	l.leaseAt(slog.LevelInfo, what, lease, attrs...)
}

func (l changeLog) leaseAt(level slog.Level, what string, lease pool.Lease, attrs ...slog.Attr) {
	token, owner := pool.SplitOwner(lease.Owner)
	all := append(make([]slog.Attr, 0, 12), // which is not on the heap
		slog.String("owner", owner), slogText("token", token), slog.String("type", lease.Type),
		slog.Any("names", logNames{lease.Name}), slog.Any("generations", logGenerations{lease.Generation}),
		slog.String("request_id", lease.RequestID),
	)
	l.write(level, what, append(all, attrs...)...)
}

// write is LogAttrs of the logger, without the place in the code that a line is from: to
// find that takes longer than to make the line.
func (l changeLog) write(level slog.Level, what string, attrs ...slog.Attr) {
	ctx, handler := context.Background(), l.Handler()
	if !handler.Enabled(ctx, level) {
		return
	}
	r := slog.NewRecord(time.Now(), level, what, 0)
	r.AddAttrs(attrs...)
	handler.Handle(ctx, r)
}

// logNames and logGenerations are lists as the handlers of slog write any other, but
// without reflection.
type (
	logNames       []string
	logGenerations []uint64
)

// MarshalText implements [encoding.TextMarshaler], for lines of text.
func (n logNames) MarshalText() ([]byte, error) { return []byte("[" + strings.Join(n, " ") + "]"), nil }

// MarshalJSON implements [json.Marshaler].
func (n logNames) MarshalJSON() ([]byte, error) { return json.Marshal([]string(n)) }

// MarshalText implements [encoding.TextMarshaler], for lines of text.
func (g logGenerations) MarshalText() ([]byte, error) { return g.list(' '), nil }

// MarshalJSON implements [json.Marshaler].
func (g logGenerations) MarshalJSON() ([]byte, error) { return g.list(','), nil }

func (g logGenerations) list(between byte) []byte {
	text := []byte{'['}
	for i, generation := range g {
		if i > 0 {
			text = append(text, between)
		}
		text = strconv.AppendUint(text, generation, 10)
	}
	return append(text, ']')
}

// report writes a line for what a holder said.
func (l changeLog) report(r pool.Reported) {
	token, owner := pool.SplitOwner(r.Owner)
	l.write(slog.LevelInfo, "reported",
		slog.String("owner", owner), slogText("token", token), slog.String("type", r.Type),
		slog.String("outcome", r.Outcome.String()), slogText("detail", r.Detail), slog.Int("limit", r.Limit),
		slog.Uint64("generation", r.Generation), slog.String("request_id", r.RequestID))
}

// limitMoved writes a line for a move of a limit, with the report that decided it.
func (l changeLog) limitMoved(r pool.Reports) {
	token, owner := pool.SplitOwner(r.Moved.Owner)
	l.write(slog.LevelInfo, r.Moved.What(),
		slog.String("type", r.Type), slog.Int("from", r.Moved.From), slog.Int("to", r.Moved.To), slog.Int("wall", r.Wall),
		slog.String("reason", r.Moved.Why()), slog.String("owner", owner), slogText("token", token), slogText("detail", r.Moved.Detail))
}

// slogText is left out by handlers if the text is empty.
func slogText(key, text string) slog.Attr {
	if text == "" {
		return slog.Attr{}
	}
	return slog.String(key, text)
}

// slogCount is what a request asks for, in its own words. A request that says neither a
// count nor items has none.
func slogCount(r pool.Request) slog.Attr {
	switch {
	case r.HasItems:
		return slog.Int("items", r.Items)
	case r.Count == 0:
		return slog.Attr{}
	}
	return slog.Int("count", r.Count)
}

// slogUnits is left out for a name, which is one.
func slogUnits(units int) slog.Attr {
	if units == 1 {
		return slog.Attr{}
	}
	return slog.Int("units", units)
}

func slogOvercommit(is bool) slog.Attr {
	if !is {
		return slog.Attr{}
	}
	return slog.Bool("overcommit", true)
}
