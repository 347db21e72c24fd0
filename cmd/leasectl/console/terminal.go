package console

import (
	"os"

	"golang.org/x/term"
)

const (
	// EraseLine is carriage return and "erase in line" of ECMA-48, section 8.3.41.
	EraseLine = "\r\x1b[K"
	// HomeAndClear are "cursor position" and "erase in display" of ECMA-48, sections 8.3.21 and
	// 8.3.39.
	HomeAndClear = "\x1b[H\x1b[J"
)

// CanRewrite tells whether out is a terminal that can overwrite a line.
func CanRewrite(out *os.File) bool {
	return term.IsTerminal(int(out.Fd())) && os.Getenv("TERM") != "dumb"
}

// Fit cuts text to the width of a terminal, since a line that wraps could not be overwritten.
func Fit(text string, terminal *os.File) string {
	width, _, err := term.GetSize(int(terminal.Fd()))
	if err != nil {
		return text
	}
	return CutToWidth(text, width)
}

// CutToWidth cuts text so that the cursor stays in a line of width columns. A width of 0 or 1
// means that the width is unknown: then text stays whole.
func CutToWidth(text string, width int) string {
	if width <= 1 {
		return text
	}
	used := 0
	for i, r := range text {
		if used += columnsOf(r); used >= width {
			return text[:i]
		}
	}
	return text
}

// columnsOf returns the most columns that a character takes on a terminal. The wide characters of
// Unicode (UAX #11) are the leading consonants of Hangul, and others from U+231A on. A line that is
// cut too early does no harm, so the narrow ones among them need no table.
func columnsOf(r rune) int {
	if r >= 0x231A || r >= 0x1100 && r <= 0x115F {
		return 2
	}
	return 1
}
