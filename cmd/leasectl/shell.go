package main

import (
	"github.com/spf13/cobra"

	"github.com/leasectl/leasectl/scripts"
)

func newShellCommand(a *app) *cobra.Command {
	return &cobra.Command{
		Use:   "shell bash",
		Short: "print functions for bash scripts",
		Long: `Shell prints functions for bash 4.2 or newer, as shell code. trap_add adds to a
trap where trap replaces it, and trap_del takes away again. lease__acquire,
lease__release, lease__cat and lease__install_lease_eligible are those that step
scripts have always had, over leasectl.`,
		Example: `  eval "$(leasectl shell bash)"
  trap_add 'echo done' EXIT`,
		ValidArgs: []string{"bash"},
		Args: func(_ *cobra.Command, args []string) error {
			if len(args) != 1 || args[0] != "bash" {
				return usagef("shell: there are functions for bash only: leasectl shell bash")
			}
			return nil
		},
		RunE: func(*cobra.Command, []string) error { return a.print("%s%s", scripts.Trap, scripts.Client) },
	}
}
