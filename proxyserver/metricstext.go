package proxyserver

import (
	"bytes"
	"math"
	"slices"
	"strconv"
	"strings"
)

// contentTypeMetrics is the text format of Prometheus, which all that scrape
// understand: https://prometheus.io/docs/instrumenting/exposition_formats/
const contentTypeMetrics = "text/plain; version=0.0.4; charset=utf-8"

// histogram counts values in buckets.
type histogram struct {
	bounds []float64 // of the buckets, ascending; values up to and including one belong to it
	counts []uint64  // one more: what is above them all
	sum    float64
}

func newHistogram(bounds []float64) histogram {
	return histogram{bounds: bounds, counts: make([]uint64, len(bounds)+1)}
}

func (h *histogram) observe(v float64) {
	i, _ := slices.BinarySearch(h.bounds, v)
	h.counts[i]++
	h.sum += v
}

// metricsText writes metrics in the text format. All samples of a family stand
// together, under its help and its type.
type metricsText struct{ bytes.Buffer }

// labels are names and values by turns.
type labels []string

func (t *metricsText) family(name, kind, help string) {
	t.WriteString("# HELP " + name + " " + helpEscapes.Replace(help) + "\n")
	t.WriteString("# TYPE " + name + " " + kind + "\n")
}

func (t *metricsText) sample(name string, ls labels, v float64) {
	t.WriteString(name)
	for i := 0; i < len(ls); i += 2 {
		if i == 0 {
			t.WriteByte('{')
		} else {
			t.WriteByte(',')
		}
		t.WriteString(ls[i] + `="` + labelEscapes.Replace(ls[i+1]) + `"`)
	}
	if len(ls) > 0 {
		t.WriteByte('}')
	}
	t.WriteString(" " + number(v) + "\n")
}

// histogram writes buckets that each count what the ones before it do, too.
func (t *metricsText) histogram(name string, ls labels, h *histogram) {
	var n uint64
	for i, bound := range append(slices.Clone(h.bounds), math.Inf(1)) {
		n += h.counts[i]
		t.sample(name+"_bucket", append(slices.Clone(ls), "le", number(bound)), float64(n))
	}
	t.sample(name+"_sum", ls, h.sum)
	t.sample(name+"_count", ls, float64(n))
}

var (
	helpEscapes  = strings.NewReplacer(`\`, `\\`, "\n", `\n`)
	labelEscapes = strings.NewReplacer(`\`, `\\`, "\n", `\n`, `"`, `\"`)
)

func number(v float64) string {
	if math.IsInf(v, 1) {
		return "+Inf"
	}
	return strconv.FormatFloat(v, 'g', -1, 64)
}
