package metrics

import (
	"bytes"
	"fmt"
	"strconv"
	"strings"

	"github.com/leasectl/leasectl/internal/pool"
)

// ContentType is the media type of a [Text].
const ContentType = "text/plain; version=0.0.4; charset=utf-8"

// Text is the text of one scrape, in the format of Prometheus, which all scrapers understand:
// https://prometheus.io/docs/instrumenting/exposition_formats/
//
// The zero Text is empty. The samples of a family come after its [Text.Family].
type Text struct{ buf bytes.Buffer }

// Bytes returns the text. It is valid until more is written.
func (t *Text) Bytes() []byte { return t.buf.Bytes() }

// Family begins a family. kind is counter, gauge, histogram or summary; help has neither
// newlines nor backslashes.
func (t *Text) Family(name, kind, help string) {
	fmt.Fprintf(&t.buf, "# HELP %s %s\n# TYPE %s %s\n", name, help, name, kind)
}

// Sample writes one value. labels are names and values, in turn; a value may be any text.
func (t *Text) Sample(name string, v float64, labels ...string) {
	format := byte('g')
	if v == float64(int64(v)) {
		format = 'f' // a count in full
	}
	fmt.Fprintf(&t.buf, "%s %s\n", nameOf(name, labels...), strconv.FormatFloat(v, format, -1, 64))
}

// One writes a family that has one sample, without labels.
func (t *Text) One(name, kind, help string, v float64) {
	t.Family(name, kind, help)
	t.Sample(name, v)
}

// Bool returns b as the value of a gauge: 1 or 0.
func Bool(b bool) float64 {
	if b {
		return 1
	}
	return 0
}

// nameOf returns the name of a series, with its labels.
func nameOf(name string, labels ...string) string {
	for i := 0; i < len(labels); i += 2 {
		before := "{"
		if i > 0 {
			before = ","
		}
		value := labels[i+1]
		for _, special := range []struct{ char, escaped string }{{`\`, `\\`}, {`"`, `\"`}, {"\n", `\n`}} {
			value = strings.ReplaceAll(value, special.char, special.escaped)
		}
		name += before + labels[i] + `="` + value + `"`
	}
	if len(labels) > 0 {
		name += "}"
	}
	return name
}

// WritePools writes the state of each pool.
func WritePools(t *Text, totals []pool.PoolStatus) {
	gauge := func(name, help string, value func(pool.PoolStatus) float64) {
		t.Family(name, "gauge", help)
		for _, p := range totals {
			t.Sample(name, value(p), "type", p.Type)
		}
	}
	gauge("leasectl_capacity", "Units that the pool has: names, or what a counted pool is counted in.", func(p pool.PoolStatus) float64 { return float64(p.Capacity) })
	gauge("leasectl_limit", "Units that may be in use now.", func(p pool.PoolStatus) float64 { return float64(p.Limit) })
	gauge("leasectl_in_use", "Units that are held, reserved, or have a lock delay.", func(p pool.PoolStatus) float64 { return float64(p.InUse) })
	gauge("leasectl_lock_delayed", "Units that nobody holds, and that are not granted yet because of the lock delay.", func(p pool.PoolStatus) float64 { return float64(p.LockDelayed) })
	gauge("leasectl_reserved", "Names that people have taken out of the pool.", func(p pool.PoolStatus) float64 { return float64(len(p.Reserved)) })
	gauge("leasectl_waiting", "Requests in the queue.", func(p pool.PoolStatus) float64 { return float64(p.Waiting) })
	gauge("leasectl_following", "Requests that have joined one that waits, or runs.", func(p pool.PoolStatus) float64 { return float64(p.Following) })
	gauge("leasectl_oldest_waiting_seconds", "How long the first in the queue has waited.", func(p pool.PoolStatus) float64 { return p.OldestWaiting.Seconds() })
	gauge("leasectl_oldest_held_seconds", "How long the lease has been held that is held longest.", func(p pool.PoolStatus) float64 { return p.OldestHeld.Seconds() })
	gauge("leasectl_overtaken_units", "Units that went ahead of the waiter that is next, while it did not fit.", func(p pool.PoolStatus) float64 { return float64(p.Overtaken) })
	gauge("leasectl_may_overtake_units", "Units that may go ahead of a waiter that does not fit.", func(p pool.PoolStatus) float64 { return float64(p.MayOvertake) })
	gauge("leasectl_paused", "Whether an operator has paused the pool: 1 or 0.", func(p pool.PoolStatus) float64 { return Bool(p.Paused != nil) })
	gauge("leasectl_next_grant_seconds", "How long the pace holds back the next grant.", func(p pool.PoolStatus) float64 { return p.NextGrantIn.Seconds() })
}
