package test

import (
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"

	batchv1 "k8s.io/api/batch/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// tektonTask is a Task of tekton.dev/v1, with the fields that ours has.
type tektonTask struct {
	metav1.TypeMeta   `json:",inline"`
	metav1.ObjectMeta `json:"metadata"`
	Spec              struct {
		Params []struct {
			Name        string `json:"name"`
			Type        string `json:"type"`
			Default     string `json:"default"`
			Description string `json:"description"`
		} `json:"params"`
		Volumes []corev1.Volume `json:"volumes"`
		Steps   []tektonStep    `json:"steps"`
	} `json:"spec"`
}

type tektonStep struct {
	Name         string               `json:"name"`
	Image        string               `json:"image"`
	Command      []string             `json:"command"`
	Args         []string             `json:"args"`
	Env          []corev1.EnvVar      `json:"env"`
	VolumeMounts []corev1.VolumeMount `json:"volumeMounts"`
	Script       string               `json:"script"`
}

// pod is the machine of a pod: each of its volumes is a directory of the job's.
type pod struct {
	*job
	mounts map[string]string // where a path of the pod is

	clusterCA string // authorities of the cluster, in PEM
}

// newPod makes the volumes of a pod. The Secret of the client has what files says.
func newPod(t *testing.T, volumes []corev1.Volume, files secrets) *pod {
	t.Helper()
	p := &pod{job: newJob(t), mounts: make(map[string]string)}
	for _, v := range volumes {
		dir := filepath.Join(p.dir, v.Name)
		if err := os.Mkdir(dir, 0o777); err != nil {
			t.Fatal(err)
		}
		if v.Projected != nil {
			p.project(dir, v.Projected)
		}
		if v.Secret != nil || v.ConfigMap != nil {
			write(t, filepath.Join(dir, "token"), jobToken+"\n")
			ca, err := os.ReadFile(files.ca)
			if err != nil {
				t.Fatal(err)
			}
			write(t, filepath.Join(dir, "ca.crt"), string(ca))
		}
	}
	return p
}

// project writes what the kubelet puts into a projected volume: here tokens that nobody signed, and
// the authority of the cluster.
func (p *pod) project(dir string, of *corev1.ProjectedVolumeSource) {
	p.t.Helper()
	for _, source := range of.Sources {
		switch {
		case source.ServiceAccountToken != nil:
			write(p.t, filepath.Join(dir, source.ServiceAccountToken.Path), "of-a-service-account")
		case source.ConfigMap != nil && source.ConfigMap.Name == "kube-root-ca.crt":
			for _, item := range source.ConfigMap.Items {
				write(p.t, filepath.Join(dir, item.Path), p.clusterCA)
			}
		default:
			p.t.Errorf("a projection of another kind: %+v", source)
		}
	}
}

// mount makes paths of the pod those of the volumes.
func (p *pod) mount(mounts []corev1.VolumeMount) {
	p.t.Helper()
	p.mounts = make(map[string]string)
	for _, m := range mounts {
		dir := filepath.Join(p.dir, m.Name)
		if _, err := os.Stat(dir); err != nil {
			p.t.Fatalf("%s is mounted, and no volume: %v", m.Name, err)
		}
		p.mounts[m.MountPath] = dir
	}
}

// inPod is a word of the manifest as the container sees it: values stand for $(NAME), and a
// path, of its own or after --FLAG=, is where its volume is.
func (p *pod) inPod(text string, values map[string]string) string {
	p.t.Helper()
	for name, value := range values {
		text = strings.ReplaceAll(text, "$("+name+")", value)
	}
	if strings.Contains(text, "$(") {
		p.t.Fatalf("nobody sets what stands in %s", text)
	}
	flag, path, ok := strings.Cut(text, "=")
	if !ok {
		flag, path = "", text
	} else {
		flag += "="
	}
	for mount, dir := range p.mounts {
		if rest, ok := strings.CutPrefix(path, mount); ok && (rest == "" || rest[0] == '/') {
			return flag + dir + rest
		}
	}
	return text
}

// words does the same for each of a list.
func (p *pod) words(list []string, values map[string]string) (words []string) {
	for _, w := range list {
		words = append(words, p.inPod(w, values))
	}
	return words
}

// variables does the same for the environment of a container. values grows by what it sets.
func (p *pod) variables(env []corev1.EnvVar, values map[string]string) (list []string) {
	p.t.Helper()
	for _, e := range env {
		value := values["field "+e.Name]
		if e.ValueFrom == nil {
			value = p.inPod(e.Value, values)
		}
		values[e.Name] = value
		list = append(list, e.Name+"="+value)
	}
	return list
}

// run runs a container to its end.
func (p *pod) run(command, env []string) string {
	p.t.Helper()
	return p.start(env, command...).exits(0)
}

// installsItself runs the container that brings the program, as the image without a shell does.
func (p *pod) installsItself(command []string) {
	p.t.Helper()
	if command[0] != "/leasectl" { // what the image's entry point is
		p.t.Fatalf("the image has nothing but /leasectl: %q", command)
	}
	p.run(append([]string{*program}, p.words(command[1:], nil)...), nil)
}

func TestTekton(t *testing.T) {
	t.Parallel()
	var task tektonTask
	decode(t, read(t, "tekton/task.yaml"), &task)
	if task.APIVersion != "tekton.dev/v1" || task.Kind != "Task" {
		t.Error(task.TypeMeta)
	}
	tools, install := task.Spec.Steps[0], task.Spec.Steps[1]
	if strings.Contains(install.Script, "$(") {
		t.Errorf("the value of a parameter is part of the script:\n%s", install.Script)
	}
	s, files := secureServer(t, "--pool", "install=1")
	for what, tt := range map[string]struct {
		params map[string]string
		grants int
	}{
		"with a proxy":    {map[string]string{"params.proxy": s.url}, 1},
		"without a proxy": {nil, 0},
	} {
		t.Run(what, func(t *testing.T) {
			values := map[string]string{"context.taskRun.namespace": "ci", "context.taskRun.name": "install-x7"}
			for _, p := range task.Spec.Params {
				values["params."+p.Name] = p.Default
			}
			for name, value := range tt.params {
				if _, ok := values[name]; !ok {
					t.Errorf("the task has no %s", name)
				}
				values[name] = value
			}
			p := newPod(t, task.Spec.Volumes, files)
			p.command("install.sh", `echo "installs under $LEASED_RESOURCE"`)
			p.mount(tools.VolumeMounts)
			p.installsItself(tools.Command)
			p.mount(install.VolumeMounts)
			script := write(t, filepath.Join(p.dir, "script"), strings.ReplaceAll(install.Script, "/tools/", p.mounts["/tools"]+"/"))
			before := s.granted("install")
			out := p.run([]string{"sh", script}, p.variables(install.Env, values))
			if s.granted("install")-before != tt.grants || !strings.Contains(out, "installs under") {
				t.Errorf("%d grants\n%s", s.granted("install")-before, out)
			}
			if tt.grants > 0 && !strings.Contains(s.log.String(), "owner=ci/install-x7") {
				t.Errorf("the owner is not the run of the task:\n%s", s.log)
			}
		})
	}
}

// serviceAccountToken does what the kubelet does for the volumes of a pod of namespace ci: it puts
// tokens into them, or others in their place.
func (p *pod) serviceAccountToken(cluster *issuer, volumes []corev1.Volume) {
	p.t.Helper()
	for _, v := range volumes {
		if v.Projected == nil {
			continue
		}
		for _, source := range v.Projected.Sources {
			if account := source.ServiceAccountToken; account != nil {
				path := filepath.Join(p.dir, v.Name, account.Path)
				write(p.t, path+".new", cluster.sign(account.Audience, map[string]any{"sub": "system:serviceaccount:ci:default"}))
				if err := os.Rename(path+".new", path); err != nil {
					p.t.Fatal(err)
				}
			}
		}
	}
}

func TestKubernetesJob(t *testing.T) {
	t.Parallel()
	var j batchv1.Job
	decode(t, read(t, "kubernetes/job.yaml"), &j)
	spec := j.Spec.Template.Spec
	tools, install := spec.InitContainers[0], spec.Containers[0]
	cluster := newIssuer(t)
	s, files := secureServer(t, "--pool", "install=1", "--auth", cluster.auth(t, `{claims: {sub: "system:serviceaccount:ci:*"}, name: "{sub}", pools: [install]}`))
	if least := flagDefault(t, "exec", "grace-period") + 20*time.Second; time.Duration(*spec.TerminationGracePeriodSeconds)*time.Second < least {
		t.Errorf("a grace period of less than %v", least)
	}
	p := newPod(t, spec.Volumes, files)
	p.serviceAccountToken(cluster, spec.Volumes)
	p.mount(tools.VolumeMounts)
	p.installsItself(append([]string{"/leasectl"}, tools.Args...))
	p.mount(install.VolumeMounts)
	values := map[string]string{"field POD": "install-x7", "field NAMESPACE": "ci"}
	env := append(p.variables(install.Env, values), "LEASE_PROXY_SERVER_URL="+s.url) // not the Service's name
	p.command("install.sh", `touch begun; exec sleep 100`)
	container := p.start(env, p.words(install.Command, values)...)
	await(t, "it installs", func() bool { _, err := os.Stat(filepath.Join(p.dir, "begun")); return err == nil })
	if _, pools := s.get("/pools"); !strings.Contains(pools, `"ci/install-x7"`) {
		t.Errorf("the owner is not the pod:\n%s", pools)
	}
	if _, pools := s.get("/pools"); !strings.Contains(pools, `"token":"system:serviceaccount:ci:default"`) {
		t.Errorf("the caller is not the service account:\n%s", pools)
	}
	p.serviceAccountToken(cluster, spec.Volumes) // as the kubelet replaces it
	container.Process.Signal(syscall.SIGTERM)    // as when the pod is deleted
	container.exits(128 + int(syscall.SIGTERM))
	s.awaitIdle("install")
	if s.granted("install") != 1 {
		t.Errorf("%d grants", s.granted("install"))
	}
}
