package test

import (
	"maps"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"syscall"
	"testing"
	"time"
)

// githubAction is action.yml of an action in JavaScript, with all fields that it may have.
type githubAction struct {
	Name        string                 `json:"name"`
	Description string                 `json:"description"`
	Author      string                 `json:"author"`
	Inputs      map[string]actionInput `json:"inputs"`
	Outputs     map[string]struct {
		Description string `json:"description"`
	} `json:"outputs"`
	Runs struct {
		Using  string `json:"using"`
		Pre    string `json:"pre"`
		PreIf  string `json:"pre-if"`
		Main   string `json:"main"`
		Post   string `json:"post"`
		PostIf string `json:"post-if"`
	} `json:"runs"`
}

type actionInput struct {
	Description string `json:"description"`
	Required    bool   `json:"required"`
	Default     string `json:"default"`
}

// githubWorkflow is a workflow, with the fields that ours has.
type githubWorkflow struct {
	Name string `json:"name"`
	On   string `json:"true"` // which is what "on" is in YAML 1.1
	Jobs map[string]struct {
		RunsOn         string            `json:"runs-on"`
		TimeoutMinutes int               `json:"timeout-minutes"`
		Permissions    map[string]string `json:"permissions"`
		Steps          []struct {
			ID   string            `json:"id"`
			Uses string            `json:"uses"`
			With map[string]string `json:"with"`
			Run  string            `json:"run"`
			Env  map[string]string `json:"env"`
		} `json:"steps"`
	} `json:"jobs"`
}

func readAction(t *testing.T) (a githubAction) {
	t.Helper()
	decode(t, read(t, "github-action/action.yml"), &a)
	return a
}

// What the scripts read are inputs, and what they write are outputs, and the other way round.
func TestActionMetadata(t *testing.T) {
	a := readAction(t)
	scripts := read(t, "github-action/lease.js") + read(t, "github-action/main.js") + read(t, "github-action/post.js")
	for what, names := range map[string][2][]string{
		"inputs":  {slices.Sorted(maps.Keys(a.Inputs)), namesIn(scripts, `input\('([^']+)'\)|'(count|wait-timeout|ttl)'`)},
		"outputs": {slices.Sorted(maps.Keys(a.Outputs)), namesIn(scripts, `put\('GITHUB_OUTPUT', '([^']+)'`)},
	} {
		if !slices.Equal(names[0], names[1]) {
			t.Errorf("%s: action.yml has %q, the scripts %q", what, names[0], names[1])
		}
	}
	for _, file := range []string{a.Runs.Main, a.Runs.Post} {
		read(t, "github-action/"+file)
	}
	if a.Runs.PostIf != "always()" || !strings.HasPrefix(a.Runs.Using, "node") {
		t.Errorf("runs: %+v", a.Runs)
	}
	if m := regexp.MustCompile(`require\('([^.'][^']*)'\)`).FindAllStringSubmatch(scripts, -1); len(m) > 0 {
		for _, m := range m {
			if !slices.Contains([]string{"child_process", "crypto", "fs", "os", "path"}, m[1]) {
				t.Errorf("%s is no part of node", m[1])
			}
		}
	}
}

// namesIn are what the groups of a pattern match, sorted, each once.
func namesIn(text, pattern string) (names []string) {
	for _, m := range regexp.MustCompile(pattern).FindAllStringSubmatch(text, -1) {
		names = append(names, strings.Join(m[1:], ""))
	}
	slices.Sort(names)
	return slices.Compact(names)
}

// The workflow passes inputs that there are, and uses outputs that there are.
func TestActionWorkflow(t *testing.T) {
	a := readAction(t)
	text := read(t, "github-action/workflow.yml")
	var w githubWorkflow
	decode(t, text, &w)
	used := false
	// The runner drops the Node of old actions, and dependabot looks after our own workflow, not after this one.
	ours := regexp.MustCompile(`uses: (actions/checkout)@[0-9a-f]{40} # (v[0-9]+)`).FindStringSubmatch(read(t, "../.github/workflows/ci.yml"))
	if ours == nil {
		t.Fatal("the workflow of this repository checks nothing out")
	}
	for _, step := range w.Jobs["install"].Steps {
		if name, version, _ := strings.Cut(step.Uses, "@"); name == ours[1] && version != ours[2] {
			t.Errorf("%s, but the workflow of this repository uses %s", step.Uses, ours[2])
		}
		if step.Uses != "./.github/actions/lease" {
			continue
		}
		used = true
		for name := range step.With {
			if _, ok := a.Inputs[name]; !ok {
				t.Errorf("the action has no input %s", name)
			}
		}
		for name, in := range a.Inputs {
			if in.Required && step.With[name] == "" {
				t.Errorf("the input %s is required", name)
			}
		}
		for _, output := range namesIn(text, regexp.QuoteMeta("steps."+step.ID+".outputs.")+`([\w-]+)`) {
			if _, ok := a.Outputs[output]; !ok {
				t.Errorf("the action has no output %s", output)
			}
		}
		if step.With["token-from"] == "github" && w.Jobs["install"].Permissions["id-token"] != "write" {
			t.Errorf("the job gets no token: permissions %v", w.Jobs["install"].Permissions)
		}
		ttl, err := time.ParseDuration(step.With["ttl"])
		if job := time.Duration(w.Jobs["install"].TimeoutMinutes) * time.Minute; err != nil || ttl < job {
			t.Errorf("the lease ends after %v (%v), the job after %v", ttl, err, job)
		}
	}
	if !used {
		t.Error("the action is not used")
	}
}

func TestAction(t *testing.T) {
	t.Parallel()
	s := serve(t, "--pool", "install=2", "--pool", "full=1")
	inputs := func(more ...string) map[string]string {
		in := map[string]string{"type": "install", "proxy": s.url}
		for i := 0; i < len(more); i += 2 {
			in[more[i]] = more[i+1]
		}
		return in
	}
	t.Run("holds a lease until post", func(t *testing.T) {
		r := newRunner(t, inputs("count", "2"))
		r.main(0)
		if names := strings.Split(r.outputs["names"], ","); len(names) != 2 || s.inUse("install") != 2 {
			t.Errorf("names %q, %d in use", r.outputs["names"], s.inUse("install"))
		}
		if _, pools := s.get("/pools"); !strings.Contains(pools, "https://git.example/a/b/actions/runs/7#install") {
			t.Errorf("the owner is not the job:\n%s", pools)
		}
		r.post()
		s.awaitIdle("install")
		if again := r.post(); again != "" { // a second time it has nothing to do
			t.Error(again)
		}
	})
	t.Run("takes what the pool gives if nobody says how much", func(t *testing.T) {
		s := serve(t, "--config", write(t, filepath.Join(t.TempDir(), "pools.yaml"), "resources: [{type: mem, units: 4096, unknown: 512}]\n"))
		r := newRunner(t, map[string]string{"type": "mem", "proxy": s.url})
		r.main(0)
		if n := s.inUse("mem"); n != 512 {
			t.Errorf("%d units in use, want the pool's unknown", n)
		}
		r.post()
		s.awaitIdle("mem")
	})
	t.Run("leaves the queue when the job is cancelled", func(t *testing.T) {
		for _, sig := range []syscall.Signal{syscall.SIGINT, syscall.SIGTERM, syscall.SIGKILL} {
			holder := newRunner(t, inputs("type", "full"))
			holder.main(0)
			r := newRunner(t, inputs("type", "full"))
			main := r.begin(r.action.Runs.Main)
			await(t, "it waits", func() bool { return s.waiting("full") == 1 })
			main.Process.Signal(sig) // as the runner does: to node alone
			if sig == syscall.SIGKILL {
				r.finish(main, 128+int(sig))
			} else if out := r.finish(main, 1); !strings.Contains(out, "::error::no lease of type full") {
				t.Error(out)
			}
			r.post()
			await(t, "nobody waits", func() bool { return s.waiting("full") == 0 })
			holder.post()
			s.awaitIdle("full")
		}
	})
	t.Run("gives back what main could not tell of", func(t *testing.T) {
		r := newRunner(t, inputs())
		r.full = true
		if out := r.main(1); s.inUse("install") != 1 || !strings.Contains(out, "::error::ENOSPC") {
			t.Errorf("%d in use\n%s", s.inUse("install"), out)
		}
		r.post()
		s.awaitIdle("install")
	})
	t.Run("fails without a lease", func(t *testing.T) {
		r := newRunner(t, inputs("type", "other%\n::warning::"))
		if out := r.main(1); !strings.Contains(out, "::error::") || strings.Contains(out, "\n::warning::") {
			t.Error(out)
		}
		r.post()
	})
	t.Run("goes on without one if it is optional", func(t *testing.T) {
		r := newRunner(t, inputs("type", "other", "optional", "true"))
		if out := r.main(0); !strings.Contains(out, "::notice::") || r.outputs["names"] != "" {
			t.Errorf("names %q\n%s", r.outputs["names"], out)
		}
		r.post()
	})
	t.Run("does nothing without a proxy", func(t *testing.T) {
		r := newRunner(t, inputs("proxy", ""))
		r.main(0)
		r.post()
	})
	t.Run("runs as root in a container of another user's runner", func(t *testing.T) {
		if os.Getuid() != 0 {
			t.Skip("only root can give a directory to another user")
		}
		r := newRunner(t, inputs())
		if err := os.Chown(filepath.Join(r.dir, "temp"), 4711, 4711); err != nil {
			t.Fatal(err)
		}
		r.main(0)
		if s.inUse("install") != 1 {
			t.Error("it has no lease")
		}
		r.post()
		s.awaitIdle("install")
	})
	t.Run("says what is missing without leasectl", func(t *testing.T) {
		r := newRunner(t, inputs())
		if err := os.Remove(filepath.Join(r.dir, "bin/leasectl")); err != nil {
			t.Fatal(err)
		}
		if out := r.main(1); !strings.Contains(out, "install it in an earlier step") {
			t.Error(out)
		}
		if out := r.post(); !strings.Contains(out, "::warning::") {
			t.Error(out)
		}
	})
}

// The token is a secret of the repository: a file on the machine has it for the time of the
// job, for nobody else to read.
func TestActionToken(t *testing.T) {
	t.Parallel()
	s, files := secureServer(t, "--pool", "install=1")
	r := newRunner(t, map[string]string{"type": "install", "proxy": s.url, "token": jobToken, "ca": files.ca})
	printed := r.main(0)
	if s.inUse("install") != 1 {
		t.Errorf("%d in use", s.inUse("install"))
	}
	info, err := os.Stat(filepath.Join(r.state["directory"], "token"))
	if err != nil || info.Mode().Perm() != 0o600 {
		t.Error(info.Mode(), err)
	}
	if printed += r.post(); strings.Contains(printed, jobToken) {
		t.Errorf("the token is in the log:\n%s", printed)
	}
	s.awaitIdle("install")
}

// With the permission id-token: write the runner gives the job tokens, and no secret is needed. The
// endpoint of the runner is one that speaks as GitHub documents it.
func TestActionIdentity(t *testing.T) {
	t.Parallel()
	github := newIssuer(t)
	s, files := secureServer(t, "--pool", "install=1", "--pool", "other=1",
		"--auth", github.auth(t, `{claims: {repository_owner_id: "65", ref: refs/heads/main}, name: "{repository}", pools: [install]}`))
	inputs := map[string]string{"type": "install", "proxy": s.url, "token-from": "github", "ca": files.ca}
	runner := func() *runner {
		r := newRunner(t, inputs)
		r.env = append(r.env, "ACTIONS_ID_TOKEN_REQUEST_URL="+github.URL+"/runner?api-version=2.0", "ACTIONS_ID_TOKEN_REQUEST_TOKEN="+runnerSecret)
		return r
	}
	r := runner()
	printed := r.main(0)
	if _, pools := s.get("/pools"); !strings.Contains(pools, `"token":"acme/app"`) {
		t.Errorf("the caller is not the repository:\n%s", pools)
	}
	if printed += r.post(); strings.Contains(printed, "eyJ") || strings.Contains(printed, runnerSecret) {
		t.Errorf("the token is in the log:\n%s", printed)
	}
	s.awaitIdle("install")
	who := runner()
	if out := who.start([]string{"LEASE_PROXY_SERVER_URL=" + s.url, "LEASECTL_CA=" + files.ca}, *program, "whoami", "--token-from", "github").exits(0); !strings.Contains(out, "name      acme/app") {
		t.Error(out)
	}
	inputs["type"] = "other"
	if out := runner().main(1); !strings.Contains(out, `acme/app may not use pool "other", but install`) {
		t.Error(out)
	}
	inputs["type"] = "install"
	if out := newRunner(t, inputs).main(1); !strings.Contains(out, "id-token: write") {
		t.Errorf("without the permission:\n%s", out)
	}
}

// A proxy that is away costs the job nothing but a warning, and the lease its TTL.
func TestActionWithoutServerAtTheEnd(t *testing.T) {
	t.Parallel()
	s := serve(t, "--pool", "install=1")
	r := newRunner(t, map[string]string{"type": "install", "proxy": s.url})
	r.env = append(r.env, "LEASECTL_WAIT_TIMEOUT=1s")
	r.main(0)
	s.stop()
	if out := r.post(); !strings.Contains(out, "::warning::The lease was not given back") {
		t.Error(out)
	}
}
