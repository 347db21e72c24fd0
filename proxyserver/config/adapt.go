package config

import (
	"go.yaml.in/yaml/v3"

	"github.com/leasectl/leasectl/pool"
)

// adapt is how the limit of a pool adapts, with where its parts stand.
type adapt struct{ floor, start *yaml.Node }

// parseAdapt reads how a limit adapts. Without anything in it, it does so between 1
// and the capacity.
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

// checkAdapt checks the bounds of a limit against each other.
func (p *parser) checkAdapt(a *pool.Adapt, capacity int, at adapt) {
	switch {
	case a == nil || capacity == 0: // which has been reported
	case a.Floor > capacity:
		p.errorf(at.floor, "floor %d is above the capacity of %d", a.Floor, capacity)
	case a.Start > capacity:
		p.errorf(at.start, "start %d is above the capacity of %d", a.Start, capacity)
	case a.Start > 0 && a.Start < a.Floor:
		p.errorf(at.start, "start %d is below floor %d", a.Start, a.Floor)
	}
}
