package test

import (
	"flag"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"testing"
	"time"
)

var program = flag.String("leasectl", "", "the program to test")

// patience is how long anything may take: a loaded machine is slow.
const patience = 2 * time.Minute

// tools are what the tests run, and the packages that have it.
var tools = map[string]string{
	"bash": "bash", "sh": "dash", "node": "nodejs", "etcd": "etcd-server", "etcdctl": "etcd-client", "cc": "gcc", "groovy": "groovy",
	"promtool": "prometheus", "prometheus": "prometheus", "systemd-analyze": "systemd",
}

func TestMain(m *testing.M) {
	restrictThenExec() // if this is the server of the test of the unit
	flag.Parse()
	if *program == "" {
		fmt.Fprintln(os.Stderr, "test: -leasectl names the program to test: use make test-examples")
		os.Exit(2)
	}
	for tool, pkg := range tools {
		if _, err := exec.LookPath(tool); err != nil {
			fmt.Fprintf(os.Stderr, "test: %s is missing: install the package %s\n", tool, pkg)
			os.Exit(2)
		}
	}
	os.Exit(m.Run())
}

// read returns the text of a file of examples/.
func read(t *testing.T, path string) string {
	t.Helper()
	text, err := os.ReadFile(filepath.Join("..", path))
	if err != nil {
		t.Fatal(err)
	}
	return string(text)
}

func write(t *testing.T, path, text string) string {
	t.Helper()
	if err := os.WriteFile(path, []byte(text), 0o644); err != nil {
		t.Fatal(err)
	}
	return path
}

// writePrivate writes a file that nobody else may read.
func writePrivate(t *testing.T, path, text string) string {
	t.Helper()
	write(t, path, text)
	if err := os.Chmod(path, 0o600); err != nil {
		t.Fatal(err)
	}
	return path
}

// await returns when ok does.
func await(t *testing.T, what string, ok func() bool) {
	t.Helper()
	for end := time.Now().Add(patience); !ok(); time.Sleep(10 * time.Millisecond) {
		if time.Now().After(end) {
			t.Fatalf("waited for %v in vain: %s", patience, what)
		}
	}
}
