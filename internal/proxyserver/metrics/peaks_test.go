package metrics

import "testing"

// The oldest peaks are forgotten.
func TestPeaksAreBounded(t *testing.T) {
	var many peaks
	for i := range 3 * keptPeaks {
		many.add(i, 1)
	}
	if s := many.summary(); s.Leases != keptPeaks || s.Asked.Max != 3*keptPeaks-1 || s.Asked.P50 != 3*keptPeaks-keptPeaks/2-1 {
		t.Errorf("of the last %d: %+v", keptPeaks, s)
	}
}

// Asking for the peaks of a type adds no series.
func TestAskingForPeaksCountsNothing(t *testing.T) {
	m := New()
	before := written(m)
	if p := m.Peaks("t"); p != nil || written(m) != before {
		t.Errorf("%+v, and there is a series more", p)
	}
}
