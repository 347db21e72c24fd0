package pool

import (
	"container/heap"
	"runtime/debug"
	"slices"
	"sort"
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
	requests byID[request]    // that wait or hold leases
	ended    tombstones
	pauses   map[string]Pause // by type; also of types that are no longer configured
	timers   ordered[*timer]

	held, waiting int
	usage         map[string]usage      // by caller
	usedBytes     int                   // of all in usage
	limitBytes    int                   // beyond it each caller has its share; tests have less
	waitersOf     map[string][]*request // by owner
	several       int                   // how many of those in queues want leases of several pools
	classes       map[string]*class     // of those, by what they ask for
	touched       []*pool               // pools in which a waiter may fit after a change; serve looks at them
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
		requests: newByID(
			func(r *request) string { return r.ID },
			func(r *request) **request { return &r.sameID }),
		ended: newTombstones(),
		usage: make(map[string]usage), limitBytes: int(debug.SetMemoryLimit(-1) / 3),
		waitersOf: make(map[string][]*request),
		classes:   make(map[string]*class),
		pauses:    make(map[string]Pause),
		timers:    newTimers(),
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

// used reports whether name has a lease or a lock delay, or is reserved.
func (g *ledger) used(name string) bool {
	sl := g.slots[name]
	return sl != nil && !sl.free()
}

// touch notes that a waiter of p may fit now, or one of a pool that others want together with p.
func (g *ledger) touch(p *pool) {
	if p.touched {
		return
	}
	p.touched = true
	g.touched = append(g.touched, p)
	for _, other := range p.beside {
		g.touch(other.pool)
	}
}

// schedule sets t to due, whatever it was set to before.
func (g *ledger) schedule(t *timer, due time.Duration) {
	g.settings++
	t.due, t.set = due, g.settings
	g.timers.put(t)
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

// timer is a time at which something is due.
type timer struct {
	due time.Duration
	set uint64 // grows with each setting: among timers with the same due, the first set goes first
	pos int
	on  any // *lease, *lock, *reservation, *request or *pool; see [Set.Advance]
}

func newTimers() ordered[*timer] {
	return ordered[*timer]{
		less: func(a, b *timer) bool {
			if a.due != b.due {
				return a.due < b.due
			}
			return a.set < b.set
		},
		pos: func(t *timer) *int { return &t.pos },
	}
}

// never is the end of time: a time that does not come.
const never time.Duration = 1<<63 - 1

// later returns now + d, or never if that overflows.
func later(now, d time.Duration) time.Duration {
	if sum := now + d; sum >= now {
		return sum
	}
	return never
}

// ordered is a heap whose elements know their positions, so that any of them can be taken out
// or moved in O(log n). An element may be in one heap per field that pos points to.
type ordered[T any] struct {
	items []T
	less  func(a, b T) bool
	pos   func(T) *int // position plus one; zero: not in the heap
}

// first returns the least element; false if there is none.
func (h *ordered[T]) first() (x T, ok bool) {
	if len(h.items) == 0 {
		return x, false
	}
	return h.items[0], true
}

func (h *ordered[T]) has(x T) bool { return *h.pos(x) > 0 }

// put adds x, or moves it to its place after a change of its order.
func (h *ordered[T]) put(x T) {
	if i := *h.pos(x); i > 0 {
		heap.Fix(h, i-1)
		return
	}
	heap.Push(h, x)
}

// remove takes x out, if it is in.
func (h *ordered[T]) remove(x T) {
	if i := *h.pos(x); i > 0 {
		heap.Remove(h, i-1)
	}
}

// ascending yields the elements from the least on, and takes none out. The cost depends on how many
// are taken, not on how many there are. The heap must not change meanwhile.
func (h *ordered[T]) ascending(yield func(T) bool) {
	var next []int // the indices of elements whose parents were yielded, in order
	add := func(i int) {
		if i < len(h.items) {
			at := sort.Search(len(next), func(k int) bool { return h.less(h.items[i], h.items[next[k]]) })
			next = slices.Insert(next, at, i)
		}
	}
	for add(0); len(next) > 0; {
		i := next[0]
		next = next[1:]
		if !yield(h.items[i]) {
			return
		}
		add(2*i + 1)
		add(2*i + 2)
	}
}

// Len, Less, Swap, Push and Pop are for container/heap.

func (h *ordered[T]) Len() int           { return len(h.items) }
func (h *ordered[T]) Less(i, j int) bool { return h.less(h.items[i], h.items[j]) }

func (h *ordered[T]) Swap(i, j int) {
	h.items[i], h.items[j] = h.items[j], h.items[i]
	*h.pos(h.items[i]) = i + 1
	*h.pos(h.items[j]) = j + 1
}

func (h *ordered[T]) Push(x any) {
	h.items = append(h.items, x.(T))
	*h.pos(x.(T)) = len(h.items)
}

func (h *ordered[T]) Pop() any {
	var zero T
	last := len(h.items) - 1
	x := h.items[last]
	h.items[last] = zero // let go of it
	h.items = h.items[:last]
	*h.pos(x) = 0
	return x
}

// Kind says what changed; see [Change].
type Kind int

// The kinds of changes. All change the content of a [Snapshot], except those of requests
// without an id. Queued and Joined need not be durable at once: the request is not answered
// yet, and can lose only its place.
const (
	Granted       Kind = iota // Leases are held from now on
	Renewed                   // a renewal made Lease firm, gave it another TTL, or was its first since it was Extended; other renewals change nothing durable
	Extended                  // Lease has its full TTL again, after a restart or a stall
	Delayed                   // Lease has a pending release, or another time for it
	Done                      // Lease has ended, by Reason
	Remembered                // Ended is remembered from now on
	Forgotten                 // Ended is forgotten
	Queued                    // Waiter is on the queue from now on
	Joined                    // Waiter follows the request Waiter.Follows from now on
	Missed                    // the client of Waiter must come back, after a restart or a stall
	Returned                  // the client of Waiter has come back
	Overtaken                 // more units went ahead of Waiter, which did not fit
	Recounted                 // Waiter wants another number of units, since its pool has names now
	Moved                     // an operator gave Waiter another priority
	Dropped                   // the waiter ID is off the queue without a lease
	Resized                   // a resize of Lease was decided; it had Before units, as many as now if it was refused
	Broken                    // Lease was taken away by an operator, perhaps again; it is held until it is Done
	LockBegun                 // Locked is not granted for a while, although nobody holds it
	LockOver                  // Locked may be granted again
	Paced                     // Pacing counts from now on
	Named                     // Naming counts from now on
	Paused                    // an operator has stopped a pool, perhaps again: Pause
	Resumed                   // Pause is over
	NameReserved              // Reserved counts from now on, perhaps in the place of one of the same name; or no pool has its name now
	NameGivenBack             // Reserved is over
	ReportCounted             // Reported counts
	Adapted                   // Reports count from now on
	LostOther                 // a request has lost a lease for the first time: Leases are those that it still holds

	Kinds // how many there are
)

// Continues reports whether a change of this kind belongs to the change before it: a store must
// not make that one durable without this one. Otherwise a KILL between the two might leave a request
// that is neither held nor ended, whose late copy is granted again; a name that is granted in spite of
// its lock delay; or grants that no pace counts.
func (k Kind) Continues() bool {
	switch k {
	case LockBegun, LostOther, Adapted, Remembered: // after Done; or Adapted after ReportCounted, and Remembered after Dropped
		return true
	case Named, Paced: // after Granted; Paced also after Resized
		return true
	}
	return false
}

// Change is one thing that a call changed. The comments of the fields name the kinds that use
// them; in other changes they are zero. Rare parts are pointers, which keeps a Change small.
type Change struct {
	Kind     Kind
	Act      Act       // the operator's act that caused it; zero: none did
	ID       string    // Granted, Dropped: the request, even one that cannot be repeated
	Leases   []Lease   // Granted, LostOther; ReportCounted of leases that are held: as they are afterwards
	Lease    Lease     // Renewed, Extended, Delayed, Resized, Broken, Done: as it is afterwards
	Before   int       // Resized: units
	Reason   Reason    // Done
	Ended    Ended     // Remembered, Forgotten; ReportCounted of a lease that has ended: as it is afterwards
	Waiter   *Waiter   // Queued, Joined, Missed, Returned, Overtaken, Recounted, Moved: as it is afterwards
	Locked   *Locked   // LockBegun, LockOver
	Pacing   *Pacing   // Paced
	Naming   *Naming   // Named
	Pause    *Pause    // Paused, Resumed
	Reserved *Reserved // NameReserved, NameGivenBack
	Reported *Reported // ReportCounted
	Reports  *Reports  // Adapted
	Moved    bool      // Adapted: the limit has just moved, by Reports.Moved
	// WasQueued: Granted, Dropped: the request has waited and has an id, so a store has it
	// among its waiters.
	WasQueued bool
	Overtook  int           // Granted: how many waiters it went ahead of that did not fit
	Took      time.Duration // Granted, Dropped: how long it waited; Done: how long the lease was held

	Request *Request // Dropped
	Err     error    // Dropped: what to tell connections that wait; nil: there are none
}
