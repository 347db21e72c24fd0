package main

import (
	"runtime/debug"
	"strings"
)

// buildVersion and buildCommit are set by the linker. make gets the values from git, and turns
// the go command's own stamping off: with it, nothing is built in a tree that git distrusts.
var buildVersion, buildCommit string

// version returns the release. If the linker set none, it returns the go command's
// pseudo-version, which contains the commit, or else devel with the commit and its day.
func version() string {
	if buildVersion != "" {
		return buildVersion
	}
	info, ok := debug.ReadBuildInfo()
	if !ok {
		return "devel"
	}
	return sourceVersion(info)
}

// commit returns the full id of the source's commit, with -dirty if the source was changed since;
// "" if it was unknown at the build.
func commit() string {
	if buildCommit != "" {
		return buildCommit
	}
	info, ok := debug.ReadBuildInfo()
	if !ok {
		return ""
	}
	return sourceCommit(info)
}

func sourceVersion(info *debug.BuildInfo) string {
	if v := info.Main.Version; v != "" && v != "(devel)" {
		return v
	}
	id := sourceCommit(info)
	if id == "" {
		return "devel"
	}
	id, dirty := strings.CutSuffix(id, dirtySuffix)
	v := "devel-" + id[:min(len(id), 12)]
	if day, _, _ := strings.Cut(setting(info, "vcs.time"), "T"); day != "" {
		v += "-" + day
	}
	if dirty {
		v += dirtySuffix
	}
	return v
}

func sourceCommit(info *debug.BuildInfo) string {
	id := setting(info, "vcs.revision")
	if id != "" && setting(info, "vcs.modified") == "true" {
		id += dirtySuffix
	}
	return id
}

const dirtySuffix = "-dirty"

func setting(info *debug.BuildInfo, key string) string {
	for _, s := range info.Settings {
		if s.Key == key {
			return s.Value
		}
	}
	return ""
}
