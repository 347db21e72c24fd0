package ui

import (
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/leasectl/leasectl/internal/proxyserver/past"
)

// Charts show the first of these spans that has all minutes that the server knows. Each
// column of a chart has so many minutes that it is at least a pixel wide.
var spans = []struct {
	name            string
	minutes, column int
}{{"hour", 60, 1}, {"six hours", 6 * 60, 1}, {"day", 24 * 60, 3}}

// chartHeight is the height of a chart in drawing units. One unit of the width is a column.
const chartHeight = 100

// charts are the charts of a pool.
type charts struct {
	Span    string // what they show, in words
	Charts  []chart
	Begin   moment
	Started moment // when the server started, if it did so later than Begin
}

// chart is one of them: an area, and perhaps a line above it.
type chart struct {
	Class, Title  string
	About         string // what it shows, in words
	Width, Height int    // of the drawing, in units of its own
	Area, Line    string // SVG paths; an empty one is not drawn
}

// chartsOf draws a day. Without minutes there are no charts.
func chartsOf(d past.Day) charts {
	if len(d.Minutes) == 0 {
		return charts{}
	}
	span := spans[len(spans)-1]
	for _, s := range spans {
		if len(d.Minutes) <= s.minutes {
			span = s
			break
		}
	}
	minutes := d.Minutes[max(0, len(d.Minutes)-span.minutes):]
	columns := drawing{columns: span.minutes / span.column, minutes: minutes, perColumn: span.column}
	now := d.Begin.Add(time.Duration(len(d.Minutes)-1) * time.Minute)
	begin := now.Add(-time.Duration(span.minutes-1) * time.Minute)
	c := charts{Span: span.name, Begin: clockTime(begin), Charts: []chart{
		columns.chart("starts", "Starts per minute", func(m past.Minute) int { return m.Starts }, nil),
		columns.chart("inuse", "In use, and the limit", func(m past.Minute) int { return m.InUse }, func(m past.Minute) int { return m.Limit }),
		columns.chart("waiting", "Waiting", func(m past.Minute) int { return m.Waiting }, nil),
	}}
	if d.Started.After(begin) {
		c.Started = clockTime(d.Started)
	}
	return c
}

// clockTime is a time of the day in UTC, which live.js replaces by the browser's local time.
func clockTime(at time.Time) moment {
	at = at.UTC()
	return moment{DateTime: at.Format(time.RFC3339), Is: "at", Text: at.Format("15:04 UTC")}
}

// drawing draws minutes. If there are too few for all columns, the left ones stay empty.
type drawing struct {
	minutes   []past.Minute
	columns   int
	perColumn int
}

// chart draws value as an area, and line, if it is not nil, as a line.
func (d drawing) chart(class, title string, value, line func(past.Minute) int) chart {
	area := d.column(value)
	most := slices.Max(area)
	last := d.minutes[len(d.minutes)-1]
	c := chart{Class: class, Title: title, About: fmt.Sprintf("now %d, at most %d", value(last), most), Width: d.columns, Height: chartHeight}
	if line != nil {
		limit := d.column(line)
		most = max(most, slices.Max(limit))
		c.About += fmt.Sprintf(", limit %d", line(last))
		c.Line = d.path(limit, most, false)
	}
	c.Area = d.path(area, most, true)
	return c
}

// column returns the highest value of each column.
func (d drawing) column(value func(past.Minute) int) []int {
	var all []int
	for i := len(d.minutes); i > 0; i -= d.perColumn {
		most := 0
		for _, m := range d.minutes[max(0, i-d.perColumn):i] {
			most = max(most, value(m))
		}
		all = append(all, most)
	}
	slices.Reverse(all)
	return all
}

// path draws values as steps. A closed path is an area down to zero. Equal values in a row are
// one line.
func (d drawing) path(values []int, most int, closed bool) string {
	var path strings.Builder
	first := d.columns - len(values)
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
	fmt.Fprintf(&path, "H%d", d.columns)
	if closed {
		fmt.Fprintf(&path, "V%dZ", chartHeight)
	}
	return path.String()
}
