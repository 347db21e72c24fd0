package pool

import (
	"slices"
	"time"
)

// ledger is the state of a Set: who has what, who waits, what is due, and what has
// changed since the last [Set.Drain].
type ledger struct {
	now        time.Duration
	wall       time.Time // see Set.SetWall
	generation uint64    // the last one given
	arrivals   uint64    // number of the last waiter
	settings   uint64    // number of the last timer set

	aging time.Duration // what a step of priority is worth; see New

	pools    []*pool          // as configured, and retired ones after them
	types    map[string]*pool // the same, by type
	slots    map[string]*slot // by name: all names that are or were configured or held, and are not forgotten
	recalled recalled         // names in no pool, in the order in which their slots are forgotten
	named    map[string]int   // by type, the last name that was made up; also of types that are no longer configured
	requests map[string]*request
	ended    tombstones
	pauses   map[string]Pause // by type; also of types that are no longer configured
	timers   ordered[*timer]

	held, waiting int
	touched       []*pool // pools in which a waiter may fit after a change; serve looks at them
	changes       []Change
	act           Act      // the operator's act that is under way; zero: none is
	drained       []Change // what the last Drain returned; the next one uses its memory again
}

func newLedger(now time.Duration, generation uint64) ledger {
	return ledger{
		now:        now,
		generation: generation,
		types:      make(map[string]*pool),
		slots:      make(map[string]*slot),
		recalled:   recalled{limit: maxRecalled},
		named:      make(map[string]int),
		requests:   make(map[string]*request),
		ended:      newTombstones(),
		pauses:     make(map[string]Pause),
		timers:     newTimers(),
	}
}

// pool returns the pool of a type; a new one is retired until it is configured.
func (g *ledger) pool(typ string) *pool {
	p := g.types[typ]
	if p == nil {
		p = newPool(typ)
		g.types[typ] = p
		g.pools = append(g.pools, p)
	}
	return p
}

// slot returns the slot of name, which may be new.
func (g *ledger) slot(name string) *slot {
	sl := g.slots[name]
	if sl == nil {
		sl = &slot{name: name}
		g.slots[name] = sl
	}
	return sl
}

// used reports whether name has a lease or a lock delay.
func (g *ledger) used(name string) bool {
	sl := g.slots[name]
	return sl != nil && !sl.free()
}

// touch notes that a waiter of p may fit now.
func (g *ledger) touch(p *pool) {
	if !p.touched {
		p.touched = true
		g.touched = append(g.touched, p)
	}
}

// schedule sets t to due, whatever it was set to before.
func (g *ledger) schedule(t *timer, due time.Duration) {
	g.settings++
	t.due, t.set = due, g.settings
	g.timers.put(t)
}

// remember adds e, which ends now, and forgets the oldest if there are too many.
func (g *ledger) remember(e Ended) {
	for range g.ended.surplus() {
		g.forget()
	}
	e.Until = later(g.now, EndedKept)
	g.ended.push(e)
	g.note(Remembered).Ended = e
}

// forget forgets the id that ended first.
func (g *ledger) forget() { g.note(Forgotten).Ended = g.ended.pop() }

// paused reports whether an operator has stopped p.
func (g *ledger) paused(p *pool) bool {
	_, ok := g.pauses[p.Type]
	return ok
}

// open reports whether no pause keeps p from granting r.
func (g *ledger) open(p *pool, r *request) bool { return r.Overcommit || !g.paused(p) }

// due returns when the pace of p allows a grant to r.
func (g *ledger) due(p *pool, r *request) time.Duration {
	if r.Overcommit {
		return g.now
	}
	return p.due()
}

// note adds a change for the next Drain. The caller fills the change in at once, through the
// pointer. A Change is large: passing it as an argument would double the stacks of the
// goroutines that wait.
func (g *ledger) note(kind Kind) *Change {
	n := len(g.changes)
	g.changes = slices.Grow(g.changes, 1)[:n+1]
	c := &g.changes[n]
	*c = Change{} // with the fields in the literal, each caller would have a copy on its stack
	c.Kind, c.Act = kind, g.act
	return c
}

// begin makes act the cause of all changes until the function that it returns is called.
func (g *ledger) begin(act Act) (end func()) {
	g.act = act
	return func() { g.act = Act{} }
}
