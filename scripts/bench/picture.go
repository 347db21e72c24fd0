package main

import (
	"fmt"
	"os"
	"strings"
	"time"
)

// The SVG is written without a library: three bar charts do not need one, and its text can be
// compared.

// Measures of the picture, in pixels.
const (
	pictureWidth = 760
	chartHeight  = 110
	chartGap     = 46 // above each chart, for its title
	leftMargin   = 44
	rightMargin  = 16
	bottomMargin = 44
	barFill      = 0.8 // of the width of a minute
)

const (
	mostMinutes = 110 // the end of the time axis; the last job starts before
	mostStarts  = 50
)

// writePicture writes the SVG that draw returns to path.
func writePicture(path string, draw func() (string, error)) error {
	svg, err := draw()
	if err != nil {
		return err
	}
	if err := os.WriteFile(path, []byte(svg), 0o644); err != nil {
		return fmt.Errorf("write the picture: %w", err)
	}
	return nil
}

// picture draws how many jobs of the herd start in each minute, as an SVG: a chart for each way
// to deal with the jobs, all of one scale.
func picture() (string, error) {
	var b strings.Builder
	height := len(herds)*(chartHeight+chartGap) + bottomMargin
	beginPicture(&b, height, fmt.Sprintf("Starts per minute of %d jobs on %d leases that are held for 20 minutes", herdJobs, herdLeases))
	for i, h := range []herd{herds[1], herds[2], herds[0]} { // from bad to good
		jobs, err := h.simulate()
		if err != nil {
			return "", err
		}
		if err := chart(&b, i, h.name, jobs); err != nil {
			return "", err
		}
	}
	bottom := height - bottomMargin
	for m := 0; m <= mostMinutes; m += 10 {
		fmt.Fprintf(&b, `<text x="%.1f" y="%d" text-anchor="middle" font-size="11">%d</text>`+"\n", across(float64(m)), bottom+16, m)
	}
	fmt.Fprintf(&b, `<text x="%.1f" y="%d" text-anchor="middle">minutes since the first job came</text>`+"\n</svg>\n", across(mostMinutes/2), bottom+36)
	return b.String(), nil
}

// beginPicture begins an SVG with a title and an empty background.
func beginPicture(b *strings.Builder, height int, title string) {
	fmt.Fprintf(b, `<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 %d %d" font-family="sans-serif" font-size="13" fill="#24292f">`+"\n", pictureWidth, height)
	fmt.Fprintf(b, "<title>%s</title>\n", title)
	fmt.Fprintf(b, `<rect width="%d" height="%d" fill="#ffffff"/>`+"\n", pictureWidth, height)
}

// rules draws lines across a chart at its bottom, in the middle and at most. up gives the
// vertical position of a value.
func rules(b *strings.Builder, up func(float64) float64, most float64) {
	for _, y := range []float64{0, most / 2, most} {
		fmt.Fprintf(b, `<path d="M%d %.1fH%d" stroke="#d0d7de"/><text x="%d" y="%.1f" text-anchor="end" font-size="11">%.0f</text>`+"\n",
			leftMargin, up(y), pictureWidth-rightMargin, leftMargin-6, up(y)+4, y)
	}
}

// across is the horizontal position of a minute.
func across(minute float64) float64 {
	return leftMargin + minute/mostMinutes*(pictureWidth-leftMargin-rightMargin)
}

// chart draws the starts of the herd with index i.
func chart(b *strings.Builder, i int, name string, jobs []job) error {
	base := (i + 1) * (chartHeight + chartGap)
	up := func(starts float64) float64 { return float64(base) - starts/mostStarts*chartHeight }
	all := starts(jobs)
	mean, longest := waits(jobs)
	fmt.Fprintf(b, `<text x="%d" y="%.1f"><tspan font-weight="bold">%s</tspan>: at most %.1f times the mean; a job waits %.0f min on average, %.0f at most</text>`+"\n",
		leftMargin, up(mostStarts)-12, name, peak(all, time.Minute), mean.Minutes(), longest.Minutes())
	rules(b, up, mostStarts)
	perMinute := make([]int, mostMinutes)
	for _, at := range all {
		m := int(at / time.Minute)
		if m >= mostMinutes {
			return fmt.Errorf("%s: a job starts in minute %d: the picture ends at %d", name, m, mostMinutes)
		}
		perMinute[m]++
	}
	fmt.Fprintf(b, `<path fill="#0969da" d="`)
	for m, n := range perMinute {
		if n > 0 {
			width := (across(1) - across(0)) * barFill
			fmt.Fprintf(b, "M%.1f %dV%.1fh%.1fV%dz", across(float64(m)), base, up(float64(n)), width, base)
		}
	}
	fmt.Fprintf(b, "\"/>\n")
	return nil
}
