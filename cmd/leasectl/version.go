package main

import (
	"runtime"

	"github.com/spf13/cobra"

	"github.com/leasectl/leasectl/leaseapi"
)

func newVersionCommand(a *app) *cobra.Command {
	return &cobra.Command{
		Use:     "version",
		Short:   "print the version",
		Long:    "Version prints the release, the wire contract it speaks, and what it was built with.",
		Example: "  leasectl version --output json",
		Args:    noArgs,
		RunE:    func(*cobra.Command, []string) error { return a.printVersion() },
	}
}

func (a *app) printVersion() error {
	if a.output == "json" {
		return a.printJSON(struct {
			Version string `json:"version"`
			Commit  string `json:"commit,omitempty"`
			Wire    int    `json:"wire"`
			Go      string `json:"go"`
			OS      string `json:"os"`
			Arch    string `json:"arch"`
		}{version(), commit(), leaseapi.Wire, runtime.Version(), runtime.GOOS, runtime.GOARCH})
	}
	return a.print("leasectl %s (wire %d, %s %s/%s)\n", version(), leaseapi.Wire, runtime.Version(), runtime.GOOS, runtime.GOARCH)
}
