package pool

import (
	"fmt"
	"slices"
	"time"
)

// operate does something that an operator or the machine does.
func (m *sim) operate() {
	switch n := m.rand.IntN(20); {
	case n < 7:
		m.reconfigure(m.someConfigs())
	case n < 9:
		configs := m.someConfigs()
		m.misconfigure(append(configs, m.contradiction(configs)))
	case n < 11:
		m.restart()
	case n < 13:
		m.stall(time.Duration(2+m.rand.IntN(600)) * time.Second)
	case n < 18:
		m.logf("from now on nothing is committed")
		m.lossy = 1 + m.rand.IntN(100)
	default:
		m.count("clock jumps")
		m.logf("the clock jumps")
		m.pass(time.Duration(1+m.rand.IntN(180)) * time.Minute)
	}
}

// operatorActs does one of the things that an operator does to leases, waiters
// and pools.
func (m *sim) operatorActs() {
	switch n := m.rand.IntN(75); {
	case n >= 55:
		m.reserveSomething()
	case n < 20:
		m.breakSomething()
	case n < 30:
		m.removeSomebody()
	case n >= 40:
		m.moveSomebody()
	case n < 39:
		m.pauseOrResume()
	default:
		m.releaseAll(fmt.Sprint(m.rand.IntN(10)))
	}
}

func (m *sim) removeSomebody() {
	id := fmt.Sprintf("r%d", m.rand.IntN(m.ids+2))
	if n := m.rand.IntN(4); n < 2 && len(m.waiters) > 0 {
		id = m.waiters[m.rand.IntN(len(m.waiters))].ID
	} else if n < 3 && len(m.leases) > 0 {
		id = m.leases[m.rand.IntN(len(m.leases))].RequestID
	}
	why := fmt.Sprint("reason ", m.rand.IntN(3))
	m.remember(func() { m.removeWaiter(id, why) })
	m.removeWaiter(id, why)
}

func (m *sim) moveSomebody() {
	id, priority := fmt.Sprintf("r%d", m.rand.IntN(m.ids+2)), m.somePriority()
	if m.rand.IntN(8) > 0 && len(m.waiters) > 0 {
		id = m.waiters[m.rand.IntN(len(m.waiters))].ID
	}
	m.remember(func() { m.move(id, priority) })
	m.move(id, priority)
}

// somePriority is mostly a small one, so that times matter too.
func (m *sim) somePriority() int {
	if m.rand.IntN(4) == 0 {
		return m.rand.IntN(201) - 100
	}
	return m.rand.IntN(7) - 3
}

// pauseOrResume keeps a pool paused for a fifth of the time.
func (m *sim) pauseOrResume() {
	typ := m.world.configs[m.rand.IntN(len(m.world.configs))].Type
	_, paused := m.pauses[typ]
	switch n := m.rand.IntN(8); {
	case paused && n > 0 || n > 5:
		m.resume(typ)
	case paused || n < 2:
		m.pause(typ, fmt.Sprint("reason ", m.rand.IntN(3)))
	case n == 2:
		m.pause("no such type", "reason")
	}
}

func (m *sim) breakSomething() {
	name := "nobody"
	if n := m.rand.IntN(10); n < 8 && len(m.leases) > 0 {
		name = m.leases[m.rand.IntN(len(m.leases))].Name
	} else if n < 9 {
		name = slices.Concat(m.configs[m.rand.IntN(len(m.configs))].Names, []string{"units-1"})[0]
	}
	m.breakLease(name, fmt.Sprint("reason ", m.rand.IntN(3)), m.rand.IntN(2) == 0)
}

// someConfigs is another configuration: names move between pools or are in none, pools come and
// go, and settings change.
func (m *sim) someConfigs() []Config {
	if m.rand.IntN(3) == 0 {
		return m.world.configs
	}
	types := make(map[string]int) // by name: index of a pool
	configs := slices.Clone(m.world.configs)
	become := m.rand.IntN(8 * len(configs)) // if a listed pool has this index, it becomes a counted one
	for i := range configs {
		if configs[i].counted() && m.rand.IntN(8) == 0 { // it becomes a listed one
			configs[i] = Config{Type: configs[i].Type, Names: numbered("listed", 1+m.rand.IntN(12))}
			continue
		}
		if configs[i].counted() {
			m.vary(&configs[i])
			continue
		}
		for _, name := range configs[i].Names {
			types[name] = i
		}
		if configs[i].Names = nil; i == become {
			configs[i].Units, configs[i].Overcommit = 1+m.rand.IntN(9), m.rand.IntN(3)
			configs[i].Unknown = m.rand.IntN(1 + min(4, configs[i].Units))
		}
		if m.rand.IntN(3) == 0 {
			configs[i].Pace = time.Duration(m.rand.IntN(3)) * m.world.pace
			configs[i].MaxTTL = time.Duration(1+m.rand.IntN(3)) * time.Minute
			configs[i].LockDelay = time.Duration(m.rand.IntN(3)) * m.world.lockDelay
			configs[i].DefaultTTL, configs[i].V1TTL = 0, configs[i].MaxTTL/2
			configs[i].MaxWaiters = 1 + m.rand.IntN(m.world.owners)
		}
	}
	gone := m.rand.IntN(2 * len(configs)) // if a pool has this index, it is left out
	often := []int{2, 10, 50}[m.rand.IntN(3)]
	for _, c := range m.world.configs {
		for _, name := range c.Names {
			i := types[name]
			if i == become {
				continue // its names look like made-up ones
			}
			if m.rand.IntN(often) == 0 {
				i = m.rand.IntN(len(configs) + 1)
			}
			if i < len(configs) && !configs[i].counted() {
				configs[i].Names = append(configs[i].Names, name)
			}
		}
	}
	var all []Config
	for i, c := range configs {
		if i != gone && c.Capacity() > 0 {
			m.rand.Shuffle(len(c.Names), func(i, j int) { c.Names[i], c.Names[j] = c.Names[j], c.Names[i] })
			all = append(all, c)
		}
	}
	if len(all) == 0 {
		return m.world.configs
	}
	for i := range all {
		m.readapt(&all[i])
		if m.rand.IntN(2) == 0 {
			all[i].Overtake = []*Decimal{nil, {}, {billion / 2}, {3 * billion}}[m.rand.IntN(4)]
		}
	}
	return all
}

// readapt lets the limit of a pool adapt, or not, at times, and keeps its bounds valid.
func (m *sim) readapt(c *Config) {
	switch n := m.rand.IntN(8); {
	case n == 0:
		c.Adapt = nil
	case n < 3 || c.Adapt != nil && max(c.Adapt.Floor, c.Adapt.Start) > c.Capacity():
		c.Adapt = &Adapt{Floor: 1 + m.rand.IntN(c.Capacity())}
		c.Adapt.Start = c.Adapt.Floor + m.rand.IntN(1+c.Capacity()-c.Adapt.Floor)
		c.Hold = time.Duration(m.rand.IntN(2)*c.Capacity()) * s
	}
}

// stall stops the server for d, while the clock goes on.
func (m *sim) stall(d time.Duration) {
	m.logf("a stall of %v", d)
	m.count("stalls")
	m.clock += d
	m.now += d
	m.compensate()
	due := m.model.pass(m.now)
	m.set.Stalled(m.now)
	m.take()
	m.check(due)
}

// restart stops and starts the server in good order: everything is committed.
func (m *sim) restart() {
	m.logf("restart")
	m.count("restarts")
	m.lossy = 0
	m.take()
	snap := m.set.Snapshot()
	m.auditSnapshot(snap)
	for i, w := range snap.Waiters { // whom it follows is noted later: see request.adopted
		snap.Waiters[i] = m.disk.waiters[w.ID]
	}
	m.restartWith(snap)
}

// crash kills the server: changes that were not committed are lost, and no client was told of
// them. The clock goes back to when it was saved last.
func (m *sim) crash() {
	m.logf("crash; %d changes are lost", len(m.uncommitted))
	m.count("crashes")
	for _, c := range m.uncommitted {
		if c.Kind == Granted {
			m.count("lost grants")
		}
	}
	m.uncommitted = nil
	m.restartWith(m.disk.snapshot(m.rand))
}

func (m *sim) restartWith(snap Snapshot) {
	configs := m.configs
	if m.rand.IntN(4) == 0 { // the configuration was edited meanwhile
		configs = m.someConfigs()
	}
	m.start(snap, configs)
}

func (m *sim) start(snap Snapshot, configs []Config) {
	aging := []time.Duration{0, 5 * s, PriorityAging}[m.rand.IntN(3)]
	set, err := New(configs, snap, aging)
	if err != nil {
		m.failf("restart: %v", err)
	}
	m.set = set
	m.set.recalled.limit = simRecalled
	for names := &m.set.recalled.names; len(*names) > simRecalled; *names = (*names)[1:] { // as if the limit had been there when it began
		if sl := m.set.slots[(*names)[0]]; sl != nil && sl.pool == nil && sl.free() {
			delete(m.set.slots, sl.name)
		}
	}
	m.model = newModel(configs, snap, aging, m.failf, m.note)
	m.disk.Ended = slices.Clone(m.model.ended) // in the order in which they are restored
	due := m.model.pass(m.now)
	m.take()
	m.check(due)
}

// vary changes the settings of a counted pool, at times.
func (m *sim) vary(c *Config) {
	if m.rand.IntN(3) == 0 {
		c.Units = max(c.Unknown, c.Cost.Units(0), c.Units*(1+m.rand.IntN(8))/4)
		c.Overcommit = m.rand.IntN(2) * c.Overcommit
		c.Pace = time.Duration(m.rand.IntN(2)) * m.world.pace
		c.LockDelay = time.Duration(m.rand.IntN(3)) * m.world.lockDelay
	}
	if m.rand.IntN(3) == 0 {
		c.Unknown = 1 + m.rand.IntN(min(c.Units, 6))
		c.Cost = []*Cost{nil, c.Cost, {PerItem: Decimal{billion}}}[m.rand.IntN(3)]
	}
}

// contradiction is a pool that contradicts configs.
func (m *sim) contradiction(configs []Config) Config {
	c := configs[m.rand.IntN(len(configs))]
	switch {
	case m.rand.IntN(4) == 0:
		return c
	case c.counted():
		return Config{Type: "looks", Names: []string{c.Type + "-12"}}
	}
	return Config{Type: "twice", Names: c.Names[:1]}
}
