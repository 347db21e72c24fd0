package main

import (
	"os"
	"testing"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"
)

// Each command has a short and a long text and an example, and each flag has its help. A test in
// docs/docstest checks the examples.
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
