package proxyserver

import (
	"strconv"
	"time"

	"go.yaml.in/yaml/v3"

	"github.com/leasectl/leasectl/leaseapi"
	"github.com/leasectl/leasectl/pool"
)

// configEntry is one element of resources, with where its parts stand.
type configEntry struct {
	pool.Config
	at, typ, names, max, defaultTTL *yaml.Node
	auto, hold                      *yaml.Node // pace: auto, and the hold it is made of
	holdTime                        time.Duration
	counted                         *yaml.Node // min-count or max-count, whichever came first
	minCount, maxCount              int
}

func (p *configParser) parseEntry(node *yaml.Node) {
	before := len(p.errs)
	e := configEntry{at: node}
	meaningless := func(key, _ *yaml.Node) {
		p.warnings = append(p.warnings, Warning{p.file, key.Line, key.Column, "key " + strconv.Quote(key.Value) + " has no meaning here"})
	}
	count := func(to *int) func(key, value *yaml.Node) {
		return func(key, value *yaml.Node) {
			if e.counted == nil {
				e.counted = key
			}
			*to = p.number(key, value, 0)
		}
	}
	p.mapping(node, "a resource", map[string]func(key, value *yaml.Node){
		"type":        func(key, value *yaml.Node) { e.typ, e.Type = value, p.text(key.Value, value) },
		"state":       func(key, value *yaml.Node) { p.text(key.Value, value) },
		"names":       func(key, value *yaml.Node) { e.names = key; p.parseNames(&e, value) },
		"min-count":   count(&e.minCount),
		"max-count":   func(key, value *yaml.Node) { e.max = key; count(&e.maxCount)(key, value) },
		"default_ttl": func(key, value *yaml.Node) { e.defaultTTL = key; e.DefaultTTL = p.duration(key, value) },
		"max_ttl":     func(key, value *yaml.Node) { e.MaxTTL = p.duration(key, value) },
		"pace":        func(key, value *yaml.Node) { p.parsePace(&e, key, value) },
		"hold":        func(key, value *yaml.Node) { e.hold = key; e.holdTime = p.duration(key, value) },
		"max_waiters": func(key, value *yaml.Node) { e.MaxWaiters = p.number(key, value, 1) },
		"lifespan":    meaningless,
		"config":      meaningless,
		"needs":       meaningless,
	})
	if len(p.errs) > before {
		return // what follows would only be consequences
	}
	if p.checkType(&e); len(p.errs) > before {
		return
	}
	switch {
	case e.names != nil && e.counted != nil:
		p.errorf(e.counted, "a resource has names or counts, not both")
	case e.counted != nil:
		p.makeNames(&e)
	case e.names == nil:
		p.errorf(e.at, "a resource has names, or min-count and max-count")
	}
	if e.MaxTTL > 0 && e.DefaultTTL > e.MaxTTL {
		p.errorf(e.defaultTTL, "default_ttl %v is above max_ttl %v", e.DefaultTTL, e.MaxTTL)
	}
	switch {
	case e.auto != nil && e.hold == nil:
		p.errorf(e.auto, "pace auto needs hold, how long a lease is held as a rule")
	case e.auto == nil && e.hold != nil:
		p.errorf(e.hold, "hold has no meaning without pace: auto")
	}
	if len(p.errs) > before {
		return
	}
	if e.auto != nil {
		e.Pace = pool.AutoPace(e.holdTime, len(e.Names))
	}
	if err := e.Check(); err != nil { // the pools have the last word
		p.errorf(e.at, "%w", err)
		return
	}
	p.pools = append(p.pools, e.Config)
}

func (p *configParser) parsePace(e *configEntry, key, value *yaml.Node) {
	if v := resolve(value); v.Kind == yaml.ScalarNode && v.Value == "auto" {
		e.auto = value
		return
	}
	e.Pace = p.duration(key, value)
}

func (p *configParser) checkType(e *configEntry) {
	if e.typ == nil {
		p.errorf(e.at, "a resource has no type")
		return
	}
	if err := leaseapi.CheckType(e.Type); err != nil {
		p.errorf(e.typ, "%w", err)
		return
	}
	if first := p.types[e.Type]; first != nil {
		p.errorf(e.typ, "type %q is already in line %d", e.Type, first.Line)
		return
	}
	p.types[e.Type] = e.typ
}

func (p *configParser) parseNames(e *configEntry, value *yaml.Node) {
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
			continue // which has been reported
		}
		p.addName(e, name, node)
	}
}

// makeNames names the resources of an entry that has only counts.
func (p *configParser) makeNames(e *configEntry) {
	n := max(e.minCount, e.maxCount)
	switch {
	case e.max != nil && e.minCount > e.maxCount:
		p.errorf(e.max, "max-count %d is below min-count %d", e.maxCount, e.minCount)
	case n == 0:
		p.errorf(e.counted, "the greater count is 0: a pool needs one resource at least")
	case n > pool.MaxCapacity:
		p.errorf(e.counted, "%d resources are too many: at most %d", n, pool.MaxCapacity)
	default:
		for i := range n {
			if !p.addName(e, e.Type+"-"+strconv.Itoa(i), e.typ) {
				return // the others would be wrong in the same way
			}
		}
	}
}

func (p *configParser) addName(e *configEntry, name string, at *yaml.Node) bool {
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

// text returns a string that must not be empty.
func (p *configParser) text(what string, value *yaml.Node) string {
	at, value := value, resolve(value)
	if value.Kind != yaml.ScalarNode || value.Tag != "!!str" {
		p.errorf(at, "%s is %s, not a string; quotes make it one", what, kindOf(value))
		return ""
	}
	if value.Value == "" {
		p.errorf(at, "%s is empty", what)
	}
	return value.Value
}

func (p *configParser) number(key, value *yaml.Node, least int) int {
	at, value := value, resolve(value)
	var n int
	if value.Kind != yaml.ScalarNode || value.Tag != "!!int" || value.Decode(&n) != nil {
		p.errorf(at, "%s is not a whole number", key.Value)
		return 0
	}
	if n < least {
		p.errorf(at, "%s %d is less than %d", key.Value, n, least)
	}
	return n
}

func (p *configParser) duration(key, value *yaml.Node) time.Duration {
	at, value := value, resolve(value)
	d, err := time.ParseDuration(value.Value)
	switch {
	case value.Kind != yaml.ScalarNode || err != nil:
		p.errorf(at, "%s is not a duration such as 90s, 30m or 4h", key.Value)
	case d <= 0:
		p.errorf(at, "%s %v is not positive", key.Value, d)
	}
	return d
}
