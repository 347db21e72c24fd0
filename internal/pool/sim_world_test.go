package pool

import "time"

// world is the setting of a simulation.
type world struct {
	name    string
	steps   int // in a normal run
	some    int // with -short or the race detector: the world few still sees all that is rare
	configs []Config
	pace    time.Duration // of pools that a reconfiguration gives one

	lockDelay time.Duration // of pools that a reconfiguration gives one
	keys      int           // how many there are

	owners       int
	large        int    // one in so many requests is for many names, or too many
	alone        string // the type of a pool that nobody asks for together with others
	severalEvery int    // one in so many requests is for several pools
	operateEvery int    // on average, after how many steps something is done to the server

	elapse     func(m *sim) time.Duration // from one step to the next
	auditEvery int                        // after how many steps; an audit costs as much as there is
	queue      int                        // the length that some queue must reach
}

// simCost is the cost of 1, 2, 3 items and so on: 2, 2, 4, 4, 4, 4, 6 and so on.
var simCost = &Cost{Base: Decimal{billion / 2}, PerItem: Decimal{billion / 2}, RoundTo: 2, Min: 2}

// few has few names and many conflicts: all that is rare happens often.
var few = world{
	name:   "few",
	steps:  600_000,
	some:   120_000,
	owners: 15,
	large:  1,
	configs: []Config{
		{Type: "one", Names: numbered("one", 1), MaxWaiters: 3},
		{Type: "few", Names: numbered("few", 3), MaxTTL: 2 * time.Minute, Pace: 2 * s, LockDelay: 15 * s, Adapt: &Adapt{}},
		{Type: "more", Names: numbered("more", 7), DefaultTTL: time.Minute, V1TTL: 3 * time.Minute, MaxWaiters: 20, Adapt: &Adapt{Floor: 2, Start: 4}, Hold: 7 * s},
		{Type: "units", Units: 12, Unknown: 3, Cost: simCost, Overcommit: 4, LockDelay: 3 * s, MaxWaiters: 12, Adapt: &Adapt{}},
	},
	keys:         2,
	pace:         2 * s,
	lockDelay:    5 * s,
	elapse:       (*sim).seconds,
	auditEvery:   50,
	severalEvery: 3,
	operateEvery: 500,
	queue:        8,
}

// thousands has thousands of owners at hundreds of names, and long queues.
var thousands = world{
	name:   "thousands",
	steps:  500_000,
	some:   50_000,
	owners: 4_000,
	large:  50,
	configs: []Config{
		{Type: "many", Names: numbered("many", 400), Adapt: &Adapt{Floor: 200, Start: 300}, Hold: 10 * s},
		{Type: "paced", Names: numbered("paced", 50), Pace: 500 * time.Millisecond},
		{Type: "strict", Names: numbered("strict", 100), MaxTTL: time.Minute, MaxWaiters: 300, LockDelay: s},
		{Type: "short", Names: numbered("short", 20), DefaultTTL: time.Minute, Pace: 20 * time.Millisecond},
		{Type: "three", Names: numbered("three", 3)},
		{Type: "units", Units: 2000, Unknown: 30, Cost: simCost, Overcommit: 100},
	},
	keys:         100,
	pace:         100 * time.Millisecond,
	lockDelay:    s,
	elapse:       (*sim).milliseconds,
	auditEvery:   2_000,
	severalEvery: 40,
	alone:        "many",
	operateEvery: 8_000,
	queue:        1_000,
}

// crowds has some hundred owners of which every second wants several pools, of which one is nearly always
// full: long queues, of more than are looked at for each kind of request.
var crowds = world{
	name:   "crowds",
	steps:  100_000,
	some:   15_000,
	owners: 400,
	large:  20,
	configs: []Config{
		{Type: "install", Names: numbered("install", 20)},
		{Type: "disk", Names: numbered("disk", 2)},
		{Type: "tape", Names: numbered("tape", 5), LockDelay: s, Adapt: &Adapt{Floor: 3}},
		{Type: "units", Units: 60, Unknown: 3, Cost: simCost, Overcommit: 4, Pace: 20 * time.Millisecond},
	},
	keys:         40,
	pace:         100 * time.Millisecond,
	lockDelay:    s,
	elapse:       (*sim).milliseconds,
	auditEvery:   300,
	severalEvery: 2,
	operateEvery: 4_000,
	queue:        250,
}

// seconds is mostly short, and at times exactly until the next thing that is due, or just
// before it.
func (m *sim) seconds() time.Duration {
	next, ok := m.set.Next()
	ok = ok && (next-m.now < time.Minute || m.rand.IntN(50) == 0)
	switch n := m.rand.IntN(100); {
	case n < 40:
		return 0
	case n < 70:
		return time.Duration(m.rand.IntN(1000)) * time.Millisecond
	case n < 85 && ok:
		return next - m.now
	case n < 92 && ok:
		return max(0, next-m.now-1)
	case n < 98:
		return time.Duration(m.rand.IntN(20)) * time.Second
	default:
		return time.Duration(m.rand.IntN(200)) * time.Second
	}
}

// milliseconds keeps thousands of owners as busy as the few are.
func (m *sim) milliseconds() time.Duration {
	next, ok := m.set.Next()
	switch n := m.rand.IntN(100); {
	case n < 50:
		return 0
	case n < 60 && ok && next-m.now < 100*time.Millisecond:
		return next - m.now
	default:
		return time.Duration(m.rand.IntN(20_000)) * time.Microsecond
	}
}
