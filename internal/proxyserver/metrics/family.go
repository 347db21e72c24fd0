package metrics

import (
	"fmt"
	"maps"
	"slices"
)

// family is a metric with all its series. [Counts] guards it.
type family struct {
	name, kind, help string
	bounds           []float64          // the upper bounds of a histogram's buckets, in order
	series           map[string]*series // by name and labels, as the text has them
}

// series is a counter, or a histogram.
type series struct {
	of      *family
	labels  []string // names and values, in turn
	count   uint64   // of events, or of values
	sum     float64  // of values
	buckets []uint64 // how many values each bucket has which the one before has not
}

// with returns the series of some labels, and makes it if there is none.
func (f *family) with(labels ...string) *series {
	key := nameOf(f.name, labels...)
	s := f.series[key]
	if s == nil {
		s = &series{of: f, labels: labels, buckets: make([]uint64, len(f.bounds))}
		f.series[key] = s
	}
	return s
}

// inc counts an event.
func (s *series) inc() { s.count++ }

// observe counts a value of a histogram.
func (s *series) observe(v float64) {
	s.count++
	s.sum += v
	if i, _ := slices.BinarySearch(s.of.bounds, v); i < len(s.buckets) {
		s.buckets[i]++
	}
}

// write writes the family, with its series in the order of their labels.
func (f *family) write(t *Text) {
	t.Family(f.name, f.kind, f.help)
	for _, key := range slices.Sorted(maps.Keys(f.series)) {
		s := f.series[key]
		if f.bounds == nil {
			t.Sample(f.name, float64(s.count), s.labels...)
			continue
		}
		bucket := func(bound string, n uint64) {
			t.Sample(f.name+"_bucket", float64(n), slices.Concat(s.labels, []string{"le", bound})...)
		}
		below := uint64(0)
		for i, n := range s.buckets {
			below += n
			bucket(fmt.Sprint(f.bounds[i]), below)
		}
		bucket("+Inf", s.count)
		t.Sample(f.name+"_sum", s.sum, s.labels...)
		t.Sample(f.name+"_count", float64(s.count), s.labels...)
	}
}
