package main

import "runtime/debug"

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
