package browsertest

import (
	_ "embed"
	"encoding/xml"
	"fmt"
	"html"
	"io"
	"strings"
	"unicode/utf8"
)

// pageToSVG is a script that returns what the window shows as an SVG.
//
//go:embed svg.js
var pageToSVG string

// wellFormed returns the first error of an XML document.
func wellFormed(text string) error {
	for d := xml.NewDecoder(strings.NewReader(text)); ; {
		if _, err := d.Token(); err == io.EOF {
			return nil
		} else if err != nil {
			return err
		}
	}
}

// colours of a terminal: its ground, text, and what leasectl says.
type colours struct{ ground, edge, text, said string }

var terminalColours = map[string]colours{
	"light": {"#ffffff", "#d0d7de", "#5a6068", "#1b1d20"},
	"dark":  {"#121417", "#2c3138", "#a2a9b3", "#e7e9ec"},
}

// terminalSVG draws the lines of a terminal, wrapped at its width.
func terminalSVG(lines []string, c colours) string {
	const width, size, advance, lead, pad = 100, 14, 8.43, 21, 18
	var text strings.Builder
	y := pad + size
	for _, line := range lines {
		class := "t"
		if strings.HasPrefix(line, "leasectl: ") || strings.HasPrefix(line, "$ ") {
			class = "s"
		}
		for line != "" {
			row := line
			if utf8.RuneCountInString(line) > width {
				row = string([]rune(line)[:width])
			}
			line = line[len(row):]
			fmt.Fprintf(&text, "<text class=%q x=\"%d\" y=\"%d\" textLength=\"%.1f\" lengthAdjust=\"spacingAndGlyphs\" xml:space=\"preserve\">%s</text>\n",
				class, pad, y, advance*float64(utf8.RuneCountInString(row)), html.EscapeString(row))
			y += lead
		}
	}
	w, h := 2*pad+advance*width, y-size+pad-(lead-size)
	return fmt.Sprintf(`<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 %.0f %d" width="%.0f" height="%d" role="img">
<style>text{font:%dpx ui-monospace,SFMono-Regular,Menlo,Consolas,"DejaVu Sans Mono",monospace}.t{fill:%s}.s{fill:%s}</style>
<rect x="0.5" y="0.5" width="%.0f" height="%d" rx="8" fill="%s" stroke="%s"/>
%s</svg>
`, w, h, w, h, size, c.text, c.said, w-1, h-1, c.ground, c.edge, text.String())
}
