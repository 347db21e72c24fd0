package main

import (
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"golang.org/x/mod/module"
	"golang.org/x/mod/zip"
)

// go install of a version gives a program that knows the version: what is committed can be a
// module, and the go command writes the version into the program. The module comes from a proxy of
// files, as does all that it needs, which this machine has.
func TestGoInstall(t *testing.T) {
	if testing.Short() {
		t.Skip("compiles everything anew")
	}
	tree := t.TempDir()
	archive := exec.Command("sh", "-c", `git -c safe.directory='*' -C ../.. archive HEAD | tar -xC "$1"`, "sh", tree)
	if out, err := archive.CombinedOutput(); err != nil || len(out) > 0 {
		t.Skipf("this is no clone: %v: %s", err, out)
	}
	m := module.Version{Path: "github.com/leasectl/leasectl", Version: "v1.2.3"}
	proxy := t.TempDir()
	dir := filepath.Join(proxy, m.Path, "@v")
	if err := os.MkdirAll(dir, 0o700); err != nil {
		t.Fatal(err)
	}
	mod, err := os.ReadFile(filepath.Join(tree, "go.mod"))
	if err != nil {
		t.Fatal(err)
	}
	for name, text := range map[string]string{"list": "v1.2.3\n", "v1.2.3.info": `{"Version": "v1.2.3"}`, "v1.2.3.mod": string(mod)} {
		if err := os.WriteFile(filepath.Join(dir, name), []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	f, err := os.Create(filepath.Join(dir, m.Version+".zip"))
	if err != nil {
		t.Fatal(err)
	}
	if err := zip.CreateFromDir(f, m, tree); err != nil {
		t.Fatal(err)
	}
	if err := f.Close(); err != nil {
		t.Fatal(err)
	}

	cache, err := exec.Command("go", "env", "GOMODCACHE").Output()
	if err != nil {
		t.Fatal(err)
	}
	bin := t.TempDir()
	install := exec.Command("go", "install", m.Path+"/cmd/leasectl@"+m.Version)
	install.Dir = t.TempDir()
	install.Env = append(os.Environ(), "GOBIN="+bin, "GOMODCACHE="+filepath.Join(proxy, "cache"), "GOSUMDB=off", "CGO_ENABLED=0",
		"GOFLAGS=-modcacherw -trimpath", "GOPROXY=file://"+proxy+",file://"+filepath.Join(strings.TrimSpace(string(cache)), "cache/download"))
	if out, err := install.CombinedOutput(); err != nil {
		t.Fatalf("%v\n%s", err, out)
	}
	out, err := exec.Command(filepath.Join(bin, "leasectl"), "version").CombinedOutput()
	if err != nil || !strings.HasPrefix(string(out), "leasectl v1.2.3 (wire ") {
		t.Errorf("%v, %s", err, out)
	}
}
