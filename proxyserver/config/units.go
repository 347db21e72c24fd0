package config

import (
	"cmp"
	"maps"
	"slices"

	"go.yaml.in/yaml/v3"

	"github.com/leasectl/leasectl/pool"
)

// stock is what an entry has: units or names.
func (e *entry) stock() string {
	if e.units != nil {
		return "units"
	}
	return "names"
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

// parseCost reads what the items of a request come to.
func (p *poolsParser) parseCost(value *yaml.Node) *pool.Cost {
	cost := new(pool.Cost)
	p.mapping(value, "cost", map[string]func(key, value *yaml.Node){
		"base":     func(key, value *yaml.Node) { cost.Base = p.decimal(key, value) },
		"per_item": func(key, value *yaml.Node) { cost.PerItem = p.decimal(key, value) },
		"round_to": func(key, value *yaml.Node) { cost.RoundTo = p.number(key, value, 1) },
		"min":      func(key, value *yaml.Node) { cost.Min = p.number(key, value, 1) },
	})
	return cost
}

// decimal returns a number as it is written: 0.2 is two tenths exactly.
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

// unit returns what a unit is: a number with its unit, such as 1Mi, or a word.
func (p *parser) unit(key, value *yaml.Node) string {
	at, value := value, resolve(value)
	if value.Kind != yaml.ScalarNode || value.Tag == "!!null" || value.Value == "" {
		p.errorf(at, "%s is %s, not a word such as 1Mi", key.Value, kindOf(value))
		return ""
	}
	return value.Value
}

// checkMadeUp reports names that a counted pool would make up for a lease of its own.
func (p *poolsParser) checkMadeUp() {
	counted := make(map[string]*yaml.Node)
	for _, c := range p.pools {
		if c.Units > 0 {
			counted[c.Type] = p.types[c.Type]
		}
	}
	if len(counted) == 0 {
		return
	}
	for _, name := range slices.SortedFunc(maps.Keys(p.names), func(a, b string) int {
		return cmp.Or(cmp.Compare(p.names[a].Line, p.names[b].Line), cmp.Compare(a, b))
	}) {
		typ, _ := pool.MadeUpFor(name)
		if pool := counted[typ]; pool != nil {
			p.errorf(p.names[name], "name %q looks like one that the pool %q of line %d makes up", name, typ, pool.Line)
		}
	}
}
