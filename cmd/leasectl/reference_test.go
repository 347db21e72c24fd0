package main

import (
	"bytes"
	"flag"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/spf13/cobra"
	"github.com/spf13/cobra/doc"
)

var (
	writeReference = flag.Bool("write-reference", false, "write docs/commands.md anew")
	docsDir        = flag.String("docs", "", "write the man pages and completions of a release into this directory")
)

// docs/commands.md has the help of the commands; with -write-reference this test writes the page.
// With -docs DIR the test writes a release's man pages and completions to DIR/man and
// DIR/completions. A test makes them from the command tree, so that the program needs no library
// for that.
func TestCommandReference(t *testing.T) {
	const reference = "../../docs/commands.md"
	want := commandReference(t)
	if *writeReference {
		if err := os.WriteFile(reference, want, 0o644); err != nil {
			t.Fatal(err)
		}
	}
	if got, err := os.ReadFile(reference); err != nil {
		t.Fatal(err)
	} else if !bytes.Equal(got, want) {
		t.Error("docs/commands.md is not what the help says: run make docs")
	}
	dir := *docsDir
	if dir == "" {
		dir = t.TempDir()
	}
	writeManPages(t, filepath.Join(dir, "man"))
	writeCompletions(t, filepath.Join(dir, "completions"))
}

// shownCommands returns the commands that the help lists, in its order.
func shownCommands(t *testing.T) []*cobra.Command {
	t.Helper()
	root := newRootCommand(newApp(os.Stdin, os.Stdout, os.Stderr))
	root.InitDefaultHelpCmd()
	var shown []*cobra.Command
	for _, cmd := range root.Commands() {
		if cmd.IsAvailableCommand() && cmd.Name() != "help" && cmd.Name() != "completion" {
			shown = append(shown, cmd)
		}
	}
	if len(shown) < 15 {
		t.Fatalf("the help lists %d commands only", len(shown))
	}
	return shown
}

func commandReference(t *testing.T) []byte {
	t.Helper()
	shown := shownCommands(t)
	inherited := strings.TrimSpace(flagGroups(flagless(shown[0].Root())))
	var b bytes.Buffer
	b.WriteString("# Commands\n\nThis page is for somebody who looks up a command: `leasectl help COMMAND` of each, as `make docs` writes it. Each command also has the\n" +
		"[flags of all commands](#flags-of-all-commands), which stand here once.\n\n| to | commands |\n|---|---|\n")
	for _, g := range commandGroupsOf {
		var links []string
		for _, name := range strings.Fields(g.commands) {
			if slices.ContainsFunc(shown, func(c *cobra.Command) bool { return c.Name() == name }) {
				links = append(links, fmt.Sprintf("[%[1]s](#%[1]s)", name))
			}
		}
		fmt.Fprintf(&b, "| %s | %s |\n", strings.ToLower(g.heading), strings.Join(links, ", "))
	}
	for _, cmd := range shown {
		var help bytes.Buffer
		cmd.SetOut(&help)
		if err := cmd.Help(); err != nil {
			t.Fatal(err)
		}
		own, ok := strings.CutSuffix(strings.TrimSpace(help.String()), inherited)
		if !ok {
			t.Errorf("the help of %s does not end with the flags of all commands", cmd.Name())
		}
		fmt.Fprintf(&b, "\n## %s\n\n```text\n%s\n```\n", cmd.Name(), strings.TrimSpace(own))
	}
	fmt.Fprintf(&b, "\n## Flags of all commands\n\n```text\n%s\n```\n", inherited)
	return b.Bytes()
}

// flagless returns a command below root that has only the flags of all commands.
func flagless(root *cobra.Command) *cobra.Command {
	cmd := &cobra.Command{Use: "flagless"}
	root.AddCommand(cmd)
	return cmd
}

func writeManPages(t *testing.T, dir string) {
	t.Helper()
	if err := os.MkdirAll(dir, 0o755); err != nil {
		t.Fatal(err)
	}
	// A release sets the date of its commit, so that two builds of one source are the same.
	const date = "SOURCE_DATE_EPOCH"
	if os.Getenv(date) == "" {
		t.Setenv(date, "0")
	}
	header := &doc.GenManHeader{Section: "1", Source: "leasectl", Manual: "leasectl"}
	root := newRootCommand(newApp(os.Stdin, os.Stdout, os.Stderr))
	root.DisableAutoGenTag = true
	if err := doc.GenManTree(root, header, dir); err != nil {
		t.Fatal(err)
	}
	page, err := os.ReadFile(filepath.Join(dir, "leasectl-exec.1"))
	if err != nil {
		t.Fatal(err)
	}
	if !bytes.Contains(page, []byte("grace-period")) {
		t.Error("the man page of exec has nothing of --grace-period")
	}
}

func writeCompletions(t *testing.T, dir string) {
	t.Helper()
	if err := os.MkdirAll(dir, 0o755); err != nil {
		t.Fatal(err)
	}
	root := newRootCommand(newApp(os.Stdin, os.Stdout, os.Stderr))
	for name, write := range map[string]func(path string) error{
		"leasectl.bash": func(path string) error { return root.GenBashCompletionFileV2(path, true) },
		"_leasectl":     root.GenZshCompletionFile,
		"leasectl.fish": func(path string) error { return root.GenFishCompletionFile(path, true) },
	} {
		if err := write(filepath.Join(dir, name)); err != nil {
			t.Fatal(err)
		}
	}
}
