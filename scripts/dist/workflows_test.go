package main

import (
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"

	"go.yaml.in/yaml/v3"
)

// step is a step of a workflow.
type step struct {
	Uses, Run string
	With      map[string]string
}

// workflow is what the tests ask of a file in .github/workflows; actionlint asks the rest, in make
// lint.
type workflow struct {
	Permissions map[string]string
	Jobs        map[string]struct {
		Uses, Container string
		Steps           []step
	}
}

func workflows(t *testing.T) map[string]workflow {
	t.Helper()
	files, err := filepath.Glob("../../.github/workflows/*.yml")
	if err != nil || len(files) < 2 {
		t.Fatal(files, err)
	}
	all := make(map[string]workflow)
	for _, file := range files {
		text, err := os.ReadFile(file)
		if err != nil {
			t.Fatal(err)
		}
		var w workflow
		if err := yaml.Unmarshal(text, &w); err != nil {
			t.Fatalf("%s: %v", file, err)
		}
		all[filepath.Base(file)] = w
	}
	return all
}

// A workflow runs only what somebody has looked at: actions are named by the hash of their commit,
// since a tag can be moved. Without a permission of its own a job may only read.
func TestWorkflowsArePinned(t *testing.T) {
	pinned := regexp.MustCompile(`^([\w-]+/[\w./-]+@[0-9a-f]{40}|\./\.github/workflows/[\w-]+\.yml)$`)
	for name, w := range workflows(t) {
		if len(w.Permissions) != 1 || w.Permissions["contents"] != "read" {
			t.Errorf("%s: the permissions are %v", name, w.Permissions)
		}
		for _, job := range w.Jobs {
			uses := []string{job.Uses}
			for _, step := range job.Steps {
				uses = append(uses, step.Uses)
			}
			for _, action := range uses {
				if action != "" && !pinned.MatchString(action) {
					t.Errorf("%s: %q is no hash of a commit", name, action)
				}
			}
		}
	}
}

// What the workflow of a release runs, docs/releasing.md says to run by hand, and CI is .ci/run.
func TestWorkflowsRunTheSame(t *testing.T) {
	page, err := os.ReadFile("../../docs/releasing.md")
	if err != nil {
		t.Fatal(err)
	}
	all := workflows(t)
	var runs []string
	for _, step := range all["release.yml"].Jobs["release"].Steps {
		runs = append(runs, step.Run)
	}
	commands := regexp.MustCompile(`make [\w-]+|scripts/dist/[\w.]+|buildah manifest push --all`).FindAllString(strings.Join(runs, "\n"), -1)
	if len(commands) < 3 {
		t.Errorf("the release runs %q only", commands)
	}
	for _, command := range commands {
		if !strings.Contains(string(page), command) {
			t.Errorf("docs/releasing.md has no %q", command)
		}
	}
	if steps := all["ci.yml"].Jobs["check"].Steps; !slices.ContainsFunc(steps, func(s step) bool { return s.Run == ".ci/run" }) {
		t.Errorf("CI runs %v", steps)
	}
	if uses := all["release.yml"].Jobs["check"].Uses; uses != "./.github/workflows/ci.yml" {
		t.Errorf("before a release, %q runs", uses)
	}
}

// A release is made by the Go that CI has tested: the newest patch of the same version.
func TestReleaseHasTheGoOfCI(t *testing.T) {
	all := workflows(t)
	for _, s := range all["release.yml"].Jobs["release"].Steps {
		if !strings.HasPrefix(s.Uses, "actions/setup-go@") {
			continue
		}
		version := s.With["go-version"]
		if container := all["ci.yml"].Jobs["check"].Container; version == "" || !strings.HasPrefix(container, "golang:"+version+"-") || s.With["check-latest"] != "true" {
			t.Errorf("CI runs in %s, and the release is made with %v", container, s.With)
		}
		return
	}
	t.Error("the release sets up no Go")
}
