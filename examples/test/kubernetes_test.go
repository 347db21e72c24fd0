package test

import (
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"reflect"
	"regexp"
	"slices"
	"strings"
	"syscall"
	"testing"
	"time"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// manifests are the objects of a file that runs the server.
type manifests struct {
	pools    corev1.ConfigMap
	service  corev1.Service
	stateful appsv1.StatefulSet
	deployed appsv1.Deployment
}

func readManifests(t *testing.T, path string) manifests {
	t.Helper()
	return parseManifests(t, read(t, path))
}

func parseManifests(t *testing.T, all string) (m manifests) {
	t.Helper()
	for _, text := range documents(all) {
		var kind metav1.TypeMeta
		decodeLoosely(t, text, &kind)
		switch kind.APIVersion + " " + kind.Kind {
		case "v1 ConfigMap":
			decode(t, text, &m.pools)
		case "v1 Service":
			decode(t, text, &m.service)
		case "apps/v1 StatefulSet":
			decode(t, text, &m.stateful)
		case "apps/v1 Deployment":
			decode(t, text, &m.deployed)
		default:
			t.Errorf("%s is not expected", kind)
		}
	}
	return m
}

// template returns the template of the pods, which the Service and the controller must select.
func (m *manifests) template(t *testing.T) corev1.PodTemplateSpec {
	t.Helper()
	template, selector := m.stateful.Spec.Template, m.stateful.Spec.Selector
	if m.deployed.Kind != "" {
		template, selector = m.deployed.Spec.Template, m.deployed.Spec.Selector
	}
	if !reflect.DeepEqual(selector.MatchLabels, template.Labels) || !reflect.DeepEqual(m.service.Spec.Selector, template.Labels) {
		t.Errorf("labels %v, selectors %v and %v", template.Labels, selector.MatchLabels, m.service.Spec.Selector)
	}
	return template
}

// Pods run as nobody in particular, with nothing that they do not need, and the Service and the
// probes name a port that the container has.
func TestKubernetesPods(t *testing.T) {
	for _, path := range []string{"kubernetes/one.yaml", "kubernetes/three-etcd.yaml", "kubernetes/three-postgres.yaml"} {
		t.Run(path, func(t *testing.T) {
			m := readManifests(t, path)
			spec := m.template(t).Spec
			pod, c := spec.SecurityContext, spec.Containers[0]
			if !*pod.RunAsNonRoot || *pod.RunAsUser == 0 || *pod.FSGroup == 0 || pod.SeccompProfile.Type != corev1.SeccompProfileTypeRuntimeDefault ||
				*spec.AutomountServiceAccountToken || *spec.EnableServiceLinks {
				t.Errorf("the pod may do more than it needs: %+v", pod)
			}
			if s := c.SecurityContext; *s.AllowPrivilegeEscalation || !*s.ReadOnlyRootFilesystem || !slices.Equal(s.Capabilities.Drop, []corev1.Capability{"ALL"}) {
				t.Errorf("the container may do more than it needs: %+v", s)
			}
			if c.Resources.Requests.Memory().IsZero() || c.Resources.Requests.Cpu().IsZero() || c.Resources.Limits.Memory().IsZero() {
				t.Errorf("resources: %+v", c.Resources)
			}
			if *spec.TerminationGracePeriodSeconds < 20 {
				t.Error("the server has no time to stop")
			}
			port := c.Ports[0]
			for what, probe := range map[string]*corev1.Probe{"/healthz": c.LivenessProbe, "/readyz": c.ReadinessProbe} {
				if get := probe.HTTPGet; get.Path != what || get.Port.StrVal != port.Name || get.Scheme != corev1.URISchemeHTTPS {
					t.Errorf("probe: %+v", get)
				}
			}
			if s := m.service.Spec.Ports[0]; s.TargetPort.StrVal != port.Name || port.ContainerPort != 8370 {
				t.Errorf("the Service sends to %v, and the container has %+v", s.TargetPort, port)
			}
			for _, v := range spec.Volumes {
				if v.Secret != nil && *v.Secret.DefaultMode != 0o440 {
					t.Errorf("%s can be read by others, or not by the group: %o", v.Name, *v.Secret.DefaultMode)
				}
			}
		})
	}
}

// A pod's machine has its volumes as directories, for the user and group of the pod.
type serverPod struct {
	*pod
	*machine
	container corev1.Container
	files     secrets
}

func newServerPod(t *testing.T, m manifests, files secrets) *serverPod {
	t.Helper()
	spec := m.template(t).Spec
	s := &serverPod{pod: &pod{job: newJob(t), mounts: make(map[string]string)}, machine: newMachine(t), container: spec.Containers[0], files: files}
	s.pod.dir = s.root
	for _, v := range spec.Volumes {
		dir := s.machine.dir(v.Name, 0o755)
		switch {
		case v.ConfigMap != nil:
			if v.ConfigMap.Name != m.pools.Name {
				t.Errorf("no ConfigMap %s", v.ConfigMap.Name)
			}
			for name, text := range m.pools.Data {
				write(t, filepath.Join(dir, name), text)
			}
		case v.Secret != nil:
			s.fill(dir, v.Secret.SecretName)
		case v.Projected != nil:
			text, err := os.ReadFile(files.ca)
			if err != nil {
				t.Fatal(err)
			}
			s.clusterCA = string(text)
			s.project(dir, v.Projected)
		default:
			t.Errorf("volume %s is of another kind", v.Name)
		}
		s.give(v.Name, 0, 0o755)
	}
	for _, claim := range m.stateful.Spec.VolumeClaimTemplates {
		if !slices.Equal(claim.Spec.AccessModes, []corev1.PersistentVolumeAccessMode{corev1.ReadWriteOnce}) {
			t.Errorf("the volume is for more than one machine: %v", claim.Spec.AccessModes)
		}
		s.machine.dir(claim.Name, 0o755)
		s.machine.dir(claim.Name+"/lost+found", 0o700) // as a new file system has it
		if os.Getuid() == 0 {
			os.Chown(filepath.Join(s.root, claim.Name), 0, nobody)
		}
		os.Chmod(filepath.Join(s.root, claim.Name), 0o2775) // what fsGroup does
	}
	s.mount(s.container.VolumeMounts)
	return s
}

// fill writes what the comment on top of the manifests puts into a Secret.
func (s *serverPod) fill(dir, secret string) {
	s.pod.t.Helper()
	from := map[string]map[string]string{
		"leasectl-tokens":   {"tokens": s.files.tokens},
		"leasectl-tls":      {"tls.crt": s.files.cert, "tls.key": s.files.key},
		"leasectl-etcd":     {"ca.crt": s.files.ca, "credentials": filepath.Join(filepath.Dir(s.files.ca), "credentials")},
		"leasectl-postgres": {"ca.crt": s.files.ca, "pgpass": filepath.Join(filepath.Dir(s.files.ca), "pgpass")},
	}[secret]
	if from == nil {
		s.pod.t.Fatalf("nobody makes the Secret %s", secret)
	}
	for name, path := range from {
		text, err := os.ReadFile(path)
		if err != nil {
			s.pod.t.Fatal(err)
		}
		write(s.pod.t, filepath.Join(dir, name), string(text))
	}
}

// start starts the container, at an address instead of the pod's. More replaces other names
// that only the cluster knows.
func (s *serverPod) start(ip string, port int, more ...string) *server {
	t := s.pod.t
	t.Helper()
	at := fmt.Sprintf("%s:%d", ip, port)
	values := map[string]string{"field POD_IP": ip}
	env := s.variables(s.container.Env, values)
	args := s.words(s.container.Args, values)
	replace := strings.NewReplacer(append([]string{"--listen=:8370", "--listen=" + at, ip + ":8370", at}, more...)...)
	for i := range args {
		args[i] = replace.Replace(args[i])
	}
	server := &server{t: t, token: readToken, client: s.files.httpClient(t)}
	cmd := exec.Command(s.program, args...)
	cmd.Env = env
	if os.Getuid() == 0 {
		cmd.SysProcAttr = &syscall.SysProcAttr{Credential: &syscall.Credential{Uid: 65532, Gid: 65532, Groups: []uint32{nobody}}}
	}
	server.start(cmd)
	return server
}

// client is a job that has the token and the authority.
func (s *serverPod) client(url string) *job {
	s.pod.t.Helper()
	j := newJob(s.pod.t, "LEASE_PROXY_SERVER_URL="+url, "LEASECTL_CA="+s.files.ca)
	j.env = append(j.env, "LEASECTL_TOKEN_FILE="+write(j.t, filepath.Join(j.dir, "token"), jobToken))
	return j
}

// One server grants, answers the probes, and has its leases after a restart, as nobody and with
// a volume of the pod's group.
func TestKubernetesOne(t *testing.T) {
	t.Parallel()
	m := readManifests(t, "kubernetes/one.yaml")
	if *m.stateful.Spec.Replicas != 1 || m.stateful.Spec.ServiceName != m.service.Name {
		t.Errorf("%+v", m.stateful.Spec)
	}
	pod := newServerPod(t, m, makeSecrets(t, t.TempDir()))
	s := pod.start("127.0.0.1", 0)
	for _, probe := range []*corev1.Probe{pod.container.LivenessProbe, pod.container.ReadinessProbe} {
		s.token = "" // the kubelet has none
		if status, text := s.get(probe.HTTPGet.Path); status != 200 {
			t.Errorf("%s: %d %s", probe.HTTPGet.Path, status, text)
		}
	}
	s.token = readToken
	pod.client(s.url).start(nil, *program, "acquire", "--type", "install").exits(0)
	s.stop()
	if !s.cmd.ProcessState.Success() || strings.Contains(s.log.String(), `"WARN"`) {
		t.Errorf("%v\n%s", s.cmd.ProcessState, s.log)
	}
	if again := pod.start("127.0.0.1", 0); again.inUse("install") != 1 {
		t.Errorf("after a restart %d leases are held", again.inUse("install"))
	}
	_, err := os.Stat(filepath.Join(pod.root, "data/leases.db"))
	if err != nil {
		t.Errorf("the leases are not in the volume: %v", err)
	}
}

// Jobs of the cluster are let in by the tokens of their service accounts. The server shows its own
// token to the cluster, which wants one before it tells its keys.
func TestKubernetesIdentity(t *testing.T) {
	t.Parallel()
	m := readManifests(t, "kubernetes/one.yaml")
	cluster := newIssuer(t)
	cluster.wants = "of-a-service-account"
	text := strings.ReplaceAll(m.pools.Data["auth.yaml"], "https://kubernetes.default.svc.cluster.local", cluster.URL)
	pod := newServerPod(t, m, makeSecrets(t, t.TempDir()))
	for mount, dir := range pod.mounts {
		text = strings.ReplaceAll(text, mount+"/", dir+"/")
	}
	write(t, filepath.Join(pod.mounts["/config"], "auth.yaml"), text)
	s := pod.start("127.0.0.1", 0)
	job := func(sub string) *job {
		j := newJob(t, "LEASE_PROXY_SERVER_URL="+s.url, "LEASECTL_CA="+pod.files.ca)
		j.env = append(j.env, "LEASECTL_TOKEN_FILE="+write(t, filepath.Join(j.dir, "token"), cluster.sign("leasectl", map[string]any{"sub": sub})))
		return j
	}
	if out := job("system:serviceaccount:ci:builder").start(nil, *program, "whoami").exits(0); !strings.Contains(out, "system:serviceaccount:ci:builder") {
		t.Error(out)
	}
	job("system:serviceaccount:other:builder").start(nil, *program, "whoami").exits(77)
}

// Of three servers one is ready. A disruption budget, or a rollout that waits for ready pods,
// would wait for ever.
func TestKubernetesThreeReadiness(t *testing.T) {
	for _, path := range []string{"kubernetes/three-etcd.yaml", "kubernetes/three-postgres.yaml"} {
		t.Run(path, func(t *testing.T) { testThreeReadiness(t, path) })
	}
}

func testThreeReadiness(t *testing.T, path string) {
	text := read(t, path)
	m := readManifests(t, path)
	d := m.deployed.Spec
	if u := d.Strategy.RollingUpdate; *d.Replicas != 3 || u.MaxSurge.IntVal != 0 || u.MaxUnavailable.IntVal != *d.Replicas {
		t.Errorf("%+v", d.Strategy)
	}
	if regexp.MustCompile(`(?m)^kind: PodDisruptionBudget`).MatchString(text) {
		t.Error("a disruption budget keeps the node of the leader from being drained")
	}
	apart := d.Template.Spec.Affinity.PodAntiAffinity.RequiredDuringSchedulingIgnoredDuringExecution[0]
	if apart.TopologyKey != corev1.LabelHostname || !reflect.DeepEqual(apart.LabelSelector.MatchLabels, d.Template.Labels) {
		t.Errorf("servers may share a node: %+v", apart)
	}
}

// Three servers with the arguments of the manifest, on an etcd with TLS and users.
func TestKubernetesThreeOnEtcd(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	files := makeSecrets(t, dir)
	etcd := startEtcd(t, files, "leasectl/")
	write(t, filepath.Join(dir, "credentials"), "leasectl:"+etcdPassword+"\n")
	testThree(t, "kubernetes/three-etcd.yaml", files, "etcds://ETCD/", "etcds://"+etcd+"/")
}

// Three servers with the arguments of the manifest, on a PostgreSQL with TLS and a password.
func TestKubernetesThreeOnPostgres(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	files := makeSecrets(t, dir)
	postgres := startPostgres(t, files)
	write(t, filepath.Join(dir, "pgpass"), "*:*:leases:leasectl:"+postgresPassword+"\n")
	testThree(t, "kubernetes/three-postgres.yaml", files, "@POSTGRES/", "@"+postgres+"/")
}

// testThree checks that exactly the server that leads is ready, and that another one has its leases
// when it is stopped. replace gives names that only the cluster knows.
func testThree(t *testing.T, path string, files secrets, replace ...string) {
	m := readManifests(t, path)
	var servers []*server
	for i := range 3 {
		pod := newServerPod(t, m, files)
		ip := fmt.Sprintf("127.0.0.%d", i+1)
		servers = append(servers, pod.start(ip, freePort(t, ip), replace...))
	}
	leader := func() *server {
		t.Helper()
		var ready []*server
		await(t, "a server is ready", func() bool {
			ready = nil
			for _, s := range servers {
				if status, _ := s.get("/readyz"); status == 200 {
					ready = append(ready, s)
				}
				if status, text := s.get("/healthz"); status != 200 {
					t.Fatalf("%s does not live: %d %s", s.url, status, text)
				}
			}
			return len(ready) > 0
		})
		if len(ready) != 1 {
			t.Fatalf("%d servers are ready", len(ready))
		}
		return ready[0]
	}
	first := leader()
	if _, text := first.get("/healthz"); !strings.Contains(text, first.url) {
		t.Errorf("the leader does not name itself %s: %s", first.url, text)
	}
	await(t, "two stand by", func() bool { return first.metric("leasectl_standby") == 2 })
	pod := &serverPod{pod: &pod{job: newJob(t)}, files: files}
	pod.client(first.url).start(nil, *program, "acquire", "--type", "install").exits(0)
	first.stop()
	servers = slices.DeleteFunc(servers, func(s *server) bool { return s == first })
	began := time.Now()
	second := leader()
	t.Logf("another server was ready after %v", time.Since(began).Round(time.Millisecond))
	if n := second.inUse("install"); n != 1 {
		t.Errorf("the next server has %d leases", n)
	}
}
