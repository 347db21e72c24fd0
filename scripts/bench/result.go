package main

import (
	"errors"
	"math"
	"slices"
)

// result is a number of leasectl and the same number of its peers: one or more lines of the
// table.
type result struct {
	Row   string    `json:"row"`
	What  string    `json:"what"`
	Unit  unit      `json:"unit"`
	Ours  measure   `json:"leasectl"`
	Peers []measure `json:"peers,omitempty"`
	Limit *limit    `json:"budget,omitempty"` // of our number alone
	Met   *bool     `json:"met,omitempty"`    // of all budgets; nil: there is none
	Worse bool      `json:"worse,omitempty"`  // a budget is missed by more than is known
	Error string    `json:"error,omitempty"`  // why there are no numbers
}

// resultOf makes a result of measures. The first is leasectl's.
func resultOf(what string, u unit, measures []measure) result {
	return result{What: what, Unit: u, Ours: measures[0], Peers: measures[1:]}
}

// budget sets the budget of the ratio to a peer.
func (r *result) budget(peer string, l *limit) {
	for i := range r.Peers {
		if r.Peers[i].Name == peer {
			r.Peers[i].Limit = l
		}
	}
}

// measure is a number that was measured, of leasectl or of a peer.
type measure struct {
	Name    string  `json:"name"`
	Value   float64 `json:"value"`         // the median, unless What says otherwise
	Low     float64 `json:"low,omitempty"` // the middle eight tenths of the values
	High    float64 `json:"high,omitempty"`
	Values  int     `json:"values,omitempty"`
	Missing string  `json:"missing,omitempty"` // why there is no value
	Ratio   float64 `json:"ratio,omitempty"`   // leasectl's value ÷ this one
	Limit   *limit  `json:"budget,omitempty"`  // of the ratio
	Met     *bool   `json:"met,omitempty"`
}

// limit is a budget: a bound from above or from below.
type limit struct {
	Is    string  `json:"is"` // ≤ or ≥
	Bound float64 `json:"bound"`

	// Known is how far a budget that resists is missed, and what noise adds. The table says that it
	// is missed; only what is worse than this is news. Zero: the budget is kept.
	Known float64 `json:"known,omitempty"`
}

func atMost(x float64) *limit  { return &limit{Is: "≤", Bound: x} }
func atLeast(x float64) *limit { return &limit{Is: "≥", Bound: x} }

// missedTo is l with [limit.Known]. docs/limits.md says for each where it goes.
func (l *limit) missedTo(known float64) *limit { l.Known = known; return l }

func (l *limit) met(x float64) bool { return l.within(l.Bound, x) }

// worse reports whether x misses the budget by more than is known.
func (l *limit) worse(x float64) bool {
	return !l.met(x) && (l.Known == 0 || !l.within(l.Known, x))
}

func (l *limit) within(bound, x float64) bool {
	if l.Is == "≥" {
		return x >= bound
	}
	return x <= bound
}

// median makes a measure of the middle of values.
func median(name string, values []float64) measure { return quantile(name, values, 0.5) }

// quantile makes a measure of the value below which the fraction q of values
// lies. Without values it is missing.
func quantile(name string, values []float64, q float64) measure {
	if len(values) == 0 {
		return measure{Name: name, Missing: "not measured"}
	}
	sorted := slices.Sorted(slices.Values(values))
	at := func(q float64) float64 {
		// The nearest rank, so that each number was really measured.
		return sorted[max(0, int(math.Ceil(q*float64(len(sorted))))-1)]
	}
	m := measure{Name: name, Value: at(q), Values: len(sorted)}
	if q == 0.5 { // the spread of all values says nothing about another quantile
		m.Low, m.High = at(0.1), at(0.9)
	}
	return m
}

// one makes a measure of a single value.
func one(name string, value float64) measure { return measure{Name: name, Value: value, Values: 1} }

func missing(name, why string) measure { return measure{Name: name, Missing: why} }

// medianUnless is the median of values, or missing if lack says what must be installed.
func medianUnless(lack, name string, values []float64) measure {
	if lack != "" {
		return missing(name, lack)
	}
	return median(name, values)
}

// judge fills in the ratios, and whether the budgets are met. A budget whose
// peer is missing is not judged: the table shows that it is missing.
func (r *result) judge() {
	judged, met := false, true
	count := func(l *limit, x float64) *bool {
		ok := l.met(x)
		judged, met = true, met && ok
		r.Worse = r.Worse || l.worse(x)
		return &ok
	}
	if r.Limit != nil && r.Ours.Missing == "" {
		r.Ours.Met = count(r.Limit, r.Ours.Value)
	}
	for i := range r.Peers {
		p := &r.Peers[i]
		if p.Missing != "" || r.Ours.Missing != "" || p.Value == 0 {
			continue
		}
		p.Ratio = r.Ours.Value / p.Value
		if p.Limit != nil {
			p.Met = count(p.Limit, p.Ratio)
		}
	}
	if judged {
		r.Met = &met
	}
}

var errMissed = errors.New("a budget is missed by more than is known, or a row could not be measured")
