package main

import (
	"runtime"
	"runtime/debug"

	"github.com/spf13/cobra"

	"github.com/leasectl/leasectl/leaseapi"
)

// buildVersion is set by the linker in a release build.
var buildVersion string

// version is the release, or what the go command knows of the source.
func version() string {
	if buildVersion != "" {
		return buildVersion
	}
	if info, ok := debug.ReadBuildInfo(); ok && info.Main.Version != "" && info.Main.Version != "(devel)" {
		return info.Main.Version
	}
	return "devel"
}

func newVersionCommand(a *app) *cobra.Command {
	return &cobra.Command{
		Use:     "version",
		Short:   "print the version",
		Long:    "Version prints the release, the wire contract it speaks, and what it was built with.",
		Example: "  leasectl version --output json",
		Args:    cobra.NoArgs,
		RunE: func(*cobra.Command, []string) error {
			if a.output == "json" {
				return a.printJSON(struct {
					Version string `json:"version"`
					Wire    int    `json:"wire"`
					Go      string `json:"go"`
					OS      string `json:"os"`
					Arch    string `json:"arch"`
				}{version(), leaseapi.Wire, runtime.Version(), runtime.GOOS, runtime.GOARCH})
			}
			return a.print("leasectl %s (wire %d, %s %s/%s)\n", version(), leaseapi.Wire, runtime.Version(), runtime.GOOS, runtime.GOARCH)
		},
	}
}
