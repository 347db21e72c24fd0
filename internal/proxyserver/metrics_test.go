package proxyserver

import (
	"fmt"
	"math"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"testing"
	"testing/synctest"
	"time"
	"unicode/utf8"

	"github.com/leasectl/leasectl/internal/pool"
)

// family is one metric as a scraper sees it.
type family struct {
	kind    string
	help    string
	samples map[string]float64 // by name and labels, as in the text
}

var (
	metricName   = regexp.MustCompile(`^[a-zA-Z_:][a-zA-Z0-9_:]*$`)
	metricSample = regexp.MustCompile(`^([a-zA-Z_:][a-zA-Z0-9_:]*)(\{(?:[a-zA-Z_][a-zA-Z0-9_]*="(?:[^"\\\n]|\\["\\n])*",?)*\})? (\S+)$`)
	metricLabel  = regexp.MustCompile(`([a-zA-Z_][a-zA-Z0-9_]*)="((?:[^"\\\n]|\\["\\n])*)"(,?)`)
)

// parseMetrics checks that text follows the format, and what a scraper needs beyond it. Each
// family is there once, with help and type, its samples together. No sample is there twice.
// Counters end in _total. Histograms have ascending cumulative buckets up to +Inf, which has
// their count. Only summaries have quantiles.
func parseMetrics(text string) (map[string]family, error) {
	families := make(map[string]family)
	if !strings.HasSuffix(text, "\n") || !utf8.ValidString(text) {
		return nil, fmt.Errorf("the text does not end in a newline, or is not UTF-8")
	}
	current, helped, help := "", "", ""
	for n, line := range strings.Split(strings.TrimSuffix(text, "\n"), "\n") {
		bad := func(why string) error { return fmt.Errorf("line %d %q: %s", n+1, line, why) }
		words := strings.SplitN(line, " ", 4)
		switch {
		case strings.HasPrefix(line, "# HELP "):
			if len(words) != 4 || words[3] == "" || !metricName.MatchString(words[2]) {
				return nil, bad("no name and help")
			}
			helped, help = words[2], words[3]
		case strings.HasPrefix(line, "# TYPE "):
			_, twice := families[words[2]]
			if len(words) != 4 || words[2] != helped || twice || !slices.Contains([]string{"counter", "gauge", "histogram", "summary"}, words[3]) {
				return nil, bad("not one type after its help")
			}
			if strings.HasSuffix(words[2], "_total") != (words[3] == "counter") {
				return nil, bad("counters and only they end in _total")
			}
			current = words[2]
			families[current] = family{words[3], help, make(map[string]float64)}
		default:
			m := metricSample.FindStringSubmatch(line)
			if m == nil {
				return nil, bad("no sample")
			}
			base, kind := m[1], families[current].kind
			if kind == "histogram" {
				base = strings.TrimSuffix(base, "_bucket")
			}
			if kind == "histogram" || kind == "summary" {
				base = strings.TrimSuffix(strings.TrimSuffix(base, "_sum"), "_count")
			}
			if strings.Contains(m[2], `quantile="`) && (kind != "summary" || m[1] != current) {
				return nil, bad("a quantile of what is no summary")
			}
			v, err := strconv.ParseFloat(m[3], 64)
			if _, twice := families[current].samples[m[1]+m[2]]; base != current || twice || err != nil || math.IsNaN(v) || v < 0 {
				return nil, bad("not of its family, there twice, or no value")
			}
			families[current].samples[m[1]+m[2]] = v
		}
	}
	for name, f := range families {
		var err error
		switch f.kind {
		case "histogram":
			err = checkHistogram(name, f.samples)
		case "summary":
			err = checkSummary(name, f.samples)
		}
		if err != nil {
			return nil, err
		}
	}
	return families, nil
}

// checkSummary checks that each set of quantiles has a sum and a count: some scrapers drop a
// summary without them.
func checkSummary(name string, samples map[string]float64) error {
	for key := range samples {
		labels, ok := strings.CutPrefix(key, name+"{")
		if !ok {
			continue
		}
		labels, _, _ = strings.Cut(labels, `,quantile="`)
		for _, end := range []string{"_sum", "_count"} {
			if _, ok := samples[name+end+"{"+labels+"}"]; !ok {
				return fmt.Errorf("%s has no %s%s{%s}", key, name, end, labels)
			}
		}
	}
	return nil
}

// checkHistogram checks the buckets of each set of labels.
func checkHistogram(name string, samples map[string]float64) error {
	type bucket struct{ le, n float64 }
	buckets := make(map[string][]bucket)
	for key, v := range samples {
		labels, ok := strings.CutPrefix(key, name+"_bucket")
		if !ok {
			continue
		}
		le, rest := math.NaN(), ""
		for _, l := range metricLabel.FindAllStringSubmatch(labels, -1) {
			if l[1] == "le" {
				le, _ = strconv.ParseFloat(l[2], 64)
			} else {
				rest += l[1] + `="` + l[2] + `"`
			}
		}
		if rest != "" {
			rest = "{" + rest + "}"
		}
		buckets[rest] = append(buckets[rest], bucket{le, v})
	}
	counts := 0
	for key := range samples {
		if strings.HasPrefix(key, name+"_count") {
			counts++
		}
	}
	if counts != len(buckets) {
		return fmt.Errorf("%s: %d counts for %d sets of buckets", name, counts, len(buckets))
	}
	for labels, bs := range buckets {
		slices.SortFunc(bs, func(a, b bucket) int { return int(math.Copysign(1, a.le-b.le)) })
		last := bs[len(bs)-1]
		if _, ok := samples[name+"_sum"+labels]; !ok || !math.IsInf(last.le, 1) || samples[name+"_count"+labels] != last.n {
			return fmt.Errorf("%s%s: no sum, or no bucket +Inf that is the count", name, labels)
		}
		for i := 1; i < len(bs); i++ {
			if bs[i].n < bs[i-1].n || bs[i].le == bs[i-1].le {
				return fmt.Errorf("%s%s: bucket %v has less than the one before it", name, labels, bs[i].le)
			}
		}
	}
	return nil
}

func (p *peer) metrics() map[string]family {
	p.t.Helper()
	r := p.do("GET", "/metrics", "")
	if r.status != 200 || r.header.Get("Content-Type") != "text/plain; version=0.0.4; charset=utf-8" {
		p.t.Errorf("metrics: %d %q", r.status, r.header.Get("Content-Type"))
	}
	families, err := parseMetrics(r.body)
	if err != nil {
		p.t.Fatalf("%v in\n%s", err, r.body)
	}
	return families
}

// Metrics say what happened, per type, in a text that a strict scraper accepts.
func TestMetrics(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		odd := "odd \"type\" \\ ü{}"
		opts := durable(t, t.TempDir(), 3)
		opts.Version = "v1"
		opts.Pools = append(opts.Pools, pool.Config{Type: odd, Names: []string{"o"}, MaxWaiters: 1, Pace: time.Hour})
		p := start(t, opts)
		p.granted("type=q&request_id=a&count=2")
		p.granted("type=q")
		waits := p.later(t.Context(), "type=q&request_id=w&wait=1h")
		time.Sleep(20 * time.Second)
		f := p.metrics()
		p.release(`{"names":["q-2"]}`)
		<-waits
		p.do("POST", "/lease/break", `{"name":"q-2","reason":"x","now":true}`)
		time.Sleep(10 * time.Second) // q-0 and q-1 were never confirmed
		p.acquire("type=" + "none")
		p.acquire("type=also-none")
		p.acquire("type=q&count=9")
		p.server.Reloaded("config", nil)
		p.server.Reloaded("config", fmt.Errorf("broken"))
		after := p.metrics()

		for _, c := range []struct {
			families map[string]family
			name     string
			labels   string
			want     float64
		}{
			{f, "leasectl_in_use", `{type="q"}`, 3},
			{f, "leasectl_waiting", `{type="q"}`, 1},
			{f, "leasectl_capacity", `{type="q"}`, 3},
			{f, "leasectl_oldest_waiting_seconds", `{type="q"}`, 20},
			{f, "leasectl_grants_total", `{type="odd \"type\" \\ ü{}"}`, 0},
			{f, "leasectl_ready", "", 1},
			{f, "leasectl_durable", "", 1},
			{after, "leasectl_grants_total", `{type="q"}`, 4},
			{after, "leasectl_releases_total", `{type="q"}`, 1},
			{after, "leasectl_breaks_total", `{type="q"}`, 1},
			{after, "leasectl_expiries_total", `{type="q"}`, 2},
			{after, "leasectl_in_use", `{type="q"}`, 0},
			{after, "leasectl_refusals_total", `{type="",reason="unknown-type"}`, 2},
			{after, "leasectl_refusals_total", `{type="q",reason="too-many"}`, 1},
			{after, "leasectl_reloads_total", `{source="config",result="ok"}`, 1},
			{after, "leasectl_reloads_total", `{source="config",result="error"}`, 1},
			{after, "leasectl_warning", `{source="config"}`, 1},
			{after, "leasectl_commit_errors_total", "", 0},
		} {
			if got, ok := c.families[c.name].samples[c.name+c.labels]; !ok || got != c.want {
				t.Errorf("%s%s is %v, %v, want %v", c.name, c.labels, got, ok, c.want)
			}
		}
		for _, c := range []struct {
			name, labels string
			want         float64
		}{
			{"leasectl_wait_seconds_count", `{type="q"}`, 3},
			{"leasectl_wait_seconds_sum", `{type="q"}`, 20},
			{"leasectl_wait_seconds_bucket", `{type="q",le="15"}`, 2},
			{"leasectl_wait_seconds_bucket", `{type="q",le="60"}`, 3},
			{"leasectl_hold_seconds_count", `{type="q"}`, 4},
			{"leasectl_hold_seconds_sum", `{type="q"}`, 20 + 0 + 30 + 30},
			{"leasectl_hold_seconds_bucket", `{type="q",le="10"}`, 1},
		} {
			name := c.name[:strings.LastIndex(c.name, "_")]
			if got, ok := after[name].samples[c.name+c.labels]; !ok || got != c.want {
				t.Errorf("%s%s is %v, %v, want %v", c.name, c.labels, got, ok, c.want)
			}
		}
		if n := after["leasectl_commit_changes"].samples["leasectl_commit_changes_count"]; n < 4 {
			t.Errorf("%v commits", n)
		}
	})
}

// When the store has failed, the metrics still come, and show that.
func TestMetricsOfAFailedServer(t *testing.T) {
	synctest.Test(t, func(t *testing.T) { // no other commit comes before
		p := start(t, durable(t, t.TempDir(), 1))
		p.server.store.Close()
		p.acquire("type=q")
		f, err := parseMetrics(p.local("GET", "/metrics", "").body)
		if err != nil {
			t.Fatal(err)
		}
		if f["leasectl_ready"].samples["leasectl_ready"] != 0 || f["leasectl_commit_errors_total"].samples["leasectl_commit_errors_total"] != 1 {
			t.Errorf("%+v", f)
		}
	})
}

// The parser of this test refuses texts that a scraper would refuse.
func TestParseMetricsIsStrict(t *testing.T) {
	const head = "# HELP x h\n# TYPE x "
	for _, text := range []string{
		"x 1", "x 1\n", head + "gauge\nx 1\nx 1\n", head + "gauge\nx{a=\"\\q\"} 1\n", head + "gauge\nx{a=\"\n\"} 1\n", head + "counter\nx 1\n",
		head + "gauge\ny 1\n", head + "histogram\nx_bucket{le=\"1\"} 1\nx_sum 1\nx_count 1\n",
		head + "histogram\nx_bucket{le=\"1\"} 2\nx_bucket{le=\"+Inf\"} 1\nx_sum 1\nx_count 1\n",
		head + "histogram\nx_bucket{le=\"1\"} 1\nx_bucket{le=\"+Inf\"} 1\nx_count 1\n",
		head + "gauge\nx{a=\"b\",quantile=\"1\"} 1\n", head + "summary\nx{a=\"b\",quantile=\"1\"} 1\nx_sum{a=\"b\"} 1\n",
	} {
		if _, err := parseMetrics(text); err == nil {
			t.Errorf("taken: %q", text)
		}
	}
	if _, err := parseMetrics(head + "histogram\nx_bucket{le=\"1\"} 1\nx_bucket{le=\"+Inf\"} 2\nx_sum 1.5\nx_count 2\n"); err != nil {
		t.Error(err)
	}
}
