package main

import (
	"context"
	"fmt"
)

// accountSeeds are the seeds of the runs of each account; the table has the median of the runs.
var accountSeeds = []uint64{1, 2, 3, 4, 5}

// fixedLimits are the fixed limits with which a pool that adapts is compared.
var fixedLimits = []int{20, 32, 50}

// measureAdapt runs the pools of the server in virtual time, with accounts that
// throttle, beside pools of a fixed size.
func measureAdapt(ctx context.Context, _ *world) ([]result, error) {
	var results []result
	for _, a := range accounts {
		hit := result{What: fmt.Sprintf("%s: jobs that are throttled (seeds %v)", a.name, accountSeeds), Unit: percent, Limit: a.throttled}
		used := result{What: a.name + ": in use of what the account bears", Unit: number, Limit: a.used}
		for _, fixed := range append([]int{0}, fixedLimits...) {
			if err := ctx.Err(); err != nil {
				return nil, err
			}
			var hits, uses []float64
			for _, seed := range accountSeeds {
				r, err := a.simulate(seed, fixed)
				if err != nil {
					return nil, fmt.Errorf("%s: %w", a.name, err)
				}
				hits, uses = append(hits, r.throttledPercent()), append(uses, r.usedPart())
			}
			if fixed == 0 {
				hit.Ours, used.Ours = median("leasectl", hits), median("leasectl", uses)
				continue
			}
			name := fmt.Sprintf("fixed %d", fixed)
			hit.Peers, used.Peers = append(hit.Peers, median(name, hits)), append(used.Peers, median(name, uses))
		}
		results = append(results, hit, used)
	}
	return results, nil
}
