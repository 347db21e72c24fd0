package etcdtest

import (
	"fmt"
	"os"
	"os/exec"
	"regexp"
	"sync"
	"testing"

	"github.com/leasectl/leasectl/internal/testprogram"
)

// variable chooses the etcd of the tests. Its name does not begin with LEASECTL_: tests of the
// command remove such variables, which are those of their user.
const variable = "TEST_ETCD"

// program is the path of etcd for the tests of this process.
var program = sync.OnceValues(func() (string, error) {
	switch chosen := os.Getenv(variable); chosen {
	case "":
		if path, err := exec.LookPath("etcd"); err == nil {
			return path, nil
		}
		return built()
	case "built":
		return built()
	default:
		return exec.LookPath(chosen)
	}
})

// Need skips t where there is no etcd and none can be built. If CI is true, or TEST_ETCD chooses
// an etcd, it fails t instead. It may block for the time of the build.
func Need(t testing.TB) {
	t.Helper()
	if testing.Short() {
		t.Skip("starts etcd")
	}
	_, err := program()
	if err == nil {
		return
	}
	if os.Getenv("CI") == "true" || os.Getenv(variable) != "" {
		t.Fatalf("no etcd for tests: %v", err)
	}
	t.Log(err)
	t.Skip("PATH has no etcd, and none can be built: install one, or see why: go test -count=1 -v ./internal/proxyserver/store/etcd/etcdtest")
}

// Version returns the version of the tests' etcd, and the path of its program.
func Version() (version, path string, err error) {
	path, err = program()
	if err != nil {
		return "", "", err
	}
	out, err := exec.Command(path, "--version").Output()
	m := regexp.MustCompile(`etcd Version: (\S+)`).FindSubmatch(out)
	if err != nil || m == nil {
		return "", path, fmt.Errorf("%s --version: %q, %v", path, out, err)
	}
	return string(m[1]), path, nil
}

// built returns the etcd of the module program.
func built() (string, error) {
	return testprogram.FromTree("etcd", "internal/proxyserver/store/etcd/etcdtest/program", "go.etcd.io/etcd/server/v3")
}
