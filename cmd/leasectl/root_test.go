package main

import (
	"os"
	"slices"
	"strings"
	"testing"

	"github.com/spf13/cobra"
)

// A command that is built alone has the same help as in the tree of all commands.
func TestCommandBuiltAlone(t *testing.T) {
	help := func(root *cobra.Command, name string) string {
		var out strings.Builder
		root.SetOut(&out)
		root.SetErr(&out)
		root.SetArgs([]string{name, "--help"})
		if err := root.Execute(); err != nil {
			t.Errorf("%s --help: %v", name, err)
		}
		return out.String()
	}
	for name := range commands() {
		alone := newRootCommand(newApp(os.Stdin, os.Stdout, os.Stderr), name)
		if n := len(alone.Commands()); n != 1 || alone.Commands()[0].Name() != name {
			t.Errorf("%q builds %d commands, the first is %q", name, n, alone.Commands()[0].Name())
		}
		whole := newRootCommand(newApp(os.Stdin, os.Stdout, os.Stderr))
		if got, want := help(alone, name), help(whole, name); got != want {
			t.Errorf("%s --help alone:\n%s\nin the whole tree:\n%s", name, got, want)
		}
	}
}

// If the first argument is no command's name, all commands are built, for suggestions and
// completion.
func TestAllCommandsBuilt(t *testing.T) {
	for _, args := range [][]string{nil, {"help"}, {"--help"}, {"exce"}, {"__complete", ""}, {"completion", "bash"}} {
		root := newRootCommand(newApp(os.Stdin, os.Stdout, os.Stderr), args...)
		for name := range commands() {
			if !slices.ContainsFunc(root.Commands(), func(c *cobra.Command) bool { return c.Name() == name }) {
				t.Errorf("%q: there is no command %s", args, name)
			}
		}
	}
}
