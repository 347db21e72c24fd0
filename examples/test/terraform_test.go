package test

import (
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"maps"
	"math/rand/v2"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/leasectl/leasectl/internal/testprogram"
)

// terraformVersion is the last version under the MPL.
const terraformVersion = "v1.5.7"

// recipe returns a file of the recipe with terraform in docs/recipes.md.
func recipe(t *testing.T, file string) string {
	t.Helper()
	_, section, _ := strings.Cut(read(t, "../docs/recipes.md"), "\n## One provider process for many terraform runs\n")
	section, _, _ = strings.Cut(section, "\n## ")
	_, text, found := strings.Cut(section, "\n```bash file="+file+"\n")
	if !found {
		t.Fatalf("docs/recipes.md has no recipe with %s", file)
	}
	text, _, _ = strings.Cut(text, "\n```\n")
	return text + "\n"
}

// terraform is the machine of jobs that run Terraform as the recipe says, with the real one, and a
// provider that says who it is.
type terraform struct {
	*job
	server *server
	starts string // path of a file with a line for each start of the provider: process id, generation of its lease
}

// newTerraform starts a proxy with leases for providers. Where Terraform or the provider cannot be
// built, it skips the test, or fails it if CI is true.
func newTerraform(t *testing.T, leases int) *terraform {
	t.Helper()
	program, err := testprogram.FromModule("github.com/hashicorp/terraform", terraformVersion)
	provider := ""
	if err == nil {
		provider, err = testprogram.FromTree("terraform-provider-toy", "examples/test/provider", "github.com/hashicorp/terraform-plugin-framework")
	}
	if err != nil && os.Getenv("CI") == "true" {
		t.Fatal(err)
	} else if err != nil {
		t.Log(err)
		t.Skip("Terraform, or a provider for it, cannot be built")
	}
	s := serve(t, "--pool", fmt.Sprintf("provider=%d", leases))
	tf := &terraform{job: newJob(t), server: s}
	tf.starts = filepath.Join(tf.dir, "starts")
	tmp := filepath.Join(tf.dir, "tmp") // for the socket that a provider leaves after a KILL
	if err := os.Mkdir(tmp, 0o700); err != nil {
		t.Fatal(err)
	}
	tf.command("terraform", `echo "$$ $LEASECTL_GENERATION" >>"${1#-chdir=}/runs"; exec '`+program+`' "$@"`)
	tf.env = append(tf.env, "LEASE_PROXY_SERVER_URL="+s.url, "CHECKPOINT_DISABLE=1", "TMPDIR="+tmp,
		"TOY_STARTS="+tf.starts, "PROVIDER='"+provider+"' -debug", "TERRAFORM="+filepath.Join(tf.dir, "terraform"))
	return tf
}

// workspace is a directory with a configuration of Terraform.
type workspace struct{ dir, name, region string }

func (tf *terraform) newWorkspace(name, region string) workspace {
	tf.t.Helper()
	w := workspace{filepath.Join(tf.dir, name), name, region}
	if err := os.Mkdir(w.dir, 0o700); err != nil {
		tf.t.Fatal(err)
	}
	write(tf.t, filepath.Join(w.dir, "main.tf"), `
terraform {
  required_providers {
    toy = { source = "leasectl/toy" }
  }
}
variable "region" {}
provider "toy" { region = var.region }
resource "toy_thing" "it" { name = "`+name+`" }
`)
	return w
}

// run runs a script of the recipe in a workspace. If kill is not zero, it KILLs the script and leasectl
// after that time.
func (tf *terraform) run(w workspace, script string, kill time.Duration) (killed bool, err error) {
	cmd := exec.Command("bash", script, w.dir)
	cmd.Dir, cmd.Env = tf.dir, append(tf.env[:len(tf.env):len(tf.env)], "TF_VAR_region="+w.region)
	cmd.SysProcAttr = &syscall.SysProcAttr{Setpgid: true}
	out := new(logText)
	cmd.Stdout, cmd.Stderr = out, out
	if err := cmd.Start(); err != nil {
		return false, err
	}
	after := patience
	if kill > 0 {
		after = kill
	}
	defer time.AfterFunc(after, func() { syscall.Kill(-cmd.Process.Pid, syscall.SIGKILL) }).Stop()
	if err = cmd.Wait(); err == nil {
		return false, nil
	}
	if status, ok := cmd.ProcessState.Sys().(syscall.WaitStatus); ok && status.Signaled() && kill > 0 {
		return true, nil
	}
	return false, fmt.Errorf("%s in %s: %w\n%s", script, w.name, err, out)
}

// process is a line that a process has written when it began.
type process struct {
	id         int
	generation string // of its lease
}

func (p process) alive() bool { return syscall.Kill(p.id, 0) == nil }

// processes returns those of a file, none if it is missing.
func processes(path string) (all []process, err error) {
	text, err := os.ReadFile(path)
	if errors.Is(err, fs.ErrNotExist) {
		return nil, nil
	}
	for line := range strings.Lines(string(text)) {
		id, generation, _ := strings.Cut(strings.TrimSpace(line), " ")
		n, err := strconv.Atoi(id)
		if err != nil {
			return nil, err
		}
		all = append(all, process{n, generation})
	}
	return all, err
}

// runs returns the processes of Terraform that began in a workspace.
func (w workspace) runs() ([]process, error) { return processes(filepath.Join(w.dir, "runs")) }

// clear removes what a killed run of Terraform has left, which may be half a state, once that process
// has ended.
func (w workspace) clear() error {
	all, err := w.runs()
	if err != nil {
		return err
	}
	for end := time.Now().Add(patience); slices.ContainsFunc(all, process.alive); time.Sleep(time.Millisecond) {
		if time.Now().After(end) {
			return fmt.Errorf("Terraform in %s outlives leasectl", w.name)
		}
	}
	left, err := filepath.Glob(filepath.Join(w.dir, "*terraform.tfstate*"))
	for _, path := range left {
		err = errors.Join(err, os.Remove(path))
	}
	return err
}

// thing is the resource in the state of a workspace, as the provider made it.
type thing struct {
	Name, Region string
	Process      int // of the provider
	Generation   string
}

func (w workspace) thing() (thing, error) {
	text, err := os.ReadFile(filepath.Join(w.dir, "terraform.tfstate"))
	if err != nil {
		return thing{}, err
	}
	var state struct {
		Resources []struct{ Instances []struct{ Attributes thing } }
	}
	if err := json.Unmarshal(text, &state); err != nil {
		return thing{}, err
	}
	if len(state.Resources) != 1 || len(state.Resources[0].Instances) != 1 {
		return thing{}, fmt.Errorf("the state of %s has not one resource: %s", w.name, text)
	}
	return state.Resources[0].Instances[0].Attributes, nil
}

// check compares the resource of a workspace with the last run there: the provider that made it has the
// configuration of the workspace, and is that of the run's lease.
func (w workspace) check(providers map[string]int) error {
	got, err := w.thing()
	if err != nil {
		return err
	}
	all, err := w.runs()
	if err != nil {
		return err
	}
	if len(all) == 0 {
		return fmt.Errorf("no run in %s", w.name)
	}
	last := all[len(all)-1].generation
	if want := (thing{w.name, w.region, providers[last], last}); got != want {
		return fmt.Errorf("the provider of %+v has made %+v", want, got)
	}
	return nil
}

// providers returns the process of each generation's provider. No generation has two.
func (tf *terraform) providers() map[string]int {
	tf.t.Helper()
	all, err := processes(tf.starts)
	if err != nil {
		tf.t.Fatal(err)
	}
	providers := make(map[string]int)
	for _, p := range all {
		if providers[p.generation] != 0 {
			tf.t.Errorf("the lease with generation %s has had two providers", p.generation)
		}
		providers[p.generation] = p.id
	}
	return providers
}

// awaitEnd returns when no provider and no lease is left, and nothing of them in the state directory.
func (tf *terraform) awaitEnd(providers map[string]int) {
	tf.t.Helper()
	await(tf.t, "the providers end", func() bool {
		return !slices.ContainsFunc(slices.Collect(maps.Values(providers)), func(id int) bool { return process{id: id}.alive() })
	})
	tf.server.awaitIdle("provider")
	await(tf.t, "the records of the shared leases go", func() bool {
		left, err := filepath.Glob(filepath.Join(tf.dir, "state/shared/*"))
		return err == nil && len(left) == 0
	})
}

const (
	regions       = 7  // configurations of the provider: each has a process of its own
	applies       = 30 // in each region, each of another workspace
	applyUses     = 10 // of a provider process, which may have a tenth more
	appliesAtOnce = 14
)

// Runs of Terraform share one provider process for each configuration, which is replaced after ten
// uses: as many processes are started as leases are taken, and each is used only by runs of its own
// lease, at most eleven times. In the end none is left. So it is if a tenth of the runs are KILLed, and
// made again.
func TestTerraform(t *testing.T) {
	for _, tt := range []struct {
		name    string
		killOne int // in so many runs; 0: none
	}{{"undisturbed", 0}, {"killed", 10}} {
		t.Run(tt.name, func(t *testing.T) {
			// Each region may have a round that is used up, and one that has begun.
			tf := newTerraform(t, 2*regions)
			script := strings.Replace(recipe(t, "apply.sh"), "--max-uses 100 ", fmt.Sprintf("--max-uses %d ", applyUses), 1)
			write(t, filepath.Join(tf.dir, "apply.sh"), script)
			var todo []workspace
			for i := range regions * applies {
				todo = append(todo, tf.newWorkspace(fmt.Sprintf("w%d", i), fmt.Sprintf("region-%d", i%regions)))
			}
			kills := make([]time.Duration, len(todo))
			for i := range kills {
				if tt.killOne > 0 && i%tt.killOne == 0 {
					kills[i] = 1 + rand.N(400*time.Millisecond)
				}
			}
			rand.Shuffle(len(todo), func(i, j int) { todo[i], todo[j] = todo[j], todo[i] })

			var killed int
			var mu sync.Mutex
			var group sync.WaitGroup
			begun := time.Now()
			atOnce := make(chan struct{}, appliesAtOnce)
			for i, w := range todo {
				atOnce <- struct{}{}
				group.Go(func() {
					defer func() { <-atOnce }()
					died, err := tf.run(w, "apply.sh", kills[i])
					if err == nil && died {
						mu.Lock()
						killed++
						mu.Unlock()
						if err = w.clear(); err == nil {
							_, err = tf.run(w, "apply.sh", 0)
						}
					}
					if err != nil {
						t.Error(err)
					}
				})
			}
			group.Wait()
			took := time.Since(begun)

			providers := tf.providers()
			uses := make(map[string]int)
			for _, w := range todo {
				if err := w.check(providers); err != nil {
					t.Error(err)
				}
				all, err := w.runs()
				if err != nil {
					t.Error(err)
				}
				for _, p := range all {
					uses[p.generation]++
				}
			}
			most := slices.Max(slices.Collect(maps.Values(uses)))
			rounds := tf.server.granted("provider")
			t.Logf("%d applies, %d of them KILLed and made again, in %v: %d rounds, %d providers, each used at most %d times",
				len(todo), killed, took.Round(time.Second), rounds, len(providers), most)
			if most > applyUses+applyUses/10 {
				t.Errorf("a provider was used %d times", most)
			}
			// A first user that is KILLed before it has started the provider leaves a round without one.
			if rounds < len(providers) || rounds > len(providers)+killed {
				t.Errorf("%d rounds had %d providers", rounds, len(providers))
			}
			if most := regions*applies/applyUses + killed; len(providers) > most {
				t.Errorf("%d providers were started, want at most %d", len(providers), most)
			}
			for i := range regions { // a use of the lease without its provider ends a round that lingers
				tf.start(nil, filepath.Join(tf.dir, "bin", "leasectl"), "exec", "--type", "provider", "--shared", fmt.Sprintf("toy-region-%d", i), "--", "true").exits(0)
			}
			tf.awaitEnd(providers)
		})
	}
}

// The runs of one reconciliation have a provider process of their own, which ends with them.
func TestTerraformWorkspace(t *testing.T) {
	tf := newTerraform(t, 2)
	write(t, filepath.Join(tf.dir, "reconcile.sh"), recipe(t, "reconcile.sh"))
	var group sync.WaitGroup
	workspaces := []workspace{tf.newWorkspace("net", "eu"), tf.newWorkspace("dns", "eu")}
	for _, w := range workspaces {
		group.Go(func() {
			if _, err := tf.run(w, "reconcile.sh", 0); err != nil {
				t.Error(err)
			}
		})
	}
	group.Wait()
	providers := tf.providers()
	if len(providers) != 2 {
		t.Errorf("%d providers for two reconciliations", len(providers))
	}
	for _, w := range workspaces {
		if err := w.check(providers); err != nil {
			t.Error(err)
		}
		if all, err := w.runs(); err != nil || len(all) != 2 || all[0].generation != all[1].generation {
			t.Errorf("runs %v, %v: want two of one lease", all, err)
		}
	}
	tf.awaitEnd(providers)
}
