package testprogram

import (
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"
)

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
			path, err := fromSource(dir, "etcd", source, "go.etcd.io/etcd/server/v3")
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
	path, err := fromSource(dir, "etcd", source, "go.etcd.io/etcd/server/v3")
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
		if path, err := fromSource(dir, "etcd", source, "go.etcd.io/etcd/server/v3"); err == nil || !strings.Contains(err.Error(), "undefined: undefined") {
			t.Errorf("built %s: %v", path, err)
		}
	}
	write(t, filepath.Join(source, "main.go"), "package main\n\nfunc main() {}\n")
	path, err := fromSource(dir, "etcd", source, "go.etcd.io/etcd/server/v3")
	if err != nil {
		t.Fatal(err)
	}
	if err := os.Remove(path); err != nil {
		t.Fatal(err)
	}
	write(t, filepath.Join(path+".new", "program"), "half of a program")
	if _, err := fromSource(dir, "etcd", source, "go.etcd.io/etcd/server/v3"); err != nil {
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

// Where the user's cache cannot be written, programs are kept among the temporary files.
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
