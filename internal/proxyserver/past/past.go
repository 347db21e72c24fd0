package past

import (
	"math"
	"slices"
	"sync"
	"time"

	"github.com/leasectl/leasectl/internal/pool"
)

// mostEvents is how many events are kept, and as many acts of operators: jobs, of which one may make ten thousand
// events a second, do not make the server forget these. Each has an owner and some names: a thousand
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
	events ring       // without acts
	acts   ring       // of operators
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
			for _, l := range change.Leases { // of several pools, perhaps
				p.dayOf(l.Type).noteStarts(p.minute, 1)
			}
			p.dayOf(change.Leases[0].Type).waits.add(p.minute/60, change.Took)
		}
	}
}

func (p *Past) add(e Event) {
	p.last++
	e.Number = p.last
	if e.By != "" {
		p.acts.add(e)
		return
	}
	p.events.add(e)
}

// ring keeps the last mostEvents events.
type ring struct {
	events []Event
	oldest int // once it is full
}

func (r *ring) add(e Event) {
	if len(r.events) < mostEvents {
		r.events = append(r.events, e)
		return
	}
	r.events[r.oldest] = e
	r.oldest = (r.oldest + 1) % mostEvents
}

// newest returns the n-th event from the end, from zero on; false if there are fewer.
func (r *ring) newest(n int) (*Event, bool) {
	size := len(r.events)
	if n >= size {
		return nil, false
	}
	return &r.events[(r.oldest+size-1-n)%size], true
}

// Find returns the newest events that match, newest first, and no more than most. match must
// not call methods of p.
func (p *Past) Find(most int, match func(Event) bool) (found []Event) {
	p.mu.Lock()
	defer p.mu.Unlock()
	events, acts := 0, 0 // that were looked at
	for len(found) < most {
		e, more := p.events.newest(events)
		if act, is := p.acts.newest(acts); is && (!more || act.Number > e.Number) {
			e, more = act, true
			acts++
		} else {
			events++
		}
		if !more {
			break
		}
		if match(*e) {
			found = append(found, *e)
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

// Minute is one minute of a pool.
type Minute struct {
	Starts  int // leases granted in it
	InUse   int // at its end, as are Limit and Waiting
	Limit   int
	Waiting int
}

// Day is the last day of a pool, as far as the server knows it.
type Day struct {
	Begin   time.Time // of the first minute
	Minutes []Minute  // without gaps; the last is the present one
	Started time.Time // when the server started
}

// dayMinutes bounds what is kept of a pool: 50 KB, if each minute of a day differs from the
// one before.
const dayMinutes = 24 * 60

// day is the last day of a pool. Levels that stay the same are kept once.
type day struct {
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

func levelOf(minute int64, p pool.PoolStatus) levelsOf {
	return levelsOf{minute, int32(p.InUse), int32(p.Limit), int32(p.Waiting)}
}

// noteStarts notes starts in a minute.
func (d *day) noteStarts(minute int64, count int) {
	if n := len(d.starts); n > 0 && d.starts[n-1].minute == minute {
		d.starts[n-1].count += int32(count)
		return
	}
	for len(d.starts) > 0 && d.starts[0].minute <= minute-dayMinutes {
		d.starts = d.starts[1:]
	}
	d.starts = append(d.starts, startsOf{minute, int32(count)})
}

// noteLevel notes the state of the pool at the end of a minute.
func (d *day) noteLevel(now levelsOf) {
	if n := len(d.levels); n > 0 {
		same := d.levels[n-1]
		if same.minute = now.minute; same == now {
			return
		}
	}
	// The last level that is too old stays: it says how the day began.
	for len(d.levels) > 1 && d.levels[1].minute <= now.minute-dayMinutes {
		d.levels = d.levels[1:]
	}
	d.levels = append(d.levels, now)
}

// fill writes the day into minutes. The first of them is minute begin; the last is now.
func (d *day) fill(minutes []Minute, begin int64, now levelsOf) {
	for _, s := range d.starts {
		if i := s.minute - begin; i >= 0 && i < int64(len(minutes)) {
			minutes[i].Starts = int(s.count)
		}
	}
	levels := append(slices.Clone(d.levels), now)
	next := 0
	var at levelsOf
	for i := range minutes {
		for next < len(levels) && levels[next].minute <= begin+int64(i) {
			at = levels[next]
			next++
		}
		m := &minutes[i]
		m.InUse, m.Limit, m.Waiting = int(at.inUse), int(at.limit), int(at.waiting)
	}
}

// Waits is how long requests waited.
type Waits struct {
	Count    int           // of requests; zero: nothing is known
	P50, P95 time.Duration // half of them, and 95 of a hundred, waited no longer
}

// dayWaits counts, hour by hour, how long the requests waited that were granted in the last
// day.
type dayWaits struct {
	hours []hourWaits // in their order
}

// hourWaits counts the waits of an hour in buckets. Each bucket ends a fifth later than the
// one before, so a quantile is exact to a tenth.
type hourWaits struct {
	hour   int64
	counts [waitBuckets]uint32
}

const (
	waitBuckets = 96
	waitLeast   = 10 * time.Millisecond // the first bucket's end; the last ends after four days
	waitGrowth  = 1.2
)

// add counts a wait that ended in an hour. Hours do not go back.
func (d *dayWaits) add(hour int64, wait time.Duration) {
	if n := len(d.hours); n == 0 || d.hours[n-1].hour < hour {
		for len(d.hours) > 0 && d.hours[0].hour <= hour-24 {
			d.hours = d.hours[1:]
		}
		d.hours = append(d.hours, hourWaits{hour: hour})
	}
	i := 0
	if wait > waitLeast {
		i = min(waitBuckets-1, 1+int(math.Log(float64(wait)/float64(waitLeast))/math.Log(waitGrowth)))
	}
	d.hours[len(d.hours)-1].counts[i]++
}

// waits returns the waits of the day that ends with an hour.
func (d *dayWaits) waits(hour int64) (w Waits) {
	var counts [waitBuckets]int
	for _, h := range d.hours {
		if h.hour <= hour-24 {
			continue
		}
		for i, n := range h.counts {
			counts[i] += int(n)
			w.Count += int(n)
		}
	}
	w.P50, w.P95 = quantile(counts, w.Count, 50), quantile(counts, w.Count, 95)
	return w
}

// quantile returns the wait, exact to a tenth, that percent of the total do not exceed.
func quantile(counts [waitBuckets]int, total, percent int) time.Duration {
	seen := 0
	for i, n := range counts {
		if seen += n; n > 0 && seen*100 >= total*percent {
			if i == 0 {
				return 0
			}
			return time.Duration(float64(waitLeast) * math.Pow(waitGrowth, float64(i)-0.5))
		}
	}
	return 0
}
