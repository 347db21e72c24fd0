package pool

import (
	"cmp"
	"maps"
	"math/rand/v2"
	"slices"
	"strconv"
	"strings"
	"time"
)

// disk is the content of a store that applies the changes and nothing else, as a server does
// before it answers.
type disk struct {
	Snapshot
	leases   map[string]Lease
	waiters  map[string]Waiter
	locked   map[string]Locked
	paced    map[string]Pacing
	pauses   map[string]Pause
	named    map[string]int
	reports  map[string]Reports
	reserved map[string]Reservation
	granted  map[string]bool // ids that were granted, until they are forgotten
}

func newDiskOf(snap Snapshot) *disk {
	d := &disk{leases: map[string]Lease{}, granted: map[string]bool{}, pauses: map[string]Pause{},
		waiters: map[string]Waiter{}, locked: map[string]Locked{}, paced: map[string]Pacing{}, named: map[string]int{}, reports: map[string]Reports{}, reserved: map[string]Reservation{}}
	for _, r := range snap.Reserved {
		d.reserved[r.Name] = r
	}
	for _, r := range snap.Reports {
		d.reports[r.Type] = r
	}
	for _, w := range snap.Waiters {
		d.waiters[w.ID] = w
	}
	for _, l := range snap.Locked {
		d.locked[l.Name] = l
	}
	for _, n := range snap.Named {
		d.named[n.Type] = n.Last
	}
	for _, p := range snap.Paced {
		d.paced[p.Type] = p
	}
	for _, p := range snap.Pauses {
		d.pauses[p.Type] = p
	}
	return d
}

// commit applies changes. A client hears of a grant only after that, so an id that is granted
// twice here was granted twice.
func (d *disk) commit(now time.Duration, failf func(format string, args ...any), changes []Change) {
	for _, c := range changes {
		switch c.Kind {
		case Granted:
			if d.granted[c.ID] {
				failf("%s was granted twice", c.ID)
			}
			d.granted[c.ID] = true
			for _, l := range c.Leases {
				if l.Generation <= d.Generation {
					failf("generation %d after %d", l.Generation, d.Generation)
				}
				d.Generation = l.Generation
				d.leases[l.Name] = l
			}
			d.left(failf, c)
		case Named:
			d.named[c.Naming.Type] = c.Naming.Last
		case Renewed, Extended, Delayed, Resized, Broken:
			d.leases[c.Lease.Name] = c.Lease
		case Done:
			delete(d.leases, c.Lease.Name)
		case Remembered:
			d.Ended = append(d.Ended, c.Ended)
		case Forgotten:
			d.Ended = d.Ended[1:]
			delete(d.granted, c.Ended.ID)
		case Queued, Joined, Missed, Returned, Overtaken, Recounted, Moved:
			if !c.Waiter.Anonymous {
				d.waiters[c.Waiter.ID] = *c.Waiter
			}
		case Paused:
			d.pauses[c.Pause.Type] = *c.Pause
		case Resumed:
			delete(d.pauses, c.Pause.Type)
		case Dropped:
			d.left(failf, c)
		case LockBegun:
			d.locked[c.Locked.Name] = *c.Locked
		case LockOver:
			delete(d.locked, c.Locked.Name)
		case NameReserved:
			d.reserved[c.Reserved.Name] = c.Reserved.Reservation
		case NameGivenBack:
			delete(d.reserved, c.Reserved.Name)
		case LostOther:
			for _, l := range c.Leases {
				d.leases[l.Name] = l
			}
		case ReportCounted:
			for _, l := range c.Leases {
				d.leases[l.Name] = l
			}
			if len(c.Leases) == 0 {
				d.Ended[lastEnded(d.Ended, c.Ended.ID)] = c.Ended
			}
		case Adapted:
			d.reports[c.Reports.Type] = *c.Reports
		case Paced:
			d.paced[c.Pacing.Type] = *c.Pacing
			if c.Pacing.Count == 0 {
				delete(d.paced, c.Pacing.Type)
			}
		}
	}
	d.Clock = now
}

// left takes out a waiter, which must be there if the change says so.
func (d *disk) left(failf func(format string, args ...any), c Change) {
	if _, ok := d.waiters[c.ID]; ok != c.WasQueued {
		failf("waiter %s is durable: %t, want %t", c.ID, ok, c.WasQueued)
	}
	delete(d.waiters, c.ID)
}

// snapshot returns what a restart finds, in any order.
func (d *disk) snapshot(rand *rand.Rand) Snapshot {
	snap := d.Snapshot
	snap.Ended = slices.Clone(d.Ended)
	for _, l := range d.leases {
		snap.Leases = append(snap.Leases, l)
	}
	for typ, last := range d.named {
		snap.Named = append(snap.Named, Naming{Type: typ, Last: last})
	}
	for _, r := range d.reserved {
		snap.Reserved = append(snap.Reserved, r)
	}
	for _, pause := range d.pauses {
		snap.Pauses = append(snap.Pauses, pause)
	}
	for _, reports := range d.reports {
		snap.Reports = append(snap.Reports, reports)
	}
	slices.SortFunc(snap.Leases, func(a, b Lease) int { return cmp.Compare(a.Name, b.Name) })
	snap.Waiters = slices.SortedFunc(maps.Values(d.waiters), func(a, b Waiter) int { return cmp.Compare(b.Arrival, a.Arrival) })
	snap.Locked = slices.SortedFunc(maps.Values(d.locked), func(a, b Locked) int { return cmp.Compare(a.Name, b.Name) })
	snap.Paced = slices.SortedFunc(maps.Values(d.paced), func(a, b Pacing) int { return cmp.Compare(b.Type, a.Type) })
	rand.Shuffle(len(snap.Leases), func(i, j int) {
		snap.Leases[i], snap.Leases[j] = snap.Leases[j], snap.Leases[i]
	})
	return snap
}

// newModel is the model of a Set that started with snap.
func newModel(configs []Config, snap Snapshot, aging time.Duration, fail func(string, ...any), count func(string)) *model {
	m := &model{
		now: snap.Clock, aging: aging, fail: fail, count: count,
		pools: map[string]*modelPool{}, names: map[string]*modelName{},
		requests: map[string]*modelRequest{}, isEnded: map[string]error{}, pauses: map[string]Pause{},
		ending: map[*modelLease]Reason{}, leaving: map[string]error{}, removing: map[string]string{}, counting: map[string]bool{}, vanishing: map[string]bool{}, giving: map[string]bool{}, locking: map[string]Locked{},
		results: map[string]Result{}, superseded: map[string]*modelRequest{},
		settling:   map[string]EndedLease{},
		generation: snap.Generation, named: map[string]int{},
	}
	for _, n := range snap.Named {
		m.named[n.Type] = n.Last
	}
	slices.SortFunc(snap.Leases, func(a, b Lease) int { return cmp.Compare(a.Generation, b.Generation) })
	slices.SortFunc(snap.Ended, func(a, b Ended) int {
		return cmp.Or(cmp.Compare(a.Until, b.Until), cmp.Compare(a.ID, b.ID))
	})
	slices.SortFunc(snap.Paced, func(a, b Pacing) int { return cmp.Compare(a.Type, b.Type) })
	for _, paced := range snap.Paced {
		p := m.somePool(paced.Type)
		p.paced, p.start, p.spent = paced, paced.Start, paced.Count
	}
	slices.SortFunc(snap.Reports, func(a, b Reports) int { return cmp.Compare(a.Type, b.Type) })
	for _, reports := range snap.Reports {
		p := m.somePool(reports.Type)
		p.reports = reports
		p.reports.Tally = slices.Clone(reports.Tally)
	}
	for _, l := range snap.Leases {
		p := m.somePool(l.Type)
		if l.Generation > p.paced.Generation {
			p.start, p.spent = l.Granted, max(l.Count, l.Units)
			if types, counts := alsoWanted(l.Also); l.AskedType != "" {
				p.spent = max(l.Units, counts[slices.Index(types, l.Type)])
			}
		}
		r := m.requests[l.RequestID]
		if r == nil && l.RequestID != "" {
			typ := cmp.Or(l.AskedType, l.Type)
			r = &modelRequest{pool: m.somePool(typ), Request: Request{ID: l.RequestID, Type: typ, Owner: l.Owner,
				Ask: l.Ask}, used: l.Count}
			r.said, r.lost = l.Outcome, l.OtherLost
		}
		m.hold(l, p, r)
	}
	slices.SortFunc(snap.Locked, func(a, b Locked) int {
		return cmp.Or(cmp.Compare(a.Until, b.Until), cmp.Compare(a.Name, b.Name))
	})
	for _, l := range snap.Locked {
		m.somePool(l.Type)
		m.lock(l)
	}
	for _, r := range snap.Reserved {
		m.name(r.Name)
		m.reserve(r)
	}
	slices.SortFunc(snap.Waiters, func(a, b Waiter) int { return cmp.Compare(a.Arrival, b.Arrival) })
	for _, w := range snap.Waiters {
		r := &modelRequest{Request: w.Request, units: w.Units, pool: m.somePool(w.Type),
			arrived: w.Arrived, placed: w.Arrived - w.Older, priority: w.PriorityNow, overtaken: w.Overtaken, stored: w.Passed}
		m.addWants(r, w.AlsoUnits, true)
		for i, text := range strings.Fields(w.Passed) {
			r.passed[i], _ = strconv.Atoi(text)
		}
		m.restorePlace(r, w)
		r.attached = 0
		if r.missed = w.KeptUntil > 0; r.missed {
			r.activeUntil, r.keptUntil = w.HoldsUntil, w.KeptUntil
			m.times.alone(r)
		}
	}
	for _, e := range snap.Ended {
		m.ends(e)
	}
	for _, pause := range snap.Pauses {
		m.pauses[pause.Type] = pause
	}
	m.configure(configs)
	for name, n := range m.names {
		if n.reserved != nil && n.pool == nil {
			m.vanishing[name] = true
		}
	}
	m.compensate()
	return m
}

// somePool is the pool of a type, which may be gone.
func (m *model) somePool(typ string) *modelPool {
	if p := m.pools[typ]; p != nil {
		return p
	}
	return m.addPool(typ)
}

func (m *model) addPool(typ string) *modelPool {
	p := &modelPool{m: m, Config: Config{Type: typ}, gone: true, next: -1, out: map[string]bool{}, keys: map[string]int{}, written: map[string]int{}, aging: m.aging, names: m.names}
	m.pools[typ] = p
	m.order = append(m.order, p)
	return p
}

// configure applies configs, which are valid.
func (m *model) configure(configs []Config) {
	m.configs = configs
	order := m.order
	m.order = nil
	var names []string
	for _, p := range order {
		names = append(names, p.Names...)
		for _, r := range p.queue {
			if r.Name != "" && m.names[r.Name].pool == nil && !slices.Contains(names, r.Name) {
				names = append(names, r.Name)
			}
		}
	}
	for name, n := range m.names {
		if n.reserved != nil && n.pool != nil {
			m.vanishing[name] = true
		}
		n.pool = nil
	}
	for _, p := range order {
		p.out = map[string]bool{}
		p.Config, p.gone, p.limit, p.dirty = Config{Type: p.Type}, true, 0, true
	}
	for _, c := range configs {
		p := m.pools[c.Type]
		if p == nil {
			p = m.addPool(c.Type)
		} else {
			m.order = append(m.order, p)
		}
		p.Config, p.gone, p.dirty = c, false, true
		p.relimit()
		for _, name := range c.Names {
			m.name(name).pool = p
			delete(m.vanishing, name)
			if m.names[name].reserved != nil {
				p.out[name] = true
			}
		}
	}
	for _, p := range order {
		if p.gone && (p.inUse+p.locked > 0 || p.reports.Type != "") {
			m.order = append(m.order, p)
		} else if p.gone {
			delete(m.pools, p.Type)
		}
	}
	for _, r := range m.waiters {
		m.recount(r)
	}
	for _, p := range append(order, m.order...) {
		p.free = slices.DeleteFunc(p.free, func(name string) bool { return m.names[name].pool != p })
		stayed := map[string]bool{}
		for _, name := range p.free {
			stayed[name] = true
		}
		for _, name := range p.Names {
			if m.names[name].isFree() && !stayed[name] {
				p.free = append(p.free, name)
			}
		}
		for _, r := range p.queue {
			m.dismiss(r)
		}
	}
	for _, name := range names {
		if n := m.names[name]; n != nil && n.pool == nil && n.isFree() {
			m.freeName(name)
		}
	}
}
