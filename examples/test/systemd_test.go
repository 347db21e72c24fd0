package test

import (
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
	"testing"
)

// unit is a unit of systemd: the values of each key, of all sections.
type unit map[string][]string

func readUnit(t *testing.T) unit {
	t.Helper()
	u := make(unit)
	text := strings.ReplaceAll(read(t, "systemd/leasectl.service"), "\\\n", " ")
	for line := range strings.Lines(text) {
		if key, value, ok := strings.Cut(strings.TrimSpace(line), "="); ok && !strings.HasPrefix(key, "#") {
			u[key] = append(u[key], value)
		}
	}
	return u
}

// systemd knows every key and value, and finds little to bound further. (What it still names is
// the network, the user's sockets, and the root directory.)
func TestUnitIsValid(t *testing.T) {
	t.Parallel()
	path, err := filepath.Abs(*program)
	if err != nil {
		t.Fatal(err)
	}
	text := strings.ReplaceAll(read(t, "systemd/leasectl.service"), "/usr/bin/leasectl", path)
	file := write(t, filepath.Join(t.TempDir(), "leasectl.service"), text)
	for _, args := range [][]string{
		{"verify", "--man=no", file},
		{"security", "--no-pager", "--offline=yes", "--threshold=20", file},
	} {
		out, err := exec.Command("systemd-analyze", args...).CombinedOutput()
		if err != nil || args[0] == "verify" && len(out) > 0 {
			t.Errorf("systemd-analyze %s: %v\n%s", args[0], err, out)
		}
	}
}

// The server does its work with the user, the directory and the system calls that the unit
// leaves to it, is told of a changed file by the unit's reload, and keeps its leases.
func TestUnitRuns(t *testing.T) {
	t.Parallel()
	u := readUnit(t)
	if u["Type"][0] != "exec" || u["RestartPreventExitStatus"][0] != "64" || !strings.HasSuffix(u["ExecReload"][0], "-HUP $MAINPID") {
		t.Errorf("%q", u)
	}
	if families := strings.Fields(u["RestrictAddressFamilies"][0]); !slices.Equal(families, []string{"AF_INET", "AF_INET6", "AF_UNIX"}) {
		t.Errorf("the server is tested with other families than %q", families)
	}
	m := newMachine(t)
	etc := m.dir("etc", 0o750)
	pools := write(t, filepath.Join(etc, "pools.yaml"), "resources: [{type: install, min-count: 1, max-count: 1}]\n")
	newJob(t).start(nil, *program, "init", etc, "--host", "127.0.0.1").exits(0)
	made, err := filepath.Glob(etc + "/*")
	if err != nil {
		t.Fatal(err)
	}
	secret := make(map[string]string)
	for _, path := range made {
		text, err := os.ReadFile(path)
		if err != nil {
			t.Fatal(err)
		}
		secret[filepath.Base(path)] = strings.TrimSpace(string(text))
	}
	files := secrets{ca: filepath.Join(etc, "ca.crt"), cert: filepath.Join(etc, "tls.crt"), key: filepath.Join(etc, "tls.key")}
	m.give("etc", 0, 0o750)
	m.dir("state", 0o700)
	m.give("state", nobody, 0o700)

	self, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	calls := m.file(systemCalls(t, u["SystemCallFilter"]))
	start := func() *server {
		args := strings.Fields(strings.NewReplacer("/usr/bin/leasectl", m.program, "/var/lib/leasectl", filepath.Join(m.root, "state"),
			"/etc/leasectl", filepath.Join(m.root, "etc"), ":8370", "127.0.0.1:0").Replace(u["ExecStart"][0]))
		s := &server{t: t, token: secret["monitoring.token"], client: files.httpClient(t)}
		cmd := exec.Command(self, args...)
		cmd.Env = append(os.Environ(), restrictedBy+"="+calls)
		s.start(cmd)
		return s
	}
	s := start()
	if status, err := os.ReadFile(fmt.Sprintf("/proc/%d/status", s.cmd.Process.Pid)); err != nil || !strings.Contains(string(status), "Seccomp:\t2\n") || !strings.Contains(string(status), "NoNewPrivs:\t1\n") {
		t.Errorf("the server is not restricted: %v\n%s", err, status)
	}
	j := newJob(t, "LEASE_PROXY_SERVER_URL="+s.url, "LEASECTL_CA="+files.ca, "LEASECTL_TOKEN_FILE="+write(t, filepath.Join(t.TempDir(), "token"), secret["jobs.token"]))
	j.start(nil, *program, "acquire", "--type", "install", "--handle", "handle").exits(0)

	write(t, pools, "resources: [{type: install, min-count: 3, max-count: 3}]\n")
	s.cmd.Process.Signal(syscall.SIGHUP)
	await(t, "the new file is taken up", func() bool { return s.metric(`leasectl_capacity{type="install"}`) == 3 })

	s.stop()
	if log := s.log.String(); strings.Contains(log, "WARN") {
		t.Errorf("the server is not content:\n%s", log)
	}
	if code := s.cmd.ProcessState.ExitCode(); code != 0 {
		t.Errorf("stopped with exit code %d", code)
	}
	if again := start(); again.inUse("install") != 1 {
		t.Errorf("after a restart %d leases are held", again.inUse("install"))
	}
}
