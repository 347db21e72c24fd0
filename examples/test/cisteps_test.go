package test

import (
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
	"testing"
)

// The step of the shared library is run by Groovy, with the few steps of Jenkins that it uses; a
// Jenkins is not started.
func TestJenkins(t *testing.T) {
	t.Parallel()
	step, err := filepath.Abs("../jenkins/vars/withLease.groovy")
	if err != nil {
		t.Fatal(err)
	}
	jenkins, err := filepath.Abs("testdata/jenkins.groovy")
	if err != nil {
		t.Fatal(err)
	}
	s := serve(t, "--pool", "install=1")
	call := func(j *job, words ...string) *run {
		return j.start(nil, append([]string{"groovy", jenkins, step}, words...)...)
	}
	newBuild := func(proxy string) *job {
		return newJob(t, "LEASE_PROXY_SERVER_URL="+proxy, "JENKINS_URL=https://ci.example/", "BUILD_URL=https://ci.example/job/a/7/")
	}
	j := newBuild(s.url)
	if out := call(j, "install", "leasectl status --type install", "echo installed").exits(0); !strings.Contains(out, "https://ci.example/job/a/7/") || !strings.Contains(out, "installed\n") {
		t.Error(out)
	}
	s.awaitIdle("install")
	if out := call(j, "install", "exit 3").exits(1); !strings.Contains(out, "script returned exit code 3") {
		t.Error(out)
	}
	s.awaitIdle("install")
	if out := call(j, "unknown", "echo installed").exits(1); strings.Contains(out, "\ninstalled\n") {
		t.Error(out)
	}
	if out := call(newBuild(""), "install", "echo installed").exits(0); !strings.Contains(out, "installed\n") {
		t.Error(out)
	}
	gone := serve(t, "--pool", "install=1")
	if out := call(newBuild(gone.url), "install", fmt.Sprint("kill ", gone.cmd.Process.Pid)).exits(0); !strings.Contains(out, "was not given back") {
		t.Error(out)
	}
}

// The agent runs the hooks, and the job's commands between them, by bash, as this test does. It sets the
// variables of the plugin from its configuration in the pipeline.
func TestBuildkite(t *testing.T) {
	t.Parallel()
	var pipeline struct {
		Env   map[string]string `json:"env"`
		Steps []struct {
			Label, Command string
			Timeout        int `json:"timeout_in_minutes"`
			Commands       []string
			Plugins        []map[string]map[string]string
		} `json:"steps"`
	}
	decodeLoosely(t, read(t, "buildkite/pipeline.yml"), &pipeline)
	var plugin struct {
		Name, Description, Author string
		Requirements              []string
		Configuration             struct {
			Properties           map[string]struct{ Type string }
			Required             []string
			AdditionalProperties bool
		}
	}
	decodeLoosely(t, read(t, "buildkite/plugin.yml"), &plugin)

	s := serve(t, "--pool", "install=1")
	newBuild := func(install string) *job {
		j := newJob(t, "LEASE_PROXY_SERVER_URL="+s.url, "LEASECTL_TOKEN_FROM="+pipeline.Env["LEASECTL_TOKEN_FROM"], "BUILDKITE_JOB_ID=7",
			"BUILDKITE=true", "BUILDKITE_BUILD_URL=https://buildkite.example/a/builds/7")
		j.env = append(j.env, "BUILDKITE_BUILD_CHECKOUT_PATH="+j.dir)
		j.command("bin/buildkite-agent", `test "$*" = 'oidc request-token --audience leasectl' && echo a-token-that-nobody-asks-for`)
		j.command("prepare.sh", "echo prepared")
		j.command("install.sh", install)
		return j
	}
	for _, options := range pipeline.Steps[1].Plugins[0] {
		for option := range options {
			if _, ok := plugin.Configuration.Properties[option]; !ok {
				t.Errorf("the plugin has no option %s", option)
			}
		}
	}
	hook := func(name string) string {
		path, err := filepath.Abs("../buildkite/hooks/" + name)
		if err != nil {
			t.Fatal(err)
		}
		if info, err := os.Stat(path); err != nil || info.Mode()&0o111 == 0 {
			t.Errorf("%s: %v, %v", name, info.Mode(), err)
		}
		return path
	}
	options := []string{"BUILDKITE_PLUGIN_LEASECTL_TYPE=install"}
	j := newBuild("leasectl status --type install")
	if out := j.start(nil, "bash", "-e", "-c", pipeline.Steps[0].Command).exits(0); !strings.Contains(out, "https://buildkite.example/a/builds/7") {
		t.Error(out)
	}
	s.awaitIdle("install")

	j = newBuild("exit 3")
	j.start(options, hook("pre-command")).exits(0)
	j.start(options, "bash", "-e", "-c", strings.Join(pipeline.Steps[1].Commands, "\n")).exits(3)
	if s.inUse("install") != 1 {
		t.Error("the command ran without a lease")
	}

	waits := newBuild("true") // is cancelled while it waits
	waits.env = append(waits.env, "BUILDKITE_JOB_ID=8")
	waiting := waits.start(options, hook("pre-command"))
	await(t, "a job waits", func() bool { return s.waiting("install") == 1 })
	syscall.Kill(-waiting.Process.Pid, syscall.SIGTERM)
	waiting.code()
	waits.start(options, hook("pre-exit")).exits(0)
	if s.waiting("install") != 0 {
		t.Error("a job that was cancelled still waits")
	}

	j.start(options, hook("pre-exit")).exits(0)
	s.awaitIdle("install")

	j = newBuild("true")
	j.start(options, hook("pre-command")).exits(0)
	s.stop()
	if out := j.start(options, hook("pre-exit")).exits(0); !strings.Contains(out, "was not given back") {
		t.Error(out)
	}
}

// circleStep is a run step: a command alone, or a mapping.
type circleStep struct{ Command, When string }

func (s *circleStep) UnmarshalJSON(text []byte) error {
	if text[0] == '"' { // checkout
		return nil
	}
	var of struct{ Run json.RawMessage }
	if err := json.Unmarshal(text, &of); err != nil {
		return err
	}
	if err := json.Unmarshal(of.Run, &s.Command); err == nil {
		return nil
	}
	type plain circleStep
	return json.Unmarshal(of.Run, (*plain)(s))
}

// Each step runs in a shell of its own; after one that fails only those run that always do. CircleCI itself
// is not to be had: its program runs jobs in Docker only.
func TestCircleCI(t *testing.T) {
	t.Parallel()
	var config struct {
		Jobs map[string]struct {
			Environment map[string]string
			Steps       []circleStep
		}
		Workflows map[string]struct{ Jobs []string }
	}
	decodeLoosely(t, read(t, "circleci/config.yml"), &config)
	for _, name := range config.Workflows["install"].Jobs {
		if len(config.Jobs[name].Steps) < 2 {
			t.Errorf("there is no job %s", name)
		}
	}
	s := serve(t, "--pool", "install=1")
	for _, tt := range []struct {
		job, proxy, install string
		code                int
		prints              string
	}{
		{"install", s.url, "leasectl status --type install", 0, "https://circleci.example/7"},
		{"install", "", "echo installed", 0, "installed\n"},
		{"install-in-steps", s.url, "leasectl status --type install", 0, "https://circleci.example/7"},
		{"install-in-steps", s.url, "exit 3", 3, "prepared\n"},
		{"install-in-steps", "", "echo installed", 0, "installed\n"},
	} {
		of := config.Jobs[tt.job]
		j := newJob(t, "LEASE_PROXY_SERVER_URL="+tt.proxy, "CIRCLECI=true", "CIRCLE_BUILD_URL=https://circleci.example/7")
		j.command("bin/circleci", `test "$*" = 'run oidc get --claims {"aud":"leasectl"}' && echo a-token-that-nobody-asks-for`)
		j.command("prepare.sh", "echo prepared")
		j.command("install.sh", tt.install)
		var env []string
		for name, value := range of.Environment {
			env = append(env, name+"="+strings.ReplaceAll(value, "/tmp", j.dir))
		}
		code, printed := 0, ""
		for _, step := range slices.DeleteFunc(of.Steps, func(s circleStep) bool { return s.Command == "" }) {
			if code != 0 && step.When != "always" {
				continue
			}
			r := j.start(env, "bash", "-eo", "pipefail", "-c", step.Command)
			if c := r.code(); c != 0 {
				code = c
			}
			printed += r.printed()
		}
		if code != tt.code || !strings.Contains(printed, tt.prints) {
			t.Errorf("%s at %q: exit code %d, want %d:\n%s", tt.job, tt.proxy, code, tt.code, printed)
		}
		s.awaitIdle("install")
	}
}
