package main

import (
	"runtime/debug"
	"testing"
)

// A build without a release's flags names its commit.
func TestSourceVersion(t *testing.T) {
	const id = "2269173aabbccddeeff00112233445566778899a"
	settings := func(modified string) []debug.BuildSetting {
		return []debug.BuildSetting{{Key: "vcs.revision", Value: id}, {Key: "vcs.time", Value: "2026-11-22T03:04:05Z"}, {Key: "vcs.modified", Value: modified}}
	}
	for _, tt := range []struct {
		name            string
		info            debug.BuildInfo
		version, commit string
	}{
		{"go install of a release", debug.BuildInfo{Main: debug.Module{Version: "v1.2.3"}}, "v1.2.3", ""},
		{"go build", debug.BuildInfo{Main: debug.Module{Version: "v0.0.0-20261122030405-2269173aabbc"}, Settings: settings("false")}, "v0.0.0-20261122030405-2269173aabbc", id},
		{"no version of the module", debug.BuildInfo{Main: debug.Module{Version: "(devel)"}, Settings: settings("false")}, "devel-2269173aabbc-2026-11-22", id},
		{"changed since", debug.BuildInfo{Settings: settings("true")}, "devel-2269173aabbc-2026-11-22-dirty", id + "-dirty"},
		{"without version control", debug.BuildInfo{Main: debug.Module{Version: "(devel)"}}, "devel", ""},
	} {
		if got := sourceVersion(&tt.info); got != tt.version {
			t.Errorf("%s: version %q, want %q", tt.name, got, tt.version)
		}
		if got := sourceCommit(&tt.info); got != tt.commit {
			t.Errorf("%s: commit %q, want %q", tt.name, got, tt.commit)
		}
	}
}
