package metrics

import (
	"maps"
	"slices"

	"github.com/leasectl/leasectl/leaseapi"
)

// peaks are what leases of a pool asked for, and what their commands used. They are in
// memory only: they are for people who set costs and capacities.
type peaks struct{ asked, used recent } // units, bytes

// keptPeaks is how many leases of a pool have their peaks kept: enough for the 95th
// percentile of the commands of recent days.
const keptPeaks = 1000

// recent is the last keptPeaks values, and the count and the sum of all values.
type recent struct {
	values []int64 // once there are keptPeaks, the next takes the place of the oldest
	count  int
	sum    float64
}

func (p *peaks) add(asked int, used int64) {
	p.asked.add(int64(asked))
	p.used.add(used)
}

func (r *recent) add(v int64) {
	if r.count < keptPeaks {
		r.values = append(r.values, v)
	} else {
		r.values[r.count%keptPeaks] = v
	}
	r.count++
	r.sum += float64(v)
}

// summary returns what clients are shown; nil if there are no peaks.
func (p *peaks) summary() *leaseapi.Peaks {
	if p.asked.count == 0 {
		return nil
	}
	return &leaseapi.Peaks{Leases: len(p.asked.values), Asked: quantiles(p.asked.values), Used: quantiles(p.used.values)}
}

// quantiles uses the nearest rank: each quantile is one of values, which must not be empty.
func quantiles(values []int64) leaseapi.Quantiles {
	values = slices.Sorted(slices.Values(values))
	rank := func(percent int) int64 { return values[(percent*len(values)+99)/100-1] }
	return leaseapi.Quantiles{P50: rank(50), P95: rank(95), Max: rank(100)}
}

// writePeaks writes what the last leases of counted pools asked for, and used. The caller holds m.mu.
func (m *Counts) writePeaks(t *Text) {
	types := slices.Sorted(maps.Keys(m.pools))
	write := func(name, help string, of func(*peaks) recent) {
		t.Family(name, "summary", help)
		for _, typ := range types {
			if r := of(&m.pools[typ].peaks); r.count > 0 {
				q := quantiles(r.values)
				t.Sample(name, float64(q.P50), "type", typ, "quantile", "0.5")
				t.Sample(name, float64(q.P95), "type", typ, "quantile", "0.95")
				t.Sample(name, float64(q.Max), "type", typ, "quantile", "1")
				t.Sample(name+"_sum", r.sum, "type", typ)
				t.Sample(name+"_count", float64(r.count), "type", typ)
			}
		}
	}
	write("leasectl_asked_units", "Units that the last leases of a counted pool had asked for; sum and count are of all.", func(p *peaks) recent { return p.asked })
	write("leasectl_used_bytes", "Peak memory of the commands of the same leases; sum and count are of all.", func(p *peaks) recent { return p.used })
}
