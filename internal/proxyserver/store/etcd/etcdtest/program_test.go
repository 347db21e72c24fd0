package etcdtest

import (
	"errors"
	"os"
	"os/exec"
	"strings"
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
