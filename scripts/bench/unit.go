package main

import (
	"math"
	"strconv"
	"time"
)

// unit is the unit of a number.
type unit string

const (
	inSeconds unit = "s"
	inBytes   unit = "B"
	perSecond unit = "/s"
	percent   unit = "%"
	factor    unit = "×"
	number    unit = ""
)

// measured writes a measure with its spread.
func (u unit) measured(m measure) string {
	if m.Missing != "" {
		return "missing: " + m.Missing
	}
	s := u.format(m.Value)
	if m.Low != m.High {
		s += " (" + u.format(m.Low) + "–" + u.format(m.High) + ")"
	}
	return s
}

func (u unit) format(x float64) string {
	switch u {
	case inSeconds:
		return duration(x)
	case inBytes:
		switch {
		case x < 1<<10:
			return digits(x) + " B"
		case x < 1<<20:
			return digits(x/(1<<10)) + " KiB"
		}
		return digits(x/(1<<20)) + " MiB"
	case perSecond:
		return digits(x) + "/s"
	case percent:
		return digits(x) + " %"
	case factor:
		return digits(x) + " ×"
	}
	return digits(x)
}

// duration writes seconds in the unit that suits them.
func duration(x float64) string {
	switch {
	case x < 1e-3:
		return digits(x*1e6) + " µs"
	case x < 1:
		return digits(x*1e3) + " ms"
	case x < 100:
		return digits(x) + " s"
	}
	return time.Duration(x * float64(time.Second)).Round(time.Second).String()
}

// digits writes three significant digits, or all digits before the point.
func digits(x float64) string {
	if x == 0 {
		return "0"
	}
	before := int(math.Floor(math.Log10(math.Abs(x)))) + 1
	return strconv.FormatFloat(x, 'f', max(0, min(6, 3-before)), 64)
}
