package docstest

import (
	"slices"
	"strings"
	"testing"
)

// The README is for somebody with a failing job. It is short, has the two commands of a fresh
// clone, and leads to every page.
func TestREADME(t *testing.T) {
	readme := readPage(t, "README.md")
	if n := strings.Count(readme, "\n"); n > 200 {
		t.Errorf("the README has %d lines, and 200 are enough", n)
	}
	for _, command := range []string{"$ make demo ", "$ make test "} {
		if !strings.Contains(readme, "\n"+command) {
			t.Errorf("the README does not have %s", command)
		}
	}
	reached := []string{"README.md"}
	for i := 0; i < len(reached); i++ {
		for _, l := range pageLinks(t, reached[i]) {
			if strings.HasSuffix(l.to, ".md") && !slices.Contains(reached, l.to) {
				reached = append(reached, l.to)
			}
		}
	}
	for _, page := range docPages(t) {
		if !slices.Contains(reached, page) {
			t.Errorf("no link leads from the README to %s", page)
		}
	}
}

// Each page of docs/ says in its first line who it is for, and is read in 15 minutes, unless it is
// searched instead.
func TestPagesHaveReaders(t *testing.T) {
	const words = 3500 // a quarter of an hour, with tables
	searched := []string{"docs/commands.md", "docs/troubleshooting.md"}
	for _, page := range docPages(t) {
		if !strings.HasPrefix(page, "docs/") {
			continue
		}
		text := readPage(t, page)
		if _, begins, _ := strings.Cut(text, "\n\n"); !strings.HasPrefix(begins, "This page is for somebody ") {
			t.Errorf("%s does not begin with who it is for", page)
		}
		if n := len(strings.Fields(text)); n > words && !slices.Contains(searched, page) {
			t.Errorf("%s has %d words, and %d are enough: give a part of it a page of its own", page, n, words)
		}
	}
}
