package main

import (
	"os"
	"slices"
	"strings"
	"testing"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"
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

// The help of each command has an example, whose commands and flags exist.
func TestHelp(t *testing.T) {
	root := newRootCommand(newApp(os.Stdin, os.Stdout, os.Stderr))
	walk(root, func(cmd *cobra.Command) {
		cmd.LocalFlags().VisitAll(func(f *pflag.Flag) {
			if f.Usage == "" && !f.Hidden {
				t.Errorf("%s: --%s has no help", cmd.CommandPath(), f.Name)
			}
		})
		if cmd.IsAdditionalHelpTopicCommand() {
			return // another test checks its text
		}
		if cmd.Example == "" || cmd.Long == "" || cmd.Short == "" {
			t.Errorf("%s: want a short and a long text and an example", cmd.CommandPath())
		}
		checkCommandLine(t, root, cmd.CommandPath()+": the example", cmd.Example)
	})
}

// walk calls f for cmd and every command below it that is not hidden.
func walk(cmd *cobra.Command, f func(*cobra.Command)) {
	forEachCommand(cmd, func(cmd *cobra.Command) {
		if !cmd.Hidden {
			f(cmd)
		}
	})
}

// checkCommandLine checks the leasectl command lines of a text, one a line: the command and its
// flags must exist.
func checkCommandLine(t *testing.T, root *cobra.Command, where, text string) {
	t.Helper()
	for line := range strings.Lines(text) {
		_, line, found := strings.Cut(line, "leasectl ")
		if !found {
			continue
		}
		line, _, _ = strings.Cut(line, " -- ")
		words := strings.Fields(strings.NewReplacer("'", " ", ")", " ", "(", " ", "[", " ", "]", " ", "|", " ").Replace(line))
		target, _, err := root.Find(words)
		if err != nil {
			t.Errorf("%s: %q: %v", where, line, err)
			continue
		}
		for _, word := range words {
			name, isFlag := strings.CutPrefix(word, "--")
			name, _, _ = strings.Cut(name, "=")
			if isFlag && name != "" && target.Flags().Lookup(name) == nil && target.InheritedFlags().Lookup(name) == nil {
				t.Errorf("%s: %q has --%s, which %s has not", where, line, name, target.CommandPath())
			}
		}
	}
}
