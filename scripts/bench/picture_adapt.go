package main

import (
	"fmt"
	"strings"
	"time"
)

// Measures of the picture of a limit that adapts, beside those in picture.go.
const (
	mostInUse = 64 // the end of the axis of units
	mostHit   = 60 // the end of the axis of jobs that are throttled in an hour
)

// adaptPicture draws the first account of the table with each pool: how much it bears, the
// limit, and how many jobs are throttled.
func adaptPicture() (string, error) {
	var b strings.Builder
	limits := append(append([]int{}, fixedLimits...), 0) // from bad to good
	height := len(limits)*(chartHeight+chartGap) + bottomMargin
	beginPicture(&b, height, "What an account bears, the limit of its pool, and the jobs that it throttles: three fixed limits, and one that finds itself")
	for i, fixed := range limits {
		r, err := accounts[0].simulate(accountSeeds[0], fixed)
		if err != nil {
			return "", err
		}
		r.chart(&b, i, fixed)
	}
	bottom := height - bottomMargin
	for day := range int(accountTime/(24*time.Hour)) + 1 {
		fmt.Fprintf(&b, `<text x="%.1f" y="%d" text-anchor="middle" font-size="11">%d</text>`+"\n", acrossTime(time.Duration(day)*24*time.Hour), bottom+16, day)
	}
	fmt.Fprintf(&b, `<text x="%.1f" y="%d" text-anchor="middle">days. Grey: what the account bears. Blue: the limit. Red: jobs that are throttled in an hour, %d or more at the top</text>`+"\n</svg>\n",
		acrossTime(accountTime/2), bottom+36, mostHit)
	return b.String(), nil
}

// acrossTime is the horizontal position of a time.
func acrossTime(at time.Duration) float64 {
	return leftMargin + float64(at)/float64(accountTime)*(pictureWidth-leftMargin-rightMargin)
}

// chart draws the run with index i.
func (r *accountRun) chart(b *strings.Builder, i, fixed int) {
	base := (i + 1) * (chartHeight + chartGap)
	up := func(units float64) float64 { return float64(base) - units/mostInUse*chartHeight }
	name := "adapt"
	if fixed > 0 {
		name = fmt.Sprintf("fixed %d", fixed)
	}
	fmt.Fprintf(b, `<text x="%d" y="%.1f"><tspan font-weight="bold">%s</tspan>: %.1f %% of the jobs are throttled; %.0f %% of what the account bears is in use</text>`+"\n",
		leftMargin, up(mostInUse)-12, name, r.throttledPercent(), 100*r.usedPart())
	rules(b, up, mostInUse)
	r.area(b, up)
	r.bars(b, base)
	r.line(b, up)
}

// area draws how much the account bears.
func (r *accountRun) area(b *strings.Builder, up func(float64) float64) {
	fmt.Fprintf(b, `<path fill="#afb8c1" fill-opacity="0.5" d="M%d %.1f`, leftMargin, up(0))
	r.steps(b, up, func(m moment) int { return m.bears })
	fmt.Fprintf(b, "V%.1fz\"/>\n", up(0))
}

// line draws the limit.
func (r *accountRun) line(b *strings.Builder, up func(float64) float64) {
	fmt.Fprintf(b, `<path fill="none" stroke="#0969da" stroke-width="1.5" d="M%d %.1f`, leftMargin, up(float64(r.trace[0].limit)))
	r.steps(b, up, func(m moment) int { return m.limit })
	fmt.Fprintf(b, "\"/>\n")
}

// steps draws a number that changes now and then.
func (r *accountRun) steps(b *strings.Builder, up func(float64) float64, value func(moment) int) {
	last := -1
	for i, m := range r.trace {
		if v := value(m); v != last {
			fmt.Fprintf(b, "H%.1fV%.1f", acrossTime(time.Duration(i)*accountTick), up(float64(v)))
			last = v
		}
	}
	fmt.Fprintf(b, "H%.1f", acrossTime(accountTime))
}

// bars draws how many jobs were throttled in each hour.
func (r *accountRun) bars(b *strings.Builder, base int) {
	perHour := int(time.Hour / accountTick)
	width := (acrossTime(time.Hour) - acrossTime(0)) * barFill
	fmt.Fprintf(b, `<path fill="#cf222e" fill-opacity="0.7" d="`)
	for i := 0; i < len(r.trace); i += perHour {
		hit := 0
		for _, m := range r.trace[i:min(i+perHour, len(r.trace))] {
			hit += m.hit
		}
		if hit > 0 {
			top := float64(base) - min(float64(hit)/mostHit, 1)*chartHeight
			fmt.Fprintf(b, "M%.1f %dV%.1fh%.1fV%dz", acrossTime(time.Duration(i)*accountTick), base, top, width, base)
		}
	}
	fmt.Fprintf(b, "\"/>\n")
}
