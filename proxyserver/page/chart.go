package page

import (
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/leasectl/leasectl/proxyserver/page/markup"
)

// Minute is one minute of a pool.
type Minute struct {
	Starts  int // leases granted in it
	InUse   int // at its end, as are Limit and Waiting
	Limit   int
	Waiting int
}

// Day is the last day of a pool, as far as the server knows it.
type Day struct {
	Begin   time.Time // of the first minute
	Minutes []Minute  // without gaps; the last is the present one
	Started time.Time // when the server started
}

// Charts show the first of these spans that has all minutes that the server knows. Each
// column of a chart has so many minutes that it is at least a pixel wide.
var spans = []struct {
	name            string
	minutes, column int
}{{"hour", 60, 1}, {"six hours", 6 * 60, 1}, {"day", 24 * 60, 3}}

// chartHeight is the height of a chart in drawing units. One unit of the width is a column.
const chartHeight = 100

// charts writes the charts of the day.
func (d Day) charts(b *markup.Builder) {
	if len(d.Minutes) == 0 {
		return
	}
	span := spans[len(spans)-1]
	for _, s := range spans {
		if len(d.Minutes) <= s.minutes {
			span = s
			break
		}
	}
	minutes := d.Minutes[max(0, len(d.Minutes)-span.minutes):]
	columns := span.minutes / span.column
	c := chart{columns: columns, minutes: minutes, perColumn: span.column}
	now := d.Begin.Add(time.Duration(len(d.Minutes)-1) * time.Minute)
	begin := now.Add(-time.Duration(span.minutes-1) * time.Minute)
	b.Put(`<h2>The last {}</h2><div class="charts">`, span.name)
	c.write(b, "Starts per minute", "starts", func(m Minute) int { return m.Starts }, nil)
	c.write(b, "In use, and the limit", "inuse", func(m Minute) int { return m.InUse }, func(m Minute) int { return m.Limit })
	c.write(b, "Waiting", "waiting", func(m Minute) int { return m.Waiting }, nil)
	b.Put(`</div><p class="axis"><span>`)
	clockTime(b, begin)
	b.Put(`</span><span>now</span></p>`)
	if d.Started.After(begin) {
		b.Put(`<p class="note">The charts begin at `)
		clockTime(b, d.Started)
		b.Put(`, when the server started.</p>`)
	}
}

// clockTime writes a time of the day in UTC, which live.js replaces by the browser's local time.
func clockTime(b *markup.Builder, at time.Time) {
	b.Put(`<time datetime="{}" data-is="at">{}</time>`, at.UTC().Format(time.RFC3339), at.UTC().Format("15:04 UTC"))
}

// chart draws minutes. If there are too few for all columns, the left ones stay empty.
type chart struct {
	minutes   []Minute
	columns   int
	perColumn int
}

// write draws value as an area, and line, if it is not nil, as a line.
func (c chart) write(b *markup.Builder, title, class string, value, line func(Minute) int) {
	area := c.column(value)
	most := highest(area)
	var limit []int
	if line != nil {
		limit = c.column(line)
		most = max(most, highest(limit))
	}
	last := c.minutes[len(c.minutes)-1]
	about := fmt.Sprintf("now %d, at most %d", value(last), highest(area))
	if line != nil {
		about += fmt.Sprintf(", limit %d", line(last))
	}
	b.Put(`<figure class="chart {}"><figcaption>{} <span class="note">{}</span></figcaption>`, class, title, about)
	b.Put(`<svg viewBox="0 0 {} {}" preserveAspectRatio="none" role="img" aria-label="{}"><path class="area" d="{}"/>`,
		itoa(c.columns), itoa(chartHeight), title+": "+about, c.path(area, most, true))
	if line != nil {
		b.Put(`<path class="line" d="{}"/>`, c.path(limit, most, false))
	}
	b.Put(`</svg></figure>`)
}

// column returns the highest value of each column.
func (c chart) column(value func(Minute) int) []int {
	var all []int
	for i := len(c.minutes); i > 0; i -= c.perColumn {
		most := 0
		for _, m := range c.minutes[max(0, i-c.perColumn):i] {
			most = max(most, value(m))
		}
		all = append(all, most)
	}
	slices.Reverse(all)
	return all
}

// path draws values as steps. A closed path is an area down to zero. Equal values in a row are
// one line.
func (c chart) path(values []int, most int, closed bool) string {
	var path strings.Builder
	first := c.columns - len(values)
	height := func(v int) int { return chartHeight - v*(chartHeight-8)/max(most, 1) }
	if closed {
		fmt.Fprintf(&path, "M%d %dV%d", first, chartHeight, height(values[0]))
	} else {
		fmt.Fprintf(&path, "M%d %d", first, height(values[0]))
	}
	for i, v := range values[1:] {
		if v != values[i] {
			fmt.Fprintf(&path, "H%dV%d", first+i+1, height(v))
		}
	}
	fmt.Fprintf(&path, "H%d", c.columns)
	if closed {
		fmt.Fprintf(&path, "V%dZ", chartHeight)
	}
	return path.String()
}

func highest(values []int) (most int) {
	for _, v := range values {
		most = max(most, v)
	}
	return most
}
