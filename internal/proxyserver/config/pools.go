package config

import (
	"cmp"
	"errors"
	"maps"
	"slices"

	"go.yaml.in/yaml/v3"

	"github.com/leasectl/leasectl/internal/pool"
)

// ParsePools reads pools from the YAML that Boskos deployments have. name is the name of the
// file, for errors and warnings.
//
//	resources:
//	- type: aws-quota-slice     # what requests ask for
//	  state: free               # names in any other state, such as dirty, are not granted
//	  names: [us-east-1, us-west-2]
//	- type: gcp-quota-slice
//	  min-count: 5              # unnamed: gcp-quota-slice-0 and so on,
//	  max-count: 10             # as many as the greater count
//	  default_ttl: 4h           # of a request that names none
//	  max_ttl: 12h              # the most a request may name
//	  v1_ttl: 12h               # of a request of version 1, which cannot renew; default_ttl if not set
//	  max_waiters: 10000
//	  lock_delay: 15s           # a name that was not released is not granted again for that long
//	  overtake: 1               # how many times the capacity goes ahead of a waiter that does not fit, at the most; 0: strictly in order
//	  pace: auto                # the least time between two grants, such as 24s;
//	  hold: 20m                 # auto is how long a lease is held / the limit
//	  adapt: {floor: 8, start: 20} # the limit moves with what holders report
//	- type: mem
//	  units: 8192               # a counted pool: a lease holds as many as it asks for
//	  unit: 1Mi                 # what a unit is, for people
//	  cost: {base: 128, per_item: 0.2, round_to: 32, min: 128} # turns the items of a request into units
//	  unknown: 512              # units of a request that says neither units nor items
//	  overcommit: 1024          # units beyond the limit, for requests that ask for overcommit
//
// Keys of Boskos that have no meaning here yield warnings. The error joins up to ten errors
// of the form "name:line:column: text". With an error there are no pools, but warnings.
func ParsePools(name string, data []byte) ([]pool.Config, []Warning, error) {
	p := &poolsParser{parser: parser{file: name}, names: make(map[string]*yaml.Node), types: make(map[string]*yaml.Node)}
	if root, ok := p.decode(data); ok {
		p.parseFile(root)
	}
	if len(p.errs) > 0 {
		return nil, p.warnings, errors.Join(p.errs...)
	}
	return p.pools, p.warnings, nil
}

func (p *poolsParser) parseFile(root *yaml.Node) {
	var resources *yaml.Node
	p.mapping(root, "the file", map[string]func(key, value *yaml.Node){
		"resources": func(_, value *yaml.Node) { resources = value },
	})
	if resources == nil {
		if len(p.errs) == 0 {
			p.errorf(root, "there is no resources")
		}
		return
	}
	entries, ok := p.sequence(resources, "resources")
	if !ok {
		return
	}
	for _, entry := range entries {
		if len(p.errs) >= maxErrors {
			return
		}
		p.parseEntry(entry)
	}
	p.checkMadeUpNames()
}

// checkMadeUpNames reports names that a counted pool could make up for its own leases.
func (p *poolsParser) checkMadeUpNames() {
	counted := make(map[string]*yaml.Node) // where the types of counted pools are in the file
	for _, c := range p.pools {
		if c.Units > 0 {
			counted[c.Type] = p.types[c.Type]
		}
	}
	if len(counted) == 0 {
		return
	}
	byLine := func(a, b string) int {
		return cmp.Or(cmp.Compare(p.names[a].Line, p.names[b].Line), cmp.Compare(a, b))
	}
	for _, name := range slices.SortedFunc(maps.Keys(p.names), byLine) {
		typ := pool.MadeUpFor(name)
		if at := counted[typ]; at != nil {
			p.errorf(p.names[name], "name %q looks like one that the pool %q of line %d makes up", name, typ, at.Line)
		}
	}
}

// adapt has the nodes of the settings of a limit that adapts.
type adapt struct{ floor, start *yaml.Node }

// parseAdapt reads how a limit adapts. Without settings the limit adapts between 1 and the
// capacity.
func (p *parser) parseAdapt(value *yaml.Node) (settings *pool.Adapt, at adapt) {
	settings = new(pool.Adapt)
	if v := resolve(value); v.Kind == yaml.ScalarNode && v.Tag == "!!null" {
		return settings, at
	}
	p.mapping(value, "adapt", map[string]func(key, value *yaml.Node){
		"floor": func(key, value *yaml.Node) { at.floor = value; settings.Floor = p.number(key, value, 1) },
		"start": func(key, value *yaml.Node) { at.start = value; settings.Start = p.number(key, value, 1) },
	})
	return settings, at
}

// checkAdapt checks the bounds of a limit against each other. It lowers a bound above the
// capacity, with a warning, so that an operator who removes a name need not lower it, too.
func (p *parser) checkAdapt(a *pool.Adapt, capacity int, at adapt) {
	if a == nil || capacity == 0 { // no capacity: that has been reported
		return
	}
	if a.Start > 0 && a.Start < a.Floor {
		p.errorf(at.start, "start %d is below floor %d", a.Start, a.Floor)
		return
	}
	bound := func(what string, n *int, at *yaml.Node) {
		if *n > capacity {
			p.warn(at, "%s %d is above the capacity of %d, which counts instead", what, *n, capacity)
			*n = capacity
		}
	}
	bound("floor", &a.Floor, at.floor)
	bound("start", &a.Start, at.start)
}

// parseCost reads how the items of a request become units.
func (p *parser) parseCost(value *yaml.Node) *pool.Cost {
	cost := new(pool.Cost)
	p.mapping(value, "cost", map[string]func(key, value *yaml.Node){
		"base":     func(key, value *yaml.Node) { cost.Base = p.decimal(key, value) },
		"per_item": func(key, value *yaml.Node) { cost.PerItem = p.decimal(key, value) },
		"round_to": func(key, value *yaml.Node) { cost.RoundTo = p.number(key, value, 1) },
		"min":      func(key, value *yaml.Node) { cost.Min = p.number(key, value, 1) },
	})
	return cost
}

// decimal returns a number as it is written: 0.2 is exactly two tenths.
func (p *parser) decimal(key, value *yaml.Node) pool.Decimal {
	at, value := value, resolve(value)
	if value.Kind != yaml.ScalarNode || value.Tag != "!!int" && value.Tag != "!!float" {
		p.errorf(at, "%s is %s, not a decimal number such as 0.2", key.Value, kindOf(value))
		return pool.Decimal{}
	}
	d, err := pool.ParseDecimal(value.Value)
	if err != nil {
		p.errorf(at, "%s %w", key.Value, err)
	}
	return d
}

// overtake returns how many times its capacity may go ahead of a waiter.
func (p *parser) overtake(key, value *yaml.Node) *pool.Decimal {
	d := p.decimal(key, value)
	return &d
}

// unit returns what a unit is: a number with its unit, such as 1Mi, or a word.
func (p *parser) unit(key, value *yaml.Node) string {
	at, value := value, resolve(value)
	if value.Kind != yaml.ScalarNode || value.Tag == "!!null" || value.Value == "" {
		p.errorf(at, "%s is %s, not a word such as 1Mi", key.Value, kindOf(value))
		return ""
	}
	return value.Value
}
