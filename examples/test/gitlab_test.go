package test

import (
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
	"testing"
	"time"
)

// gitlabJob is a job of .gitlab-ci.yml, with the keywords that ours have.
type gitlabJob struct {
	Image       string            `json:"image"`
	Timeout     string            `json:"timeout"`
	Variables   map[string]string `json:"variables"`
	Script      []string          `json:"script"`
	AfterScript []string          `json:"after_script"`
	IDTokens    map[string]struct {
		Audience string `json:"aud"`
	} `json:"id_tokens"`
}

func readGitlab(t *testing.T) map[string]gitlabJob {
	t.Helper()
	var jobs map[string]gitlabJob
	decode(t, read(t, "gitlab/gitlab-ci.yml"), &jobs)
	return jobs
}

// A lease that nobody renews lasts as long as the job and its after_script.
func TestGitlabTTL(t *testing.T) {
	job := readGitlab(t)["install-in-steps"]
	timeout, err := time.ParseDuration(job.Timeout)
	if err != nil {
		t.Fatal(err)
	}
	words := strings.Fields(job.Script[0])
	ttl, err := time.ParseDuration(words[slices.Index(words, "--ttl")+1])
	const afterScript = 5 * time.Minute // GitLab's own bound
	if err != nil || ttl < timeout+afterScript {
		t.Errorf("the lease ends after %v (%v), the job after %v", ttl, err, timeout)
	}
	// Otherwise the after_script of a job that takes too long does not run.
	var bounds time.Duration
	for _, name := range []string{"RUNNER_SCRIPT_TIMEOUT", "RUNNER_AFTER_SCRIPT_TIMEOUT"} {
		bound, err := time.ParseDuration(job.Variables[name])
		if err != nil {
			t.Errorf("%s: %v", name, err)
		}
		bounds += bound
	}
	if bounds > timeout {
		t.Errorf("the scripts may take %v, and the job %v", bounds, timeout)
	}
}

// gitlabRunner runs the scripts of a job as GitLab's runner does: each in a shell of its own,
// which ends with the first command that fails.
type gitlabRunner struct {
	*job
	of  gitlabJob
	env []string
}

func newGitlabRunner(t *testing.T, name, proxy, install string) *gitlabRunner {
	t.Helper()
	of, ok := readGitlab(t)[name]
	if !ok {
		t.Fatalf("no job %s: %v", name, slices.Sorted(maps.Keys(readGitlab(t))))
	}
	r := &gitlabRunner{job: newJob(t, "LEASE_PROXY_SERVER_URL="+proxy, "CI_JOB_URL=https://git.example/a/-/jobs/7"), of: of}
	for name := range of.IDTokens {
		r.env = append(r.env, name+"=a-token-that-nobody-asks-for")
	}
	here := strings.NewReplacer("/tmp", r.dir, "$CI_JOB_ID", "7")
	for name, value := range of.Variables {
		r.env = append(r.env, name+"="+here.Replace(value))
	}
	r.command("prepare.sh", "echo prepared")
	r.command("install.sh", install)
	return r
}

func (r *gitlabRunner) begin(lines []string) *run {
	return r.start(r.env, "bash", "-c", "set -o errexit -o pipefail\n"+strings.Join(lines, "\n"))
}

// GitLab puts a token for each of id_tokens into the job, by which the proxy knows the project.
func TestGitlabIdentity(t *testing.T) {
	t.Parallel()
	gitlab := newIssuer(t)
	s, files := secureServer(t, "--pool", "install=1", "--auth", gitlab.auth(t, `{claims: {namespace_id: "72"}, name: "{project_path}", pools: [install]}`))
	for _, name := range []string{"install", "install-in-steps"} {
		r := newGitlabRunner(t, name, s.url, "leasectl status --type install")
		r.env = append(r.env, "LEASECTL_CA="+files.ca)
		for variable, token := range r.of.IDTokens {
			r.env = append(r.env, variable+"="+gitlab.sign(token.Audience, map[string]any{"sub": "project_path:acme/app:ref_type:branch:ref:main", "namespace_id": "72", "project_path": "acme/app"}))
		}
		if out := r.begin(r.of.Script).exits(0); !strings.Contains(out, "(token acme/app)") || strings.Contains(out, "eyJ") {
			t.Errorf("%s:\n%s", name, out)
		}
		if r.of.AfterScript != nil {
			r.begin(r.of.AfterScript).exits(0)
		}
		s.awaitIdle("install")
	}
}

func TestGitlab(t *testing.T) {
	t.Parallel()
	s := serve(t, "--pool", "install=1")
	t.Run("one command", func(t *testing.T) {
		r := newGitlabRunner(t, "install", s.url, "leasectl status --type install")
		if out := r.begin(r.of.Script).exits(0); !strings.Contains(out, "https://git.example/a/-/jobs/7") {
			t.Error(out)
		}
		s.awaitIdle("install")
	})
	t.Run("one command without a proxy", func(t *testing.T) {
		r := newGitlabRunner(t, "install", "", "echo installed")
		if out := r.begin(r.of.Script).exits(0); !strings.Contains(out, "installed\n") {
			t.Error(out)
		}
	})
	t.Run("steps that fail", func(t *testing.T) {
		r := newGitlabRunner(t, "install-in-steps", s.url, "exit 3")
		r.begin(r.of.Script).exits(3)
		if s.inUse("install") != 1 {
			t.Error("the lease did not outlive its script")
		}
		r.begin(r.of.AfterScript).exits(0)
		s.awaitIdle("install")
	})
	t.Run("steps that are cancelled", func(t *testing.T) {
		r := newGitlabRunner(t, "install-in-steps", s.url, "touch begun; exec sleep 100")
		script := r.begin(r.of.Script)
		await(t, "it installs", func() bool { _, err := os.Stat(filepath.Join(r.dir, "begun")); return err == nil })
		syscall.Kill(-script.Process.Pid, syscall.SIGKILL)

		waits := newGitlabRunner(t, "install-in-steps", s.url, "true") // another job, which is cancelled while it waits
		script = waits.begin(waits.of.Script)
		await(t, "a job waits", func() bool { return s.waiting("install") == 1 })
		syscall.Kill(-script.Process.Pid, syscall.SIGKILL)
		waits.begin(waits.of.AfterScript).exits(0)
		if s.waiting("install") != 0 {
			t.Error("a job that was cancelled still waits")
		}

		r.begin(r.of.AfterScript).exits(0)
		s.awaitIdle("install")
	})
	t.Run("steps without a proxy", func(t *testing.T) {
		r := newGitlabRunner(t, "install-in-steps", "", "echo installed")
		if out := r.begin(r.of.Script).exits(0); !strings.Contains(out, "installed\n") {
			t.Error(out)
		}
		r.begin(r.of.AfterScript).exits(0)
	})
}
