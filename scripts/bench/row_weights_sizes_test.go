package main

import (
	"testing"
	"time"

	"github.com/leasectl/leasectl/internal/pool"
)

// At each moment the pool bears what runs, and in strict order the jobs start in the order in which
// they came.
func TestSimulatedSizes(t *testing.T) {
	for _, overtake := range []*pool.Decimal{nil, new(pool.Decimal)} {
		jobs := sizedJobs(7)[:500]
		if err := simulateSizes(jobs, overtake); err != nil {
			t.Fatal(err)
		}
		last := time.Duration(0)
		for i, j := range jobs {
			if j.starts < j.comes {
				t.Fatalf("job %d starts %v before it comes", i, j.comes-j.starts)
			}
			if overtake != nil && j.starts < last {
				t.Fatalf("job %d overtook another", i)
			}
			last = max(last, j.starts)
			units := 0
			for _, other := range jobs {
				if other.starts <= j.starts && j.starts < other.starts+other.hold {
					units += other.units
				}
			}
			if units > sizesUnits {
				t.Fatalf("%d units run at %v", units, j.starts)
			}
		}
	}
}
