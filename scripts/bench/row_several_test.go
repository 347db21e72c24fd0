package main

import "testing"

// At each moment the pools bear what runs, and no job ends before the bound.
func TestSimulatedSeveral(t *testing.T) {
	for _, oneByOne := range []bool{false, true} {
		jobs := jointJobs(7, 1.2)[:300]
		end, err := simulateSeveral(jobs, nil, oneByOne)
		if err != nil {
			t.Fatal(err)
		}
		if least := leastTime(jobs); end < least {
			t.Errorf("all have ended at %v, before %v", end, least)
		}
		for i, j := range jobs {
			if j.starts < j.comes || len(j.names) != len(j.pools) {
				t.Fatalf("job %d starts %v before it comes, with %q", i, j.comes-j.starts, j.names)
			}
			var used [severalPools]int
			for _, other := range jobs {
				if other.starts <= j.starts && j.starts < other.starts+other.hold {
					for _, p := range other.pools {
						used[p]++
					}
				}
			}
			for p, n := range used {
				if n > severalCapacity {
					t.Fatalf("%d hold a lease of pool %d at %v", n, p, j.starts)
				}
			}
		}
	}
}
