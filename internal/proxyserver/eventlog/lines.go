package eventlog

import (
	"context"
	"encoding/json"
	"errors"
	"log/slog"
	"strconv"
	"strings"
	"time"

	"github.com/leasectl/leasectl/internal/pool"
	"github.com/leasectl/leasectl/leaseapi"
)

// lines writes one line for each event.
type lines struct {
	logger *slog.Logger
	until  func(at time.Duration) time.Duration // from now to a time on the lease clock
}

// change writes the line of a change; some kinds have none.
func (l lines) change(c *pool.Change) {
	switch c.Kind {
	case pool.Granted:
		l.grant(c)
	case pool.Delayed:
		l.lease("release delayed", c.Lease, slog.Duration("delay", round(l.until(c.Lease.ReleaseAt))))
	case pool.Resized:
		if c.Lease.Units != c.Before {
			l.lease("resized", c.Lease, slog.Int("units", c.Lease.Units), slog.Int("before", c.Before))
		}
	case pool.Broken:
		l.lease("breaking", c.Lease, text("by", c.Act.By), slog.Duration("ends_in", round(l.until(c.Lease.Ends()))), slog.String("reason", c.Lease.Broken))
	case pool.Done:
		l.end(c)
	case pool.Dropped:
		l.drop(c)
	case pool.Moved:
		l.request("moved", c.Waiter.Request, text("by", c.Act.By), slog.Int("to", c.Waiter.PriorityNow), slog.String("reason", c.Act.Reason))
	case pool.NameReserved:
		l.reserved("reserved", c)
	case pool.NameGivenBack:
		l.reserved("given back", c)
	case pool.Paused:
		l.write(slog.LevelInfo, "paused", text("by", c.Act.By), slog.String("type", c.Pause.Type), slog.String("reason", c.Pause.Reason))
	case pool.Resumed:
		l.write(slog.LevelInfo, "resumed", text("by", c.Act.By), slog.String("type", c.Pause.Type),
			slog.Duration("paused", round(-l.until(c.Pause.Since))), text("reason", c.Act.Reason))
	case pool.ReportCounted:
		l.report(*c.Reported)
	case pool.Adapted:
		if c.Moved {
			l.limitMoved(*c.Reports)
		}
	}
}

// queued writes a line for a request that begins to wait, or to follow another, or has
// come back to its place after a restart.
func (l lines) queued(r pool.Request, at pool.Place) {
	place, waiting := slog.Int("place", at.Place), slog.Int("waiting", at.Length)
	if at.Follows != "" && at.Waited == 0 {
		l.request("joined", r, slog.String("follows", pool.PlainID(at.Follows)))
		return
	}
	if at.Waited > 0 {
		l.request("returned", r, place, waiting, slog.Duration("waited", round(at.Waited)))
		return
	}
	l.request("queued", r, place, waiting)
}

// drop writes a line for a waiter that left the queue without a lease.
func (l lines) drop(c *pool.Change) {
	waited := slog.Duration("waited", round(c.Took))
	why := c.WaitEnd()
	switch why {
	case pool.WaitRemoved:
		l.request(string(why), *c.Request, text("by", c.Act.By), slog.String("reason", c.WaitEndWhy()), waited)
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

func (l lines) request(what string, r pool.Request, attrs ...slog.Attr) {
	l.requestAt(slog.LevelInfo, what, r, attrs...)
}

func (l lines) requestAt(level slog.Level, what string, r pool.Request, attrs ...slog.Attr) {
	token, owner := pool.SplitOwner(r.Owner)
	id := pool.PlainID(r.ID)
	if r.Anonymous {
		id = ""
	}
	all := append(make([]slog.Attr, 0, 14), // which is not on the heap
		slog.String("owner", owner), text("token", token), slog.String("type", r.Type), also(r.Ask),
		count(r), slog.String("request_id", id), text("wants", r.Name), text("key", r.Key), keyMode(r.Ask), overcommit(r.Overcommit), ifAny("priority", r.Priority),
	)
	l.write(level, what, append(all, attrs...)...)
}

// reserved writes a line about a name that a person has taken out of its pool, or given back.
func (l lines) reserved(what string, c *pool.Change) {
	r := c.Reserved
	token, owner := pool.SplitOwner(r.Owner)
	_, holder := pool.SplitOwner(r.Holder)
	ends := slog.Attr{}
	if c.Kind == pool.NameReserved && r.Until > 0 {
		ends = slog.Duration("ends_in", round(l.until(r.Until)))
	}
	level := slog.LevelInfo
	if c.Kind == pool.NameReserved && r.NoPool { // nobody sees it until a pool has the name again
		level, what = slog.LevelWarn, "reserved, but in no pool"
	}
	l.write(level, what, text("by", c.Act.By), slog.String("owner", owner), text("token", token), text("type", r.Type),
		slog.Any("names", names{r.Name}), text("held_by", holder), ends, slog.String("reason", r.Reason))
}

// mostNamed is how many leases of a grant its line names.
const mostNamed = 100

func (l lines) grant(c *pool.Change) {
	shown := c.Leases[:min(len(c.Leases), mostNamed)]
	of, at := make(names, len(shown)), make(generations, len(shown))
	for i, granted := range shown {
		of[i], at[i] = granted.Name, granted.Generation
	}
	first := c.Leases[0]
	token, owner := pool.SplitOwner(first.Owner)
	l.write(slog.LevelInfo, "granted",
		slog.String("owner", owner), text("token", token), slog.String("type", first.Type), also(first.Ask),
		slog.Any("names", of), slog.Any("generations", at), ifAny("not_named", len(c.Leases)-len(shown)),
		slog.String("request_id", pool.PlainID(first.RequestID)), slog.Duration("waited", round(c.Took)),
		units(first.Units), text("key", first.Key), keyMode(first.Ask), overcommit(first.Overcommit), ifAny("priority", first.Priority), ifAny("overtook", c.Overtook))
}

func (l lines) end(c *pool.Change) {
	held := slog.Duration("held", round(c.Took))
	if c.Reason.Broken() {
		l.lease("broken", c.Lease, text("by", c.Act.By), held, slog.String("reason", c.Lease.Broken))
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

func (l lines) lease(what string, lease pool.Lease, attrs ...slog.Attr) {
	l.leaseAt(slog.LevelInfo, what, lease, attrs...)
}

func (l lines) leaseAt(level slog.Level, what string, lease pool.Lease, attrs ...slog.Attr) {
	token, owner := pool.SplitOwner(lease.Owner)
	all := append(make([]slog.Attr, 0, 13), // which is not on the heap
		slog.String("owner", owner), text("token", token), slog.String("type", lease.Type),
		slog.Any("names", names{lease.Name}), slog.Any("generations", generations{lease.Generation}),
		slog.String("request_id", pool.PlainID(lease.RequestID)),
	)
	l.write(level, what, append(all, attrs...)...)
}

// write is LogAttrs of the logger, without the source position of the call: finding it takes
// longer than making the line.
func (l lines) write(level slog.Level, what string, attrs ...slog.Attr) {
	ctx, handler := context.Background(), l.logger.Handler()
	if !handler.Enabled(ctx, level) {
		return
	}
	r := slog.NewRecord(time.Now(), level, what, 0)
	r.AddAttrs(attrs...)
	handler.Handle(ctx, r)
}

// names and generations are lists that the handlers of slog write like any other, but without
// reflection.
type (
	names       []string
	generations []uint64
)

// MarshalText implements [encoding.TextMarshaler], for lines of text.
func (n names) MarshalText() ([]byte, error) { return []byte("[" + strings.Join(n, " ") + "]"), nil }

// MarshalJSON implements [json.Marshaler].
func (n names) MarshalJSON() ([]byte, error) { return json.Marshal([]string(n)) }

// MarshalText implements [encoding.TextMarshaler], for lines of text.
func (g generations) MarshalText() ([]byte, error) { return g.list(' '), nil }

// MarshalJSON implements [json.Marshaler].
func (g generations) MarshalJSON() ([]byte, error) { return g.list(','), nil }

func (g generations) list(between byte) []byte {
	list := []byte{'['}
	for i, generation := range g {
		if i > 0 {
			list = append(list, between)
		}
		list = strconv.AppendUint(list, generation, 10)
	}
	return append(list, ']')
}

// report writes a line for the report of a holder.
func (l lines) report(r pool.Reported) {
	token, owner := pool.SplitOwner(r.Owner)
	l.write(slog.LevelInfo, "reported",
		slog.String("owner", owner), text("token", token), slog.String("type", r.Type),
		slog.String("outcome", r.Outcome.String()), text("detail", r.Detail), slog.Int("limit", r.Limit),
		slog.Uint64("generation", r.Generation), slog.String("request_id", pool.PlainID(r.RequestID)))
}

// limitMoved writes a line for a move of a limit, with the report that decided it.
func (l lines) limitMoved(r pool.Reports) {
	token, owner := pool.SplitOwner(r.Moved.Owner)
	l.write(slog.LevelInfo, r.Moved.What(),
		slog.String("type", r.Type), slog.Int("from", r.Moved.From), slog.Int("to", r.Moved.To), slog.Int("wall", r.Wall),
		slog.String("reason", r.Moved.Why()), slog.String("owner", owner), text("token", token), text("detail", r.Moved.Detail))
}

// also returns the other types of a request, and how much it asks for of each. Handlers leave it out
// if there are none.
func also(a pool.Ask) slog.Attr { return text("also", strings.ReplaceAll(a.Also, "\n", ",")) }

// keyMode returns the key mode of a request, unless it is the usual one.
func keyMode(a pool.Ask) slog.Attr {
	if a.ReadsKey {
		return slog.String("key_mode", leaseapi.KeyRead)
	}
	return slog.Attr{}
}

// text returns an attribute that handlers leave out if value is empty.
func text(key, value string) slog.Attr {
	if value == "" {
		return slog.Attr{}
	}
	return slog.String(key, value)
}

// count returns the count or the items that a request asks for, as its client said it.
// Handlers leave it out if the client said neither.
func count(r pool.Request) slog.Attr {
	switch {
	case r.HasItems:
		return slog.Int("items", r.Items)
	case r.Count == 0:
		return slog.Attr{}
	}
	return slog.Int("count", r.Count)
}

// units returns an attribute that handlers leave out for one unit, as of each name.
func units(n int) slog.Attr {
	if n == 1 {
		return slog.Attr{}
	}
	return slog.Int("units", n)
}

// ifAny returns an attribute that handlers leave out if n is zero.
func ifAny(key string, n int) slog.Attr {
	if n == 0 {
		return slog.Attr{}
	}
	return slog.Int(key, n)
}

func overcommit(is bool) slog.Attr {
	if !is {
		return slog.Attr{}
	}
	return slog.Bool("overcommit", true)
}

// round drops the digits that people do not read.
func round(d time.Duration) time.Duration { return d.Round(time.Millisecond) }
