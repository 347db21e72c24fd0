package config

import (
	"go.yaml.in/yaml/v3"

	"github.com/leasectl/leasectl/pool"
)

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
