package main

import (
	"bytes"
	"io/fs"
	"net/http/httptest"
	"net/http/httputil"
	"net/url"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"

	"github.com/leasectl/leasectl/cmd/leasectl/clitest"
)

// containerUser is a user id like those that a container platform makes up: the system has no name
// for it, and its group is root's.
const containerUser = 1000680000

// ran is the result of a command.
type ran struct {
	code           int
	stdout, stderr string
}

// asContainerUser runs leasectl as another user than the test's.
func (w *world) asContainerUser(stateDir string, args ...string) ran {
	var out, text bytes.Buffer
	cmd := w.Command(args...)
	cmd.Dir = "/"
	cmd.Env = append(cmd.Env, "LEASECTL_STATE_DIR="+stateDir)
	cmd.SysProcAttr = &syscall.SysProcAttr{Credential: &syscall.Credential{Uid: containerUser, Gid: 0}}
	cmd.Stdout, cmd.Stderr = &out, &text
	code := clitest.ExitCode(cmd.Run())
	return ran{code, out.String(), text.String()}
}

// overTCP returns an address of the world's proxy that every user can connect to.
func (w *world) overTCP() string {
	socket := strings.TrimPrefix(w.Variable("LEASE_PROXY_SERVER_URL"), "unix://")
	server := httptest.NewServer(&httputil.ReverseProxy{
		Rewrite:   func(r *httputil.ProxyRequest) { r.SetURL(&url.URL{Scheme: "http", Host: "localhost"}) },
		Transport: clitest.UnixTransport(socket),
	})
	w.T.Cleanup(server.Close)
	return server.URL
}

// stateDirs are the directories that a made-up user may find at LEASECTL_STATE_DIR.
var stateDirs = []struct {
	name string
	make func(t *testing.T, dir string)
	uses string // the directory in it that leasectl makes; "": none can be made
}{
	{"an emptyDir", func(t *testing.T, dir string) { mkdir(t, dir, 0o777|fs.ModeSetgid, 0) }, "leasectl-1000680000"},
	{"a sticky one", func(t *testing.T, dir string) { mkdir(t, dir, 0o777|fs.ModeSticky, 0) }, "leasectl-1000680000"},
	{"its own", func(t *testing.T, dir string) { mkdir(t, dir, 0o700, containerUser) }, "."},
	{"its own, for all", func(t *testing.T, dir string) { mkdir(t, dir, 0o777, containerUser) }, "leasectl-1000680000"},
	{"root's", func(t *testing.T, dir string) { mkdir(t, dir, 0o755, 0) }, ""},
	{"a stranger's", func(t *testing.T, dir string) { mkdir(t, dir, 0o700, 4711) }, ""},
	{"a stranger's, for all", func(t *testing.T, dir string) { mkdir(t, dir, 0o777, 4711) }, ""},
	{"a missing parent", func(t *testing.T, dir string) {}, ""},
	{"a file", func(t *testing.T, dir string) {
		if err := os.WriteFile(dir, nil, 0o666); err != nil {
			t.Error(err)
		}
	}, ""},
}

func mkdir(t *testing.T, dir string, mode fs.FileMode, uid int) {
	t.Helper()
	for _, err := range []error{os.Mkdir(dir, 0o700), os.Chown(dir, uid, 0), os.Chmod(dir, mode)} {
		if err != nil {
			t.Fatal(err)
		}
	}
}

// If others can write to the state directory, a directory of ours inside holds the state. If none
// can be made, the error names the variable that sets another directory, and exec ends with the
// exit code of a failed wrapper. With --optional the command runs without a lease.
func TestStateDirectory(t *testing.T) {
	t.Parallel()
	if os.Geteuid() != 0 {
		t.Skip("only root can run a process as another user")
	}
	w := newWorld(t, clitest.Build(t, ""), "install=1")
	if err := os.Chmod(w.Dir, 0o755); err != nil {
		t.Fatal(err)
	}
	proxy := w.overTCP()
	for i, tt := range stateDirs {
		dir := w.Path("volume-" + string(rune('a'+i)))
		tt.make(t, dir)
		if tt.name == "a missing parent" {
			dir = filepath.Join(dir, "state")
		}
		u := stateDirUser{w: w, name: tt.name, dir: dir, proxy: proxy}
		if tt.uses == "" {
			u.goesWithout()
		} else {
			u.works(filepath.Join(dir, tt.uses))
		}
	}
	w.WantHeld()
}

// stateDirUser runs commands with one state directory.
type stateDirUser struct {
	w                *world
	name, dir, proxy string
}

func (u stateDirUser) take(command string, more ...string) ran {
	return u.w.asContainerUser(u.dir, append([]string{command, "--proxy", u.proxy, "--type", "install"}, more...)...)
}

// saysState is a command that prints whether its exec has a lease.
var saysState = []string{"--", "sh", "-c", `echo "$LEASECTL_STATE"; exit 7`}

func (u stateDirUser) works(made string) {
	t := u.w.T
	if r := u.take("exec", saysState...); r.code != 7 || r.stdout != "acquired\n" {
		t.Errorf("%s: exec: %+v", u.name, r)
	}
	r := u.take("acquire")
	handle := strings.TrimSpace(r.stdout)
	if r.code != 0 || filepath.Dir(handle) != made {
		t.Errorf("%s: acquire: %+v, want a handle in %s", u.name, r, made)
	}
	if fi, err := os.Stat(made); err != nil || fi.Mode().Perm() != 0o700 || fi.Sys().(*syscall.Stat_t).Uid != containerUser {
		t.Errorf("%s: the state directory is %v, %v", u.name, fi, err)
	}
	if r := u.w.asContainerUser(u.dir, "release", "--handle", handle); r.code != 0 || r.stdout != "install-0\n" {
		t.Errorf("%s: release: %+v", u.name, r)
	}
}

func (u stateDirUser) goesWithout() {
	t := u.w.T
	says := func(r ran) bool { return strings.Contains(r.stderr, "LEASECTL_STATE_DIR") }
	if r := u.take("exec", saysState...); r.code != exitExecFailure || r.stdout != "" || !says(r) {
		t.Errorf("%s: exec: %+v", u.name, r)
	}
	if r := u.take("acquire"); r.code != exitFailure || r.stdout != "" || !says(r) {
		t.Errorf("%s: acquire: %+v", u.name, r)
	}
	if r := u.take("exec", append([]string{"--optional"}, saysState...)...); r.code != 7 || r.stdout != "degraded\n" || !says(r) {
		t.Errorf("%s: exec --optional: %+v", u.name, r)
	}
	if r := u.take("acquire", "--optional"); r.code != 0 || !strings.HasPrefix(r.stdout, u.dir) || !says(r) {
		t.Errorf("%s: acquire --optional: %+v", u.name, r)
	}
	if r := u.w.asContainerUser(u.dir, "recover", "--proxy", u.proxy); r.code != 0 && (r.code != exitFailure || !says(r)) {
		t.Errorf("%s: recover: %+v", u.name, r)
	}
}
