package main

import (
	"os"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"
)

// The README and the help say the same as the program: each command and flag
// is in the README, and each command's help has an example that uses commands
// and flags which exist.
func TestREADME(t *testing.T) {
	text, err := os.ReadFile("../../README.md")
	if err != nil {
		t.Fatal(err)
	}
	readme := string(text)
	root := newRootCommand(newApp(os.Stdin, os.Stdout, os.Stderr))
	walk(root, func(cmd *cobra.Command) {
		if cmd != root && !slices.ContainsFunc(rows(readme, "## Commands"), func(row string) bool { return hasWord(cells(row)[0], cmd.Name()) }) {
			t.Errorf("the table of commands in the README has no row for %s", cmd.Name())
		}
		cmd.LocalFlags().VisitAll(func(f *pflag.Flag) {
			if !f.Hidden && f.Name != "help" && !slices.ContainsFunc(rows(readme, "## Commands"), func(row string) bool { return hasWord(row, "--"+f.Name) }) {
				t.Errorf("no table of the commands in the README has --%s of %s", f.Name, cmd.CommandPath())
			}
			if f.Usage == "" && !f.Hidden {
				t.Errorf("%s: --%s has no help", cmd.CommandPath(), f.Name)
			}
		})
		if cmd.IsAdditionalHelpTopicCommand() {
			return // its text is made, and has a test
		}
		if cmd.Example == "" || cmd.Long == "" || cmd.Short == "" {
			t.Errorf("%s: want a short and a long text and an example", cmd.CommandPath())
		}
		checkExample(t, root, cmd)
	})
}

// rows are the rows of all tables of a section, up to the next of its level.
func rows(readme, section string) (rows []string) {
	_, text, _ := strings.Cut(readme, "\n"+section+"\n")
	text, _, _ = strings.Cut(text, "\n## ")
	for line := range strings.Lines(text) {
		if strings.HasPrefix(line, "| ") {
			rows = append(rows, line)
		}
	}
	return rows
}

// cells are the cells of a row. A bar that is escaped is no border.
func cells(row string) []string {
	const bar = "\x00"
	return strings.Split(strings.Trim(strings.ReplaceAll(row, `\|`, bar), "| \n"), "|")
}

// hasWord tells whether a command or a flag stands in text, and not only as the
// beginning or the end of another.
func hasWord(text, word string) bool {
	return regexp.MustCompile(`(^|[^\w-])` + regexp.QuoteMeta(word) + `([^\w-]|$)`).MatchString(text)
}

// walk calls f for every command that is ours and shown.
func walk(cmd *cobra.Command, f func(*cobra.Command)) {
	if !cmd.Hidden {
		f(cmd)
	}
	for _, sub := range cmd.Commands() {
		walk(sub, f)
	}
}

// checkExample parses the leasectl command lines of an example.
func checkExample(t *testing.T, root, cmd *cobra.Command) {
	for line := range strings.Lines(cmd.Example) {
		_, line, found := strings.Cut(line, "leasectl ")
		if !found {
			continue
		}
		line, _, _ = strings.Cut(line, " -- ")
		words := strings.Fields(strings.NewReplacer("'", " ", ")", " ").Replace(line))
		target, _, err := root.Find(words)
		if err != nil {
			t.Errorf("%s: example %q: %v", cmd.CommandPath(), line, err)
			continue
		}
		for _, word := range words {
			name, isFlag := strings.CutPrefix(word, "--")
			name, _, _ = strings.Cut(name, "=")
			if isFlag && name != "" && target.Flags().Lookup(name) == nil && target.InheritedFlags().Lookup(name) == nil {
				t.Errorf("%s: example has --%s, which %s has not", cmd.CommandPath(), name, target.CommandPath())
			}
		}
	}
}
