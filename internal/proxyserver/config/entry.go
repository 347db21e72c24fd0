package config

import (
	"fmt"
	"time"

	"go.yaml.in/yaml/v3"

	"github.com/leasectl/leasectl/internal/pool"
	"github.com/leasectl/leasectl/leaseapi"
)

// poolsParser reads the elements of resources.
type poolsParser struct {
	parser
	pools []pool.Config
	types map[string]*yaml.Node // where each type is in the file
	names map[string]*yaml.Node // where each name is, or the type from which it is made
}

// entry is one element of resources, with the nodes of its parts.
type entry struct {
	pool.Config
	at, typ, names, defaultTTL, v1TTL *yaml.Node
	min, max                          *yaml.Node
	state                             *yaml.Node // not nil: a state in which names are not granted
	auto, hold                        *yaml.Node // pace: auto, and the hold from which it is computed
	holdTime                          time.Duration
	numbered                          *yaml.Node // min-count or max-count, whichever came first
	minCount, maxCount                int
	units, unknown, cost              *yaml.Node
	adapt                             adapt
	onlyUnits                         *yaml.Node // the first key that has a meaning only with units
}

// parseEntry adds the pool that node describes, unless something is wrong with it.
func (p *poolsParser) parseEntry(node *yaml.Node) {
	before := len(p.errs)
	// After an error each further step would only report its consequences.
	ok := func() bool { return len(p.errs) == before }
	e := entry{at: node}
	if p.readKeys(&e); !ok() {
		return
	}
	if p.checkType(&e); !ok() {
		return
	}
	if p.checkTogether(&e); !ok() {
		return
	}
	if e.auto != nil && e.Adapt != nil {
		e.Hold = e.holdTime
	} else if e.auto != nil {
		e.Pace = pool.AutoPace(e.holdTime, e.Capacity())
	}
	if err := e.Check(); err != nil { // package pool has the last word
		p.errorf(e.at, "%w", err)
		return
	}
	if e.state != nil {
		p.warn(e.state, "state %q: a janitor would have to clean these first, and there is none here: %d %s of type %q are not granted until their state is free",
			resolve(e.state).Value, e.Capacity(), e.stock(), e.Type)
		return
	}
	p.pools = append(p.pools, e.Config)
}

// parseState notes a state in which Boskos would not grant the names either.
func (p *poolsParser) parseState(e *entry, key, value *yaml.Node) {
	if v := resolve(value); v.Kind == yaml.ScalarNode && v.Tag == "!!str" && v.Value == "" {
		return // Boskos treats it as free
	}
	if p.text(key.Value, value) != "free" {
		e.state = value
	}
}

// readKeys reads each key by itself.
func (p *poolsParser) readKeys(e *entry) {
	meaningless := func(key, _ *yaml.Node) { p.warn(key, "key %q has no meaning here", key.Value) }
	count := func(to *int) func(key, value *yaml.Node) {
		return func(key, value *yaml.Node) {
			if e.numbered == nil {
				e.numbered = key
			}
			*to = p.number(key, value, 0)
		}
	}
	ofUnits := func(read func(key, value *yaml.Node)) func(key, value *yaml.Node) {
		return func(key, value *yaml.Node) {
			if e.onlyUnits == nil {
				e.onlyUnits = key
			}
			read(key, value)
		}
	}
	p.mapping(e.at, "a resource", map[string]func(key, value *yaml.Node){
		"type":        func(key, value *yaml.Node) { e.typ, e.Type = value, p.text(key.Value, value) },
		"state":       func(key, value *yaml.Node) { p.parseState(e, key, value) },
		"names":       func(key, value *yaml.Node) { e.names = key; p.parseNames(e, value) },
		"min-count":   func(key, value *yaml.Node) { e.min = key; count(&e.minCount)(key, value) },
		"max-count":   func(key, value *yaml.Node) { e.max = key; count(&e.maxCount)(key, value) },
		"default_ttl": func(key, value *yaml.Node) { e.defaultTTL = key; e.DefaultTTL = p.duration(key, value) },
		"max_ttl":     func(key, value *yaml.Node) { e.MaxTTL = p.duration(key, value) },
		"v1_ttl":      func(key, value *yaml.Node) { e.v1TTL = key; e.V1TTL = p.duration(key, value) },
		"pace":        func(key, value *yaml.Node) { p.parsePace(e, key, value) },
		"hold":        func(key, value *yaml.Node) { e.hold = key; e.holdTime = p.duration(key, value) },
		"max_waiters": func(key, value *yaml.Node) { e.MaxWaiters = p.number(key, value, 1) },
		"lock_delay":  func(key, value *yaml.Node) { e.LockDelay = p.duration(key, value) },
		"units":       func(key, value *yaml.Node) { e.units = key; e.Units = p.number(key, value, 1) },
		"unit":        ofUnits(func(key, value *yaml.Node) { e.Unit = p.unit(key, value) }),
		"cost":        ofUnits(func(key, value *yaml.Node) { e.cost = key; e.Cost = p.parseCost(value) }),
		"unknown":     ofUnits(func(key, value *yaml.Node) { e.unknown = key; e.Unknown = p.number(key, value, 1) }),
		"adapt":       func(_, value *yaml.Node) { e.Adapt, e.adapt = p.parseAdapt(value) },
		"overtake":    func(key, value *yaml.Node) { e.Overtake = p.overtake(key, value) },
		"overcommit":  ofUnits(func(key, value *yaml.Node) { e.Overcommit = p.number(key, value, 0) }),
		"lifespan":    meaningless,
		"config":      meaningless,
		"needs":       meaningless,
	})
}

// checkTogether checks the keys that depend on each other, and makes the names
// of a resource that has only counts.
func (p *poolsParser) checkTogether(e *entry) {
	switch {
	case e.names != nil && e.numbered != nil:
		p.errorf(e.numbered, "a resource has names or counts, not both")
	case e.units != nil && (e.names != nil || e.numbered != nil):
		p.errorf(e.units, "a resource has units, or names or counts, not both")
	case e.units != nil:
		p.checkUnits(e)
	case e.numbered != nil:
		p.makeNames(e)
	case e.names == nil:
		p.errorf(e.at, "a resource has names, or min-count and max-count, or units")
	}
	if e.onlyUnits != nil && e.units == nil {
		p.errorf(e.onlyUnits, "%s has no meaning without units, %s", e.onlyUnits.Value, e.inUnits())
	}
	p.checkAdapt(e.Adapt, e.Capacity(), e.adapt)
	if e.MaxTTL > 0 && e.DefaultTTL > e.MaxTTL {
		p.errorf(e.defaultTTL, "default_ttl %v is above max_ttl %v", e.DefaultTTL, e.MaxTTL)
	}
	if e.MaxTTL > 0 && e.V1TTL > e.MaxTTL {
		p.errorf(e.v1TTL, "v1_ttl %v is above max_ttl %v", e.V1TTL, e.MaxTTL)
	}
	switch {
	case e.auto != nil && e.hold == nil:
		p.errorf(e.auto, "pace auto needs hold, how long a lease is held as a rule")
	case e.auto == nil && e.hold != nil: // no error: an operator who edits only pace means the new pace
		p.warn(e.hold, "hold is not used: that takes pace: auto")
	}
}

// stock is what an entry has: units or names.
func (e *entry) stock() string {
	if e.units != nil {
		return "units"
	}
	return "names"
}

// inUnits says how to make e a pool that may have a key of counted pools.
func (e *entry) inUnits() string {
	if e.names != nil {
		return "which a resource has instead of names"
	}
	return fmt.Sprintf("which a resource has instead of min-count and max-count: say units: %d", max(e.minCount, e.maxCount, 1))
}

// checkUnits checks the numbers of a counted pool against each other.
func (p *poolsParser) checkUnits(e *entry) {
	switch {
	case e.Units > pool.MaxUnits:
		p.errorf(e.units, "%d units are too many: at most %d", e.Units, pool.MaxUnits)
	case e.cost != nil && e.unknown == nil:
		p.errorf(e.cost, "cost needs unknown, the units of a request whose items are not known")
	case e.Unknown > e.Units:
		p.errorf(e.unknown, "unknown %d is above units %d", e.Unknown, e.Units)
	}
}

func (p *poolsParser) parsePace(e *entry, key, value *yaml.Node) {
	if v := resolve(value); v.Kind == yaml.ScalarNode && v.Value == "auto" {
		e.auto = value
		return
	}
	e.Pace = p.duration(key, value)
}

func (p *poolsParser) checkType(e *entry) {
	if e.typ == nil {
		p.errorf(e.at, "a resource has no type")
		return
	}
	if err := leaseapi.CheckType(e.Type); err != nil {
		p.errorf(e.typ, "%w", err)
		return
	}
	if e.state != nil { // another entry of the type may be free
		return
	}
	if first := p.types[e.Type]; first != nil {
		p.errorf(e.typ, "type %q is already in line %d", e.Type, first.Line)
		return
	}
	p.types[e.Type] = e.typ
}

func (p *poolsParser) parseNames(e *entry, value *yaml.Node) {
	nodes, ok := p.sequence(value, "names")
	if !ok {
		return
	}
	if len(nodes) > pool.MaxCapacity {
		p.errorf(value, "%d names are too many: at most %d", len(nodes), pool.MaxCapacity)
		return
	}
	for _, node := range nodes {
		name := p.text("a name", node)
		if name == "" {
			continue // p.text has reported it
		}
		p.addName(e, name, node)
	}
}

// makeNames names the resources of an entry that has only counts.
func (p *poolsParser) makeNames(e *entry) {
	n := max(e.minCount, e.maxCount)
	switch {
	case e.max != nil && e.minCount > e.maxCount:
		p.errorf(e.max, "max-count %d is below min-count %d", e.maxCount, e.minCount)
	case n == 0:
		p.errorf(e.numbered, "the greater count is 0: a pool needs one resource at least")
	case n > pool.MaxCapacity:
		p.errorf(e.numbered, "%d resources are too many: at most %d", n, pool.MaxCapacity)
	default:
		if e.min != nil && e.minCount < e.maxCount && e.state == nil {
			p.warn(e.min, "min-count %d is below max-count %d: all %d are granted from the start, since there is nothing here that makes more of them on demand",
				e.minCount, e.maxCount, e.maxCount)
		}
		for _, name := range pool.Numbered(e.Type, n) {
			if !p.addName(e, name, e.typ) {
				return // the others would be wrong in the same way
			}
		}
	}
}

func (p *poolsParser) addName(e *entry, name string, at *yaml.Node) bool {
	if err := leaseapi.CheckName(name); err != nil {
		p.errorf(at, "%w", err)
		return false
	}
	if first := p.names[name]; first != nil {
		p.errorf(at, "name %q is already in line %d", name, first.Line)
		return false
	}
	p.names[name] = at
	e.Names = append(e.Names, name)
	return true
}
