package test

import (
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"syscall"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// prowRef is the reference of a step, with the fields that ci-operator knows.
type prowRef struct {
	Ref struct {
		As           string                      `json:"as"`
		From         string                      `json:"from"`
		Commands     string                      `json:"commands"`
		Timeout      metav1.Duration             `json:"timeout"`
		GracePeriod  metav1.Duration             `json:"grace_period"`
		Resources    corev1.ResourceRequirements `json:"resources"`
		Env          []prowParameter             `json:"env"`
		Credentials  []prowCredential            `json:"credentials"`
		RunAsScript  bool                        `json:"run_as_script"`
		BestEffort   bool                        `json:"best_effort"`
		Cli          string                      `json:"cli"`
		Dependencies []struct {
			Name string `json:"name"`
			Env  string `json:"env"`
		} `json:"dependencies"`
		Documentation string `json:"documentation"`
	} `json:"ref"`
}

type prowParameter struct {
	Name          string  `json:"name"`
	Default       *string `json:"default"`
	Documentation string  `json:"documentation"`
}

type prowCredential struct {
	Namespace string `json:"namespace"`
	Name      string `json:"name"`
	MountPath string `json:"mount_path"`
}

// prowConfig is what we use of the configuration of ci-operator.
type prowConfig struct {
	BaseImages map[string]struct {
		Namespace string `json:"namespace"`
		Name      string `json:"name"`
		Tag       string `json:"tag"`
	} `json:"base_images"`
	Images []struct {
		From              string `json:"from"`
		To                string `json:"to"`
		DockerfileLiteral string `json:"dockerfile_literal"`
		Inputs            map[string]struct {
			As []string `json:"as"`
		} `json:"inputs"`
	} `json:"images"`
	Tests []struct {
		As    string `json:"as"`
		Steps struct {
			Env  map[string]string `json:"env"`
			Test []struct {
				Ref string `json:"ref"`
			} `json:"test"`
		} `json:"steps"`
	} `json:"tests"`
}

// ofProw are variables that ci-operator sets for every step.
var ofProw = []string{"ARTIFACT_DIR", "SHARED_DIR", "CLUSTER_PROFILE_DIR", "JOB_NAME", "BUILD_ID", "PROW_JOB_ID"}

func TestProwReference(t *testing.T) {
	var ref prowRef
	decode(t, read(t, "prow/lease-install-ref.yaml"), &ref)
	r := ref.Ref
	script := read(t, "prow/"+r.Commands)
	if r.Commands != r.As+"-commands.sh" {
		t.Errorf("the registry wants the commands of %s in %[1]s-commands.sh, not %s", r.As, r.Commands)
	}
	declared := slices.Clone(ofProw)
	defaults := make(map[string]string)
	for _, p := range r.Env {
		declared = append(declared, p.Name)
		if p.Default == nil || p.Documentation == "" {
			t.Errorf("%s has no default or no documentation", p.Name)
			continue
		}
		defaults[p.Name] = *p.Default
		if strings.HasPrefix(p.Name, "LEASECTL_") && !slices.Contains(leasectlVariables(t), p.Name) {
			t.Errorf("leasectl knows no %s", p.Name)
		}
	}
	for _, m := range regexp.MustCompile(`\$\{?([A-Z_]+)`).FindAllStringSubmatch(script, -1) {
		if !slices.Contains(declared, m[1]) {
			t.Errorf("the commands use $%s, which nobody sets", m[1])
		}
	}
	for _, name := range []string{"LEASECTL_TOKEN_FILE", "LEASECTL_CA"} {
		if filepath.Dir(defaults[name]) != r.Credentials[0].MountPath {
			t.Errorf("%s is %s, and the Secret is in %s", name, defaults[name], r.Credentials[0].MountPath)
		}
	}
	// Between INT and KILL leasectl stops the installer, and gives back.
	if least := flagDefault(t, "exec", "grace-period") + 20*time.Second; r.GracePeriod.Duration < least {
		t.Errorf("grace_period %v is less than %v", r.GracePeriod.Duration, least)
	}
	const installation = time.Hour
	if least := flagDefault(t, "exec", "wait-timeout") + installation; r.Timeout.Duration < least {
		t.Errorf("timeout %v is less than %v: the queue, and an installation", r.Timeout.Duration, least)
	}
}

// The image of the step is made, and has the program where the step looks.
func TestProwImages(t *testing.T) {
	var ref prowRef
	decode(t, read(t, "prow/lease-install-ref.yaml"), &ref)
	var config prowConfig
	decode(t, read(t, "prow/ci-operator-config.yaml"), &config)
	if config.Tests[0].Steps.Test[0].Ref != ref.Ref.As {
		t.Errorf("the test uses %q, not %s", config.Tests[0].Steps.Test[0].Ref, ref.Ref.As)
	}
	for name := range config.Tests[0].Steps.Env {
		if !slices.ContainsFunc(ref.Ref.Env, func(p prowParameter) bool { return p.Name == name }) {
			t.Errorf("the test sets %s, which is no parameter of the step", name)
		}
	}
	image := config.Images[0]
	if image.To != ref.Ref.From {
		t.Errorf("the step runs in %s, and %s is made", ref.Ref.From, image.To)
	}
	if _, ok := config.BaseImages[image.From]; !ok {
		t.Errorf("%s is no base image", image.From)
	}
	copied := regexp.MustCompile(`(?m)^COPY --from=(\S+) (\S+) /usr/bin/leasectl$`).FindStringSubmatch(image.DockerfileLiteral)
	if copied == nil {
		t.Fatalf("no program is copied to /usr/bin:\n%s", image.DockerfileLiteral)
	}
	if _, ok := config.BaseImages["leasectl"]; !ok || !slices.Contains(image.Inputs["leasectl"].As, copied[1]) {
		t.Errorf("%s stands for no input: %v", copied[1], image.Inputs)
	}
	if !strings.Contains(read(t, "../scripts/dist/Containerfile"), "COPY leasectl "+copied[2]+"\n") {
		t.Errorf("the image of leasectl has no %s", copied[2])
	}
}

// prowJob is a pod of the step, with an installer that is the given script.
func prowJob(t *testing.T, installer string, env ...string) *job {
	t.Helper()
	var ref prowRef
	decode(t, read(t, "prow/lease-install-ref.yaml"), &ref)
	j := newJob(t)
	for _, p := range ref.Ref.Env {
		if !strings.HasPrefix(*p.Default, ref.Ref.Credentials[0].MountPath) { // this server asks for nothing
			j.env = append(j.env, p.Name+"="+*p.Default)
		}
	}
	j.env = append(j.env, "ARTIFACT_DIR="+j.dir, "JOB_NAME=periodic-install", "BUILD_ID=17", "PROW_JOB_ID=3b1")
	j.env = append(j.env, env...)
	j.command("bin/openshift-install", installer)
	write(t, filepath.Join(j.dir, "commands.sh"), read(t, "prow/lease-install-commands.sh"))
	return j
}

func TestProwCommands(t *testing.T) {
	t.Parallel()
	s := serve(t, "--pool", "install=2")
	const writesLog = `
		test "$1 $2 $3" = "create cluster --dir"
		mkdir -p "$4"
		echo 'level=error msg="RequestLimitExceeded"' >>"$4/.openshift_install.log"
		leasectl status --type install >"$ARTIFACT_DIR/seen"`
	t.Run("installs under a lease", func(t *testing.T) {
		j := prowJob(t, writesLog, "LEASE_PROXY_SERVER_URL="+s.url)
		j.start(nil, "bash", "commands.sh").exits(0)
		if seen, _ := os.ReadFile(filepath.Join(j.dir, "seen")); !strings.Contains(string(seen), "periodic-install/17/3b1") {
			t.Errorf("while it installed, the server had\n%s", seen)
		}
		if n := s.metric(`leasectl_reports_total{type="install",outcome="throttled"}`); n != 1 {
			t.Errorf("%v reports of throttling", n)
		}
		s.awaitIdle("install")
	})
	t.Run("gives the lease back while it installs", func(t *testing.T) {
		j := prowJob(t, `until test -e go; do sleep 0.02; done`, "LEASE_PROXY_SERVER_URL="+s.url, "LEASE_HOLD=1s")
		before := s.granted("install")
		step := j.start(nil, "bash", "commands.sh")
		await(t, "a lease is granted", func() bool { return s.granted("install") > before })
		s.awaitIdle("install")
		write(t, filepath.Join(j.dir, "go"), "")
		step.exits(0)
	})
	t.Run("the installer fails", func(t *testing.T) {
		j := prowJob(t, `exit 4`, "LEASE_PROXY_SERVER_URL="+s.url)
		j.start(nil, "bash", "commands.sh").exits(4)
		s.awaitIdle("install")
	})
	for _, sig := range []syscall.Signal{syscall.SIGINT, syscall.SIGTERM} {
		t.Run("stopped by "+sig.String(), func(t *testing.T) {
			j := prowJob(t, `touch begun; exec sleep 100`, "LEASE_PROXY_SERVER_URL="+s.url)
			step := j.start(nil, "bash", "commands.sh")
			await(t, "the installer begins", func() bool { _, err := os.Stat(filepath.Join(j.dir, "begun")); return err == nil })
			step.Process.Signal(sig)
			step.exits(128 + int(sig))
			s.awaitIdle("install")
		})
	}
	for what, env := range map[string]string{"no proxy": "LEASE_PROXY_SERVER_URL=", "no such pool": "LEASE_TYPE=other"} {
		t.Run("installs with "+what, func(t *testing.T) {
			j := prowJob(t, `echo installed`, "LEASE_PROXY_SERVER_URL="+s.url, env)
			if out := j.start(nil, "bash", "commands.sh").exits(0); !strings.Contains(out, "installed\n") {
				t.Error(out)
			}
		})
	}
}
