package etcdtest

import (
	"errors"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"
)

func TestMain(m *testing.M) { os.Exit(Run(m)) }

// The etcd of the tests starts, and says its version.
func TestStart(t *testing.T) {
	c := Start(t, 1)
	version, _, err := Version()
	if err != nil {
		t.Fatal(err)
	}
	if err := c.AwaitHealth(); err != nil {
		t.Errorf("etcd %s: %v", version, err)
	}
}

// Where no etcd is to be had, tests are skipped for one reason; in CI, or if a certain etcd was
// chosen, they fail.
func TestNoEtcd(t *testing.T) {
	if testing.Short() {
		t.Skip("TestStart is skipped by -short in any case")
	}
	const reason = "PATH has no etcd, and none can be built"
	for _, tt := range []struct {
		name, ci, choice string
		wantFail         bool
		want             string
	}{
		{name: "skipped", want: reason},
		{name: "CI", ci: "true", wantFail: true, want: `"go": executable file not found`},
		{name: "built", choice: "built", wantFail: true, want: `"go": executable file not found`},
		{name: "file", choice: "/no/such/etcd", wantFail: true, want: "/no/such/etcd"},
	} {
		t.Run(tt.name, func(t *testing.T) {
			cmd := exec.Command(os.Args[0], "-test.run=^TestStart$", "-test.v")
			// Without the go command in PATH nothing can be built.
			cmd.Env = append(os.Environ(), "PATH="+t.TempDir(), "XDG_CACHE_HOME="+t.TempDir(), "HOME="+t.TempDir(), "CI="+tt.ci, variable+"="+tt.choice)
			out, err := cmd.CombinedOutput()
			if _, failed := errors.AsType[*exec.ExitError](err); failed != tt.wantFail || err != nil && !failed {
				t.Errorf("%v; want a failure: %t", err, tt.wantFail)
			}
			if !strings.Contains(string(out), tt.want) || strings.Contains(string(out), reason) == tt.wantFail {
				t.Errorf("the output lacks %q, or calls a failure a skip:\n%s", tt.want, out)
			}
		})
	}
}

// Many that want a program at once get the same one, built once, whatever the path, the umask and
// the flags of the go command are. A change of the source makes another.
func TestBuildOnce(t *testing.T) {
	t.Setenv("GOFLAGS", "-tags=broken")
	source, dir := filepath.Join(t.TempDir(), "a source"), filepath.Join(t.TempDir(), "a cache")
	write(t, filepath.Join(source, "go.mod"), "module etcd\n\ngo 1.26.0\n\nrequire go.etcd.io/etcd/server/v3 v3.99.1\n")
	write(t, filepath.Join(source, "go.sum"), "")
	write(t, filepath.Join(source, "broken.go"), "//go:build broken || cgo\n\npackage main\n\nfunc broken() { undefined() }\n")
	write(t, filepath.Join(source, "main.go"), "package main\n\nfunc main() { print(1) }\n")
	if err := os.Mkdir(dir, 0o700); err != nil {
		t.Fatal(err)
	}
	var once sync.Once
	var first fs.FileInfo
	var wg sync.WaitGroup
	for range 4 {
		wg.Go(func() {
			path, err := buildOnce(source, dir)
			if err != nil {
				t.Error(err)
				return
			}
			fi, err := os.Stat(path)
			if err != nil {
				t.Error(err)
				return
			}
			once.Do(func() { first = fi })
			if !os.SameFile(fi, first) || !strings.HasPrefix(fi.Name(), "etcd-3.99.1-") {
				t.Errorf("%s was built twice, or lacks its version", path)
			}
		})
	}
	wg.Wait()
	write(t, filepath.Join(source, "main.go"), "package main\n\nfunc main() { print(2) }\n")
	path, err := buildOnce(source, dir)
	if err != nil {
		t.Fatal(err)
	}
	if out, err := exec.Command(path).CombinedOutput(); err != nil || string(out) != "2" {
		t.Errorf("after the change the program prints %q, %v", out, err)
	}
}

// A build that fails says why, and leaves no program that the next run would take. So does one
// that was killed, although it leaves a file.
func TestBuildFails(t *testing.T) {
	source, dir := t.TempDir(), t.TempDir()
	write(t, filepath.Join(source, "go.mod"), "module etcd\n\ngo 1.26.0\n")
	write(t, filepath.Join(source, "go.sum"), "")
	write(t, filepath.Join(source, "main.go"), "package main\n\nfunc main() { undefined() }\n")
	for range 2 {
		if path, err := buildOnce(source, dir); err == nil || !strings.Contains(err.Error(), "undefined: undefined") {
			t.Errorf("built %s: %v", path, err)
		}
	}
	write(t, filepath.Join(source, "main.go"), "package main\n\nfunc main() {}\n")
	name, err := builtName(source)
	if err != nil {
		t.Fatal(err)
	}
	write(t, filepath.Join(dir, name+".new"), "half of a program")
	path, err := buildOnce(source, dir)
	if err != nil {
		t.Fatal(err)
	}
	if out, err := exec.Command(path).CombinedOutput(); err != nil {
		t.Errorf("%v: %s", err, out)
	}
	files, err := os.ReadDir(dir)
	if err != nil {
		t.Fatal(err)
	}
	if left := slices.ContainsFunc(files, func(f fs.DirEntry) bool { return strings.HasSuffix(f.Name(), ".new") }); left {
		t.Errorf("left are %v", files)
	}
}

// Where the user's cache cannot be written, etcd is kept among the temporary files.
func TestCacheDir(t *testing.T) {
	home, tmp := t.TempDir(), t.TempDir()
	t.Setenv("HOME", home)
	t.Setenv("XDG_CACHE_HOME", "")
	t.Setenv("TMPDIR", tmp)
	check := func(parent string) {
		t.Helper()
		if dir, err := cacheDir(); err != nil || !strings.HasPrefix(dir, parent+"/") {
			t.Errorf("%q, %v; want a directory in %s", dir, err, parent)
		}
	}
	check(home)
	file := filepath.Join(t.TempDir(), "file")
	write(t, file, "")
	t.Setenv("HOME", file) // nothing can be made below a file, not even by root
	check(tmp)
	t.Setenv("HOME", "")
	check(tmp)
	t.Setenv("TMPDIR", file)
	if dir, err := cacheDir(); err == nil {
		t.Errorf("%s can be made below a file", dir)
	}
}

func write(t *testing.T, path, text string) {
	t.Helper()
	if err := os.MkdirAll(filepath.Dir(path), 0o700); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
}
