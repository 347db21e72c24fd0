package config

import (
	"go.yaml.in/yaml/v3"

	"github.com/leasectl/leasectl/pool"
)

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
