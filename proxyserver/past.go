package proxyserver

import (
	"fmt"
	"slices"
	"sync"
	"time"

	"github.com/leasectl/leasectl/pool"
	"github.com/leasectl/leasectl/proxyserver/page"
)

const (
	// mostEvents is how many events are kept. Each has an owner and some names: a
	// thousand take less than a megabyte.
	mostEvents = 1000
	// mostNames is how many names of an event are kept.
	mostNames = 10
	// dayMinutes bounds what is kept of a pool: 50 KB, if it was never the same for
	// two minutes of a day.
	dayMinutes = 24 * 60
)

// past is what the status page shows of the past: the last events, and the last
// day of each pool, by the minute. It is in memory, and begins with the term.
type past struct {
	started time.Time // by the wall clock

	mu     sync.Mutex   // guards what follows
	minute int64        // the present one, since 1970; it does not go back
	events []page.Event // a ring: event number n is at (n - 1) % mostEvents
	last   uint64       // number of the last event
	pools  map[string]*poolPast
}

// poolPast is the last day of a pool. What stays the same is kept once.
type poolPast struct {
	starts []startsOf // of minutes with any
	levels []levelsOf // of minutes that differ from the one before
	waits  dayWaits
}

type startsOf struct {
	minute int64
	count  int32
}

type levelsOf struct {
	minute                int64
	inUse, limit, waiting int32
}

func newPast(c clock) *past {
	h := &past{started: c.start, pools: make(map[string]*poolPast)}
	h.turn(c.start)
	return h
}

// turn makes the minute of now the present one. The caller holds h.mu, as with of and
// add.
func (h *past) turn(now time.Time) { h.minute = max(h.minute, now.Unix()/60) }

func (h *past) of(typ string) *poolPast {
	p := h.pools[typ]
	if p == nil {
		p = new(poolPast)
		h.pools[typ] = p
	}
	return p
}

// changed notes changes that became durable.
func (h *past) changed(c clock, changes []pool.Change) {
	if len(changes) == 0 {
		return
	}
	h.mu.Lock()
	defer h.mu.Unlock()
	now := c.read()
	h.turn(now)
	for i := range changes {
		change := &changes[i]
		if e, ok := eventOf(change); ok {
			e.At = now
			h.add(e)
		}
		if change.Kind == pool.Granted {
			p := h.of(change.Leases[0].Type)
			p.started(h.minute, len(change.Leases))
			p.waits.add(h.minute/60, change.Took)
		}
	}
}

func (h *past) add(e page.Event) {
	h.last++
	e.Number = h.last
	if len(h.events) < mostEvents {
		h.events = append(h.events, e)
		return
	}
	h.events[(e.Number-1)%mostEvents] = e
}

// eventOf returns the event of a change; false if it is none.
func eventOf(c *pool.Change) (page.Event, bool) {
	switch c.Kind {
	case pool.Granted:
		e := leaseEvent("granted", c.Leases...)
		e.Took = c.Took
		return e, true
	case pool.Broken:
		e := leaseEvent("breaking", c.Lease)
		e.Detail = c.Lease.Broken
		return e, true
	case pool.Done:
		e := leaseEvent(string(c.Reason), c.Lease)
		if e.Took = c.Took; c.Reason.Broken() {
			e.What, e.Detail = "broken", c.Lease.Broken
		}
		return e, true
	case pool.Dropped:
		end := c.WaitEnd()
		e := page.Event{What: string(end), Type: c.Request.Type, Holder: c.Request.Owner, Took: c.Took}
		if !c.Request.Anonymous {
			e.RequestID = c.Request.ID
		}
		if end == pool.WaitRemoved || end == pool.WaitReconfigured {
			e.Detail = reasonOf(c.Err)
		}
		return e, true
	case pool.Resized:
		e := leaseEvent("resized", c.Lease)
		e.Detail = fmt.Sprintf("from %d to %d units", c.Before, c.Lease.Units)
		return e, c.Lease.Units != c.Before
	case pool.Adapted:
		return moveEvent(c.Reports.Type, c.Reports.Moved), c.Moved
	case pool.Paused:
		return page.Event{What: "paused", Type: c.Pause.Type, Detail: c.Pause.Reason}, true
	case pool.Resumed:
		return page.Event{What: "resumed", Type: c.Pause.Type}, true
	}
	return page.Event{}, false
}

// eventWords are those of all events.
func eventWords() []string {
	words := []string{"granted", string(pool.Released), string(pool.Expired), "breaking", "broken", "resized", limitCut, limitRaised, "paused", "resumed"}
	for _, end := range pool.WaitEnds {
		words = append(words, string(end))
	}
	return words
}

func leaseEvent(what string, leases ...pool.Lease) page.Event {
	first := leases[0]
	return page.Event{
		What: what, Type: first.Type, Holder: first.Owner, RequestID: first.RequestID,
		Names: namesOf(leases[:min(len(leases), mostNames)]), NameCount: len(leases),
	}
}

// moveEvent is of a move of a limit, with whose report decided it.
func moveEvent(typ string, m pool.Move) page.Event {
	e := page.Event{What: moveWord(m), Type: typ, Holder: m.Owner, Detail: fmt.Sprintf("from %d to %d: %s", m.From, m.To, m.Why())}
	if m.Detail != "" {
		e.Detail += ": " + m.Detail
	}
	return e
}

func (p *poolPast) started(minute int64, count int) {
	if n := len(p.starts); n > 0 && p.starts[n-1].minute == minute {
		p.starts[n-1].count += int32(count)
		return
	}
	for len(p.starts) > 0 && p.starts[0].minute <= minute-dayMinutes {
		p.starts = p.starts[1:]
	}
	p.starts = append(p.starts, startsOf{minute, int32(count)})
}

// level notes how the pool stands at the end of a minute.
func (p *poolPast) level(now levelsOf) {
	if n := len(p.levels); n > 0 {
		same := p.levels[n-1]
		if same.minute = now.minute; same == now {
			return
		}
	}
	// The last that is too old says how the day began.
	for len(p.levels) > 1 && p.levels[1].minute <= now.minute-dayMinutes {
		p.levels = p.levels[1:]
	}
	p.levels = append(p.levels, now)
}

// levels notes how pools stand at the beginning of a minute, or soon after.
func (h *past) levels(now time.Time, totals []pool.PoolStatus) {
	h.mu.Lock()
	defer h.mu.Unlock()
	h.turn(now)
	there := make(map[string]bool, len(totals))
	for _, p := range totals {
		there[p.Type] = true
		h.of(p.Type).level(levelOf(h.minute-1, p))
	}
	for typ := range h.pools {
		if !there[typ] { // it is configured no more
			delete(h.pools, typ)
		}
	}
}

func levelOf(minute int64, p pool.PoolStatus) levelsOf {
	return levelsOf{minute, int32(p.InUse), int32(p.Limit), int32(p.Waiting)}
}

// day returns the last day of a pool, which now is as p says.
func (h *past) day(now time.Time, p pool.PoolStatus) page.Day {
	h.mu.Lock()
	defer h.mu.Unlock()
	h.turn(now)
	begin := max(h.started.Unix()/60, h.minute-dayMinutes+1)
	d := page.Day{Begin: time.Unix(begin*60, 0), Started: h.started, Minutes: make([]page.Minute, h.minute-begin+1)}
	known := h.pools[p.Type]
	if known == nil {
		known = new(poolPast)
	}
	for _, s := range known.starts {
		if i := s.minute - begin; i >= 0 && i < int64(len(d.Minutes)) {
			d.Minutes[i].Starts = int(s.count)
		}
	}
	levels := append(slices.Clone(known.levels), levelOf(h.minute, p))
	next := 0
	var at levelsOf
	for i := range d.Minutes {
		for next < len(levels) && levels[next].minute <= begin+int64(i) {
			at = levels[next]
			next++
		}
		m := &d.Minutes[i]
		m.InUse, m.Limit, m.Waiting = int(at.inUse), int(at.limit), int(at.waiting)
	}
	return d
}

// waits returns how long requests for a pool waited in the last day.
func (h *past) waits(typ string) page.Waits {
	h.mu.Lock()
	defer h.mu.Unlock()
	if p := h.pools[typ]; p != nil {
		return p.waits.waits(h.minute / 60)
	}
	return page.Waits{}
}

// find returns the newest events that match: most of them at most.
func (h *past) find(most int, match func(page.Event) bool) (found []page.Event) {
	h.mu.Lock()
	defer h.mu.Unlock()
	for n := h.last; n > 0 && n+mostEvents > h.last && len(found) < most; n-- {
		if e := h.events[(n-1)%mostEvents]; match(e) {
			found = append(found, e)
		}
	}
	return found
}
