package main

import (
	"os"
	"strings"
	"testing"

	"github.com/leasectl/leasectl/leaseapi"
)

func noEnvironment(string) string { return "" }

// The owner names the job, by its URL if the CI system tells it, and is the same for every process
// of the job.
func TestDetectOwner(t *testing.T) {
	for _, tt := range []struct {
		name string
		env  map[string]string
		want string
	}{
		{"prow", map[string]string{"PROW_JOB_ID": "0a1b", "JOB_NAME": "e2e-aws", "BUILD_ID": "17"}, "e2e-aws/17/0a1b"},
		{"prow, id only", map[string]string{"PROW_JOB_ID": "0a1b"}, "0a1b"},
		{"github", map[string]string{
			"GITHUB_SERVER_URL": "https://github.com", "GITHUB_REPOSITORY": "o/r", "GITHUB_RUN_ID": "5",
			"GITHUB_RUN_ATTEMPT": "2", "GITHUB_JOB": "install",
		}, "https://github.com/o/r/actions/runs/5/attempts/2#install"},
		{"github, a leg of a matrix", map[string]string{
			"GITHUB_SERVER_URL": "https://github.com", "GITHUB_REPOSITORY": "o/r", "GITHUB_RUN_ID": "5",
			"GITHUB_RUN_ATTEMPT": "2", "GITHUB_JOB": "install", "RUNNER_NAME": "GitHub Actions 12",
		}, "https://github.com/o/r/actions/runs/5/attempts/2#install@GitHub-Actions-12"},
		{"gitlab", map[string]string{"CI_JOB_URL": "https://gitlab.com/o/r/-/jobs/9"}, "https://gitlab.com/o/r/-/jobs/9"},
		{"buildkite", map[string]string{"BUILDKITE_BUILD_URL": "https://buildkite.com/o/p/builds/3", "BUILDKITE_JOB_ID": "j1"}, "https://buildkite.com/o/p/builds/3#j1"},
		{"circleci", map[string]string{"CIRCLE_BUILD_URL": "https://circleci.com/gh/o/r/3", "CIRCLE_NODE_TOTAL": "1", "CIRCLE_NODE_INDEX": "0"}, "https://circleci.com/gh/o/r/3"},
		{"circleci in parallel", map[string]string{"CIRCLE_BUILD_URL": "https://circleci.com/gh/o/r/3", "CIRCLE_NODE_TOTAL": "2", "CIRCLE_NODE_INDEX": "1"}, "https://circleci.com/gh/o/r/3#1"},
		{"jenkins", map[string]string{"JENKINS_URL": "https://j/", "BUILD_URL": "https://j/job/a/4/"}, "https://j/job/a/4/"},
		{"a build url of something else", map[string]string{"BUILD_URL": "https://x/"}, userAtHost(os.Getuid(), noEnvironment)},
		{"prow before jenkins", map[string]string{"PROW_JOB_ID": "0a1b", "JENKINS_URL": "https://j/", "BUILD_URL": "https://j/job/a/4/"}, "0a1b"},
		{"none", nil, userAtHost(os.Getuid(), noEnvironment)},
		{"line breaks", map[string]string{"CI_JOB_URL": "https://g/\n1\x1b[2J"}, "https://g/ 1 [2J"},
		{"too long", map[string]string{"CI_JOB_URL": strings.Repeat("ä", leaseapi.MaxOwner)}, strings.Repeat("ä", leaseapi.MaxOwner/2)},
	} {
		t.Run(tt.name, func(t *testing.T) {
			got := detectOwner(func(name string) string { return tt.env[name] })
			if got != tt.want {
				t.Errorf("owner %q, want %q", got, tt.want)
			}
		})
	}
}

// Users without a name on the system get different names, and each user has the same name in all
// processes of a job. Before, all were unknown@host.
func TestUserName(t *testing.T) {
	for _, tt := range []struct {
		name string
		uid  int
		user string // $USER
		want string
	}{
		{"on the list", 0, "somebody", "root"},
		{"not on the list", containerUser, "", "uid-1000680000"},
		{"another one", containerUser + 1, "", "uid-1000680001"},
		{"of a directory service", containerUser, "alice", "alice"},
		{"$USER of a program that changed its user", containerUser, "root", "uid-1000680000"},
	} {
		t.Run(tt.name, func(t *testing.T) {
			got := userName(tt.uid, func(name string) string { return map[string]string{"USER": tt.user}[name] })
			if got != tt.want {
				t.Errorf("user %q, want %q", got, tt.want)
			}
		})
	}
}
