package promtext_test

import (
	"os"

	"github.com/leasectl/leasectl/proxyserver/promtext"
)

func Example() {
	waits := promtext.NewHistogram([]float64{1, 5})
	for _, v := range []float64{0.5, 1, 3, 60} {
		waits.Observe(v)
	}
	var t promtext.Text
	t.Family("jobs", "gauge", "Jobs of a\nback\\slash.")
	t.Sample("jobs", promtext.Labels{"queue", `a "b" \` + "\n", "state", "new"}, 2)
	t.Sample("jobs", nil, 0.25)
	t.Family("wait_seconds", "histogram", "Waits.")
	t.Histogram("wait_seconds", promtext.Labels{"queue", "q"}, &waits)
	os.Stdout.Write(t.Bytes())
	// Output:
	// # HELP jobs Jobs of a\nback\\slash.
	// # TYPE jobs gauge
	// jobs{queue="a \"b\" \\\n",state="new"} 2
	// jobs 0.25
	// # HELP wait_seconds Waits.
	// # TYPE wait_seconds histogram
	// wait_seconds_bucket{queue="q",le="1"} 2
	// wait_seconds_bucket{queue="q",le="5"} 3
	// wait_seconds_bucket{queue="q",le="+Inf"} 4
	// wait_seconds_sum{queue="q"} 64.5
	// wait_seconds_count{queue="q"} 4
}
