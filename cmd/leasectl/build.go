package main

import (
	"runtime/debug"
	"strings"
)

// buildVersion and buildCommit are set by the linker: make says what git says, and need
// not leave it to the go command, which builds nothing in a tree that git distrusts.
var buildVersion, buildCommit string

// version is the release, or what the go command knows of the source: a
// pseudo-version, which has the commit in it, or the commit alone.
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

// commit is the whole id of the source's commit, with -dirty if it was changed
// since; "" if nobody knew it at the build.
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
