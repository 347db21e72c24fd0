// Command cobra runs a command and does nothing else. It shows the cost of a program with cobra
// and os/exec before that does anything useful.
//
//	cobra exec [--type TYPE] -- COMMAND [ARG…]
package main

import (
	"os"
	"os/exec"

	"github.com/spf13/cobra"
)

func main() {
	run := &cobra.Command{
		Use:  "exec",
		Args: cobra.MinimumNArgs(1),
		RunE: func(_ *cobra.Command, args []string) error {
			cmd := exec.Command(args[0], args[1:]...)
			cmd.Stdin, cmd.Stdout, cmd.Stderr = os.Stdin, os.Stdout, os.Stderr
			return cmd.Run()
		},
	}
	run.Flags().String("type", "", "ignored")
	root := &cobra.Command{Use: "cobra", SilenceUsage: true}
	root.AddCommand(run)
	if root.Execute() != nil {
		os.Exit(1)
	}
}
