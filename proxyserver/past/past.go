package past

import (
	"sync"
	"time"

	"github.com/leasectl/leasectl/pool"
)

// mostEvents is how many events are kept. Each has an owner and some names: a thousand
// events take less than a megabyte.
const mostEvents = 1000

// Past is the past of one term. [New] makes one. Its methods are safe for concurrent use.
type Past struct {
	now     func() time.Time     // the wall clock, for people: it may be set
	clock   func() time.Duration // goes on evenly, from any beginning
	started time.Time
	begun   time.Duration // when it started, on clock
	into    time.Duration // how far into minute 0 that was

	mu     sync.Mutex // guards what follows
	minute int64      // the present one, from 0 at the start; it does not go back
	events []Event    // a ring: event number n is at (n - 1) % mostEvents
	last   uint64     // number of the last event
	pools  map[string]*day
}

// New returns a past that begins now. Minutes go by clock, so setting the wall clock neither
// stops the charts nor leaves a gap in them.
func New(now func() time.Time, clock func() time.Duration) *Past {
	started := now()
	return &Past{
		now: now, clock: clock, started: started, begun: clock(), into: started.Sub(started.Truncate(time.Minute)),
		pools: make(map[string]*day),
	}
}

// Started returns when the past began.
func (p *Past) Started() time.Time { return p.started }

// sinceMinuteZero returns how long ago the minute of the start began.
func (p *Past) sinceMinuteZero() time.Duration { return p.into + p.clock() - p.begun }

// advance makes the minute of now the present one. The caller holds p.mu, as for dayOf and add.
func (p *Past) advance() { p.minute = max(p.minute, int64(p.sinceMinuteZero()/time.Minute)) }

// dayOf returns the day of the pool of a type, and makes one if there is none.
func (p *Past) dayOf(typ string) *day {
	d := p.pools[typ]
	if d == nil {
		d = new(day)
		p.pools[typ] = d
	}
	return d
}

// Changed notes changes, which must be durable.
func (p *Past) Changed(changes []pool.Change) {
	if len(changes) == 0 {
		return
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	now := p.now()
	p.advance()
	for i := range changes {
		change := &changes[i]
		if e, ok := eventOf(change); ok {
			e.At = now
			p.add(e)
		}
		if change.Kind == pool.Granted {
			d := p.dayOf(change.Leases[0].Type)
			d.noteStarts(p.minute, len(change.Leases))
			d.waits.add(p.minute/60, change.Took)
		}
	}
}

func (p *Past) add(e Event) {
	p.last++
	e.Number = p.last
	if len(p.events) < mostEvents {
		p.events = append(p.events, e)
		return
	}
	p.events[(e.Number-1)%mostEvents] = e
}

// Find returns the newest events that match, newest first, and no more than most. match must
// not call methods of p.
func (p *Past) Find(most int, match func(Event) bool) (found []Event) {
	p.mu.Lock()
	defer p.mu.Unlock()
	for n := p.last; n > 0 && n+mostEvents > p.last && len(found) < most; n-- {
		if e := p.events[(n-1)%mostEvents]; match(e) {
			found = append(found, e)
		}
	}
	return found
}

// Watch notes the state of all pools at its start and at the end of each minute. It blocks
// until stop or failed is closed.
func (p *Past) Watch(stop, failed <-chan struct{}, totals func() []pool.PoolStatus) {
	for {
		p.noteLevels(totals())
		select {
		case <-stop:
			return
		case <-failed:
			return
		case <-time.After(time.Minute - p.sinceMinuteZero()%time.Minute):
		}
	}
}

// noteLevels notes the state of the pools as that of the minute that has just ended.
func (p *Past) noteLevels(totals []pool.PoolStatus) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.advance()
	configured := make(map[string]bool, len(totals))
	for _, t := range totals {
		configured[t.Type] = true
		p.dayOf(t.Type).noteLevel(levelOf(p.minute-1, t))
	}
	for typ := range p.pools {
		if !configured[typ] {
			delete(p.pools, typ)
		}
	}
}

// Day returns the last day of a pool; status is its present state.
func (p *Past) Day(status pool.PoolStatus) Day {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.advance()
	first := p.now().Add(-p.sinceMinuteZero()).Round(time.Second) // minute 0, by the wall clock as it is set now
	begin := max(0, p.minute-dayMinutes+1)
	d := Day{
		Begin: first.Add(time.Duration(begin) * time.Minute), Started: first.Add(p.into),
		Minutes: make([]Minute, p.minute-begin+1),
	}
	known := p.pools[status.Type]
	if known == nil {
		known = new(day)
	}
	known.fill(d.Minutes, begin, levelOf(p.minute, status))
	return d
}

// Waits returns how long the requests waited that a pool granted in the last day.
func (p *Past) Waits(typ string) Waits {
	p.mu.Lock()
	defer p.mu.Unlock()
	if d := p.pools[typ]; d != nil {
		return d.waits.waits(p.minute / 60)
	}
	return Waits{}
}
