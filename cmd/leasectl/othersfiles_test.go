package main

import (
	"bytes"
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"

	"github.com/leasectl/leasectl/cmd/leasectl/clitest"
)

// Users that are not root. The steps of a job run as one of them, or as root in a container.
const (
	runnerUser = 4711
	otherUser  = 4712
)

// place makes what other users have put somewhere.
type place struct {
	*world
	root string
}

func (w *world) place(name string) place {
	p := place{w, w.Path(name)}
	mkdir(w.T, p.root, 0o777|fs.ModeSticky, 0)
	return p
}

func (p place) path(name string) string { return filepath.Join(p.root, name) }

func (p place) file(name, text string, user int) string {
	p.T.Helper()
	path := p.path(name)
	if err := errors.Join(os.WriteFile(path, []byte(text), 0o600), os.Chown(path, user, user)); err != nil {
		p.T.Fatal(err)
	}
	return path
}

func (p place) link(to, name string, user int) string {
	p.T.Helper()
	path := p.path(name)
	if err := errors.Join(os.Symlink(to, path), os.Lchown(path, user, user)); err != nil {
		p.T.Fatal(err)
	}
	return path
}

func (p place) dir(name string, mode fs.FileMode, user int) string {
	p.T.Helper()
	mkdir(p.T, p.path(name), mode, user)
	if err := os.Chown(p.path(name), user, user); err != nil {
		p.T.Fatal(err)
	}
	return p.path(name)
}

// as runs leasectl as a user in a directory that everybody may enter.
func (w *world) as(user int, more []string, args ...string) ran {
	var out, text bytes.Buffer
	cmd := w.Command(args...)
	cmd.Dir = "/"
	cmd.Env = append(cmd.Env, more...)
	cmd.SysProcAttr = &syscall.SysProcAttr{Credential: &syscall.Credential{Uid: uint32(user), Gid: uint32(user)}}
	cmd.Stdout, cmd.Stderr = &out, &text
	code := clitest.ExitCode(cmd.Run())
	return ran{code, out.String(), text.String()}
}

// tree returns the paths in a directory, with owners, modes and what is in files.
func tree(t *testing.T, dir string) string {
	t.Helper()
	var all strings.Builder
	err := filepath.WalkDir(dir, func(path string, d fs.DirEntry, err error) error {
		if err != nil {
			return err
		}
		info, err := d.Info()
		if err != nil {
			return err
		}
		text := []byte(nil)
		if info.Mode().IsRegular() {
			if text, err = os.ReadFile(path); err != nil {
				return err
			}
		}
		stat := info.Sys().(*syscall.Stat_t)
		all.WriteString(strings.TrimPrefix(path, dir) + " " + info.Mode().String() + " " + string(rune('0'+stat.Uid%10)) + " " + string(text) + "\n")
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
	return all.String()
}

// What root is led to by another user, by a link or in a directory of that user, is not used: nothing is
// read, made or changed there.
func TestFilesOfOthers(t *testing.T) {
	t.Parallel()
	if os.Geteuid() != 0 {
		t.Skip("only root can give a file to another user")
	}
	w := newWorld(t, clitest.Build(t, ""), "install=2")
	if err := os.Chmod(w.Dir, 0o755); err != nil {
		t.Fatal(err)
	}
	const rules = "tokens: [{name: me, secret_file: operators.token, role: admin}]\n"
	for _, tt := range []struct {
		name string
		make func(p place)
		args []string // PLACE is the place
		env  string
		code int
		says string
	}{
		{name: "init in a directory", make: func(p place) {
			p.dir("d", 0o755, otherUser)
			p.file("d/operators.token", "a-secret-of-theirs", otherUser)
		},
			args: []string{"init", "PLACE/d"}, code: 1, says: "/d belongs to user 4712, and this is user 0"},
		{name: "init below a directory", make: func(p place) { p.dir("d", 0o755, otherUser) },
			args: []string{"init", "PLACE/d/new/er"}, code: 1, says: "/d belongs to user 4712"},
		{name: "init through a link", make: func(p place) { p.dir("d", 0o755, 0); p.link("d", "l", otherUser) },
			args: []string{"init", "PLACE/l"}, code: 1, says: "/l belongs to user 4712"},
		{name: "init with rules", make: func(p place) { p.dir("d", 0o777, 0); p.file("d/auth.yaml", rules, otherUser) },
			args: []string{"init", "PLACE/d"}, code: 1, says: "/d/auth.yaml belongs to user 4712, and others than this user (0) can write to its directory"},
		{name: "init with a link", make: func(p place) { p.dir("d", 0o777, 0); p.link("/nowhere", "d/tls.key", otherUser) },
			args: []string{"init", "PLACE/d"}, code: 1, says: "/d/tls.key is a link in a directory that others can write to"},
		{name: "backup in a directory", make: func(p place) { p.dir("d", 0o755, otherUser) },
			args: []string{"backup", "PLACE/d/copy"}, code: 1, says: "/d belongs to user 4712"},
		{name: "backup to a link", make: func(p place) {
			p.dir("d", 0o700, 0)
			p.file("d/precious", "precious", 0)
			p.link("d/precious", "copy", otherUser)
		},
			args: []string{"backup", "PLACE/copy"}, code: 1, says: "/copy is a link in a directory that others can write to"},
		{name: "data in a directory", make: func(p place) { p.dir("d", 0o755, otherUser) },
			args: []string{"serve", "--socket", "PLACE/s", "--pool", "a=1", "--data", "PLACE/d/data"}, code: 74, says: "/d belongs to user 4712"},
		{name: "data through a link", make: func(p place) { p.dir("d", 0o755, 0); p.link("d", "l", otherUser) },
			args: []string{"serve", "--socket", "PLACE/s", "--pool", "a=1", "--data", "PLACE/l"}, code: 74, says: "/l belongs to user 4712"},
		{name: "a store", make: func(p place) { p.dir("d", 0o777, 0); p.file("d/leases.db", "", otherUser) },
			args: []string{"serve", "--socket", "PLACE/s", "--pool", "a=1", "--data", "PLACE/d"}, code: 74, says: "/d/leases.db belongs to user 4712"},
		{name: "a link to a store", make: func(p place) {
			p.dir("d", 0o700, 0)
			p.dir("d/e", 0o700, 0)
			p.link("../leases.db", "d/e/leases.db", 0)
		},
			args: []string{"serve", "--socket", "PLACE/s", "--pool", "a=1", "--data", "PLACE/d/e"}, code: 74, says: "it is a link, which is not followed: name the directory that it leads to"},
		{name: "state in a directory", make: func(p place) { p.dir("d", 0o755, otherUser) },
			args: []string{"exec", "--type", "install", "--", "true"}, env: "LEASECTL_STATE_DIR=PLACE/d/state", code: 125, says: "/d belongs to user 4712"},
		{name: "state through a link", make: func(p place) { p.dir("d", 0o755, 0); p.link("d", "l", otherUser) },
			args: []string{"exec", "--type", "install", "--", "true"}, env: "LEASECTL_STATE_DIR=PLACE/l/state", code: 125, says: "/l belongs to user 4712"},
		{name: "a handle where all may write", make: func(p place) { p.dir("d", 0o777, otherUser) },
			args: []string{"acquire", "--type", "install", "--handle", "PLACE/d/h"}, code: 1, says: "/d belongs to user 4712, and others can write to it: chmod 755 it, or run as user 4712"},
		{name: "a handle in a third's", make: func(p place) { p.dir("d", 0o755, otherUser); p.dir("d/e", 0o755, runnerUser) },
			args: []string{"acquire", "--type", "install", "--handle", "PLACE/d/e/h"}, code: 1, says: "/d/e belongs to user 4711, and a directory above it to user 4712"},
		{name: "a handle of another", make: func(p place) { p.file("h", "install-0\n", otherUser) },
			args: []string{"release", "--handle", "PLACE/h"}, code: 64, says: "who uses files of others only in directories that are theirs alone: run as user 4712"},
		{name: "a list of another", make: func(p place) { p.file("leases", "install-0\n", otherUser) },
			args: []string{"release", "--scope", "test"}, env: "SHARED_DIR=PLACE", code: 1, says: "/leases belongs to user 4712"},
	} {
		t.Run(tt.name, func(t *testing.T) {
			p := w.place(strings.ReplaceAll(tt.name, " ", "-"))
			tt.make(p)
			before := tree(t, p.root)
			args := make([]string, len(tt.args))
			for i, arg := range tt.args {
				args[i] = strings.ReplaceAll(arg, "PLACE", p.root)
			}
			r := w.as(0, []string{strings.ReplaceAll(tt.env, "PLACE", p.root)}, args...)
			if r.code != tt.code || !strings.Contains(r.stderr, p.root+tt.says) && !strings.Contains(r.stderr, tt.says) {
				t.Errorf("%+v, want exit code %d and %q", r, tt.code, tt.says)
			}
			if after := tree(t, p.root); after != before {
				t.Errorf("before:\n%safter:\n%s", before, after)
			}
		})
	}
	w.WantHeld()
}

// The volumes of container platforms stay of use: a new server, its store, a copy of that, lists and handles.
func TestVolumes(t *testing.T) {
	t.Parallel()
	if os.Geteuid() != 0 {
		t.Skip("only root can run a process as another user")
	}
	w := newWorldOf(t, clitest.Build(t, ""), "--pool", "install=2", "--data", filepath.Join(clitest.ShortDir(t), "data"))
	if err := os.Chmod(w.Dir, 0o755); err != nil {
		t.Fatal(err)
	}
	proxy := "LEASE_PROXY_SERVER_URL=" + w.overTCP()
	for _, volume := range []struct {
		name  string
		mode  fs.FileMode
		group int
	}{{"emptyDir", 0o777, 0}, {"fsGroup", 0o775 | fs.ModeSetgid, runnerUser}, {"tmp", 0o777 | fs.ModeSticky, 0}} {
		t.Run(volume.name, func(t *testing.T) {
			dir := w.Path(volume.name)
			mkdir(t, dir, volume.mode, 0)
			if err := errors.Join(os.Chown(dir, 0, volume.group), os.Chmod(dir, volume.mode)); err != nil {
				t.Fatal(err)
			}
			env := []string{proxy, "SHARED_DIR=" + dir, "LEASECTL_STATE_DIR=" + dir}
			for _, args := range [][]string{
				{"init", dir, "--host", "localhost"}, {"init", dir, "--host", "localhost"},
				{"backup", filepath.Join(dir, "copy")}, {"backup", filepath.Join(dir, "copy")},
				{"acquire", "--type", "install", "--scope", "test", "--handle", filepath.Join(dir, "h")},
				{"release", "--scope", "test"}, {"release", "--handle", filepath.Join(dir, "h")},
				{"exec", "--type", "install", "--", "true"},
			} {
				if r := w.as(runnerUser, env, args...); r.code != 0 {
					t.Errorf("%v: %+v", args, r)
				}
			}
			w.servesAs(runnerUser, dir)
			w.servesAs(runnerUser, dir)
		})
	}
	w.WantHeld()
}

// servesAs starts a server as a user with a store in dir, and stops it.
func (w *world) servesAs(user int, dir string) {
	w.T.Helper()
	log := new(clitest.LiveLog)
	cmd := w.Command("serve", "--listen", "127.0.0.1:0", "--pool", "install=1", "--data", dir)
	cmd.SysProcAttr = &syscall.SysProcAttr{Credential: &syscall.Credential{Uid: uint32(user), Gid: uint32(user)}}
	cmd.Dir, cmd.Stderr = "/", log
	if err := cmd.Start(); err != nil {
		w.T.Fatal(err)
	}
	ended := make(chan error, 1)
	go func() { ended <- cmd.Wait() }()
	clitest.Await(w.T, log, "the server", func() bool {
		return strings.Contains(log.String(), "listening on") || strings.Contains(log.String(), "serve failed")
	})
	cmd.Process.Signal(syscall.SIGINT)
	if err := <-ended; err != nil {
		w.T.Errorf("serve: %v\n%s", err, log)
	}
}

// A checkout that is mounted into a container: its steps run as root or as the user who has it, on directories
// that only this user can write to. Each gives back what the other took, and leaves no file of root's.
func TestStepsOfTwoUsers(t *testing.T) {
	t.Parallel()
	if os.Geteuid() != 0 {
		t.Skip("only root can run a process as another user")
	}
	w := newWorld(t, clitest.Build(t, ""), "install=2")
	if err := os.Chmod(w.Dir, 0o755); err != nil {
		t.Fatal(err)
	}
	p := w.place("w")
	work := p.dir("work", 0o755, runnerUser)
	checkout := p.dir("work/checkout", 0o755, runnerUser)
	before := tree(t, work)
	states := map[int]string{0: p.dir("state-root", 0o700, 0), runnerUser: p.dir("state-runner", 0o700, runnerUser)}
	defer func() {
		for _, dir := range states {
			os.RemoveAll(dir)
		}
	}()
	proxy := w.overTCP()
	step := func(user int, args ...string) ran {
		env := []string{"LEASE_PROXY_SERVER_URL=" + proxy, "LEASECTL_STATE_DIR=" + states[user], "SHARED_DIR=" + checkout}
		r := w.as(user, env, args...)
		if r.code != 0 {
			t.Errorf("user %d: %v: %+v", user, args, r)
		}
		return r
	}
	handle := filepath.Join(checkout, ".lease")
	for _, users := range [][2]int{{runnerUser, 0}, {0, runnerUser}, {0, 0}} {
		step(users[0], "acquire", "--type", "install", "--handle", handle)
		step(users[1], "renew", "--handle", handle)
		if r := step(users[1], "release", "--handle", handle); r.stdout != "install-0\n" && r.stdout != "install-1\n" {
			t.Errorf("users %v: %+v", users, r)
		}
		if after := tree(t, work); after != before {
			t.Errorf("users %v: left:\n%s", users, after)
		}
		step(users[0], "acquire", "--type", "install", "--scope", "test", "--handle", handle)
		if r := step(users[1], "release", "--scope", "test"); r.stdout != "install-0\n" && r.stdout != "install-1\n" {
			t.Errorf("users %v: %+v", users, r)
		}
		step(users[1], "release", "--handle", handle)
		if after := tree(t, checkout); strings.Contains(after, " 0 ") {
			t.Errorf("users %v: root's are left:\n%s", users, after)
		}
		for _, name := range []string{"leases", "leases.lock"} {
			if err := os.Remove(filepath.Join(checkout, name)); err != nil {
				t.Error(err)
			}
		}
	}
	w.WantHeld()
}
