package main

import (
	"fmt"
	"os"
	"slices"
	"strings"
	"text/tabwriter"
	"unicode/utf8"

	"golang.org/x/term"

	"github.com/leasectl/leasectl/cmd/leasectl/console"
)

// section is one of the tables that status prints. The cells of a row are separated by tabs.
type section struct {
	heading string
	rows    []string
}

// room is what a terminal has: columns and lines. Zero is no bound, as in a file.
type room struct{ width, height int }

// roomOf returns the room of out, without a bound if it is no terminal.
func roomOf(out *os.File) room {
	width, height, err := term.GetSize(int(out.Fd()))
	if err != nil {
		return room{}
	}
	return room{width, height}
}

// wide returns r for output that may scroll.
func (r room) wide() room { return room{width: r.width} }

// without returns r where some lines are taken.
func (r room) without(lines int) room {
	if r.height > 0 {
		r.height = max(1, r.height-lines)
	}
	return r
}

// format formats sections one below the other, so that they fit into r as far as that is possible. Those
// without rows are left out, except the first.
func (r room) format(sections []section) string {
	shown := slices.DeleteFunc(slices.Clone(sections), func(s section) bool { return len(s.rows) == 0 && s.heading != sections[0].heading })
	var parts []string
	for _, s := range r.cutRows(shown) {
		parts = append(parts, r.table(s))
	}
	text := strings.Join(parts, "\n")
	if lines := strings.SplitAfter(text, "\n"); r.height > 0 && len(lines)-1 > r.height {
		return strings.Join(lines[:r.height], "")
	}
	return text
}

// cutRows leaves out rows of the longest sections, if all together are more lines than there is room for, and
// says how many.
func (r room) cutRows(sections []section) []section {
	if r.height == 0 {
		return sections
	}
	most := func(s section, n int) []string {
		if len(s.rows) <= n+1 {
			return s.rows
		}
		return append(s.rows[:n:n], row("…", fmt.Sprintf("and %d more", len(s.rows)-n)))
	}
	lines := func(n int) int {
		sum := -1 // no blank line above the first
		for _, s := range sections {
			sum += 2 + len(most(s, n))
		}
		return sum
	}
	n := 1
	for n < r.height && lines(n+1) <= r.height {
		n++
	}
	cut := slices.Clone(sections)
	for i, s := range cut {
		cut[i].rows = most(s, n)
	}
	return cut
}

// table formats a section with aligned columns.
func (r room) table(s section) string {
	rows := [][]string{strings.Split(s.heading, "\t")}
	for _, row := range s.rows {
		rows = append(rows, strings.Split(row, "\t"))
	}
	if r.width > 0 {
		cutCells(rows, r.width)
	}
	var text strings.Builder
	w := tabwriter.NewWriter(&text, 0, 0, columnGap, ' ', 0)
	for _, row := range rows {
		fmt.Fprintln(w, strings.Join(row, "\t"))
	}
	w.Flush()
	return r.cutLines(text.String()) // wide characters, or many columns, make them too long
}

// cutLines cuts each line of text to the width of r.
func (r room) cutLines(text string) string {
	if r.width == 0 {
		return text
	}
	var cut strings.Builder
	for line := range strings.Lines(text) {
		cut.WriteString(console.CutToWidth(strings.TrimSuffix(line, "\n"), r.width+1) + "\n")
	}
	return cut.String()
}

// columnGap is how many blanks are between two columns.
const columnGap = 2

// isProse tells whether people only read what is below a heading. What they may copy into the next command
// is cut last.
func isProse(heading string) bool {
	switch heading {
	case "OWNER", "REASON", "ENDS IN", "NEXT GRANT", "BY", "REPORT OF", "DETAIL", "COMMAND", "LAST LINE":
		return true
	}
	return false
}

// cutCells cuts the cells of the widest columns in the middle, so that rows, of which the first is the
// heading, fit into width columns.
func cutCells(rows [][]string, width int) {
	headings := rows[0]
	widths := make([]int, len(headings))
	sum := columnGap * (len(headings) - 1)
	for i := range widths {
		for _, row := range rows {
			if i < len(row) {
				widths[i] = max(widths[i], utf8.RuneCountInString(row[i]))
			}
		}
		sum += widths[i]
	}
	const proseLeast = 12
	for _, ofProse := range []bool{true, false} {
		for sum > width {
			widest := -1
			for i, heading := range headings {
				least := utf8.RuneCountInString(heading)
				if ofProse {
					least = max(least, proseLeast)
				}
				if isProse(heading) || !ofProse {
					if widths[i] > least && (widest < 0 || widths[i] > widths[widest]) {
						widest = i
					}
				}
			}
			if widest < 0 {
				break
			}
			widths[widest]--
			sum--
		}
	}
	for _, row := range rows {
		for i := range row {
			if i < len(widths) {
				row[i] = cutMiddle(row[i], widths[i])
			}
		}
	}
}

// cutMiddle cuts text to width characters, of which one says so: the ends tell texts apart.
func cutMiddle(text string, width int) string {
	all := []rune(text)
	if len(all) <= width {
		return text
	}
	head := width / 2
	return string(all[:head]) + "…" + string(all[len(all)-(width-1-head):])
}
