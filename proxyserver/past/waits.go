package past

import (
	"math"
	"time"
)

// Waits is how long requests waited.
type Waits struct {
	Count    int           // of requests; zero: nothing is known
	P50, P95 time.Duration // half of them, and 95 of a hundred, waited no longer
}

// dayWaits counts, hour by hour, how long the requests waited that were granted in the last
// day.
type dayWaits struct {
	hours []hourWaits // in their order
}

// hourWaits counts the waits of an hour in buckets. Each bucket ends a fifth later than the
// one before, so a quantile is exact to a tenth.
type hourWaits struct {
	hour   int64
	counts [waitBuckets]uint32
}

const (
	waitBuckets = 96
	waitLeast   = 10 * time.Millisecond // the first bucket's end; the last ends after four days
	waitGrowth  = 1.2
)

// add counts a wait that ended in an hour. Hours do not go back.
func (d *dayWaits) add(hour int64, wait time.Duration) {
	if n := len(d.hours); n == 0 || d.hours[n-1].hour < hour {
		for len(d.hours) > 0 && d.hours[0].hour <= hour-24 {
			d.hours = d.hours[1:]
		}
		d.hours = append(d.hours, hourWaits{hour: hour})
	}
	i := 0
	if wait > waitLeast {
		i = min(waitBuckets-1, 1+int(math.Log(float64(wait)/float64(waitLeast))/math.Log(waitGrowth)))
	}
	d.hours[len(d.hours)-1].counts[i]++
}

// waits returns the waits of the day that ends with an hour.
func (d *dayWaits) waits(hour int64) (w Waits) {
	var counts [waitBuckets]int
	for _, h := range d.hours {
		if h.hour <= hour-24 {
			continue
		}
		for i, n := range h.counts {
			counts[i] += int(n)
			w.Count += int(n)
		}
	}
	w.P50, w.P95 = quantile(counts, w.Count, 50), quantile(counts, w.Count, 95)
	return w
}

// quantile returns the wait, exact to a tenth, that percent of the total do not exceed.
func quantile(counts [waitBuckets]int, total, percent int) time.Duration {
	seen := 0
	for i, n := range counts {
		if seen += n; n > 0 && seen*100 >= total*percent {
			if i == 0 {
				return 0
			}
			return time.Duration(float64(waitLeast) * math.Pow(waitGrowth, float64(i)-0.5))
		}
	}
	return 0
}
