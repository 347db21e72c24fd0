package etcdtest

import (
	"bytes"
	"context"
	"crypto/sha256"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"runtime"
	"sync"
	"testing"
	"time"

	"github.com/leasectl/leasectl/lockfile"
	"github.com/leasectl/leasectl/proxyserver/store/storetest"
)

// variable chooses the etcd of the tests. Its name does not begin with LEASECTL_: tests of the
// command remove such variables, which are those of their user.
const variable = "TEST_ETCD"

// buildTime bounds the build of etcd, or the wait for another process that builds it. With an empty
// cache of the go command it takes a minute on two cores.
const buildTime = 15 * time.Minute

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
	t.Skip("PATH has no etcd, and none can be built: install one, or see why: go test -count=1 -v ./proxyserver/store/etcd/etcdtest")
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
	source, err := sourceDir()
	if err != nil {
		return "", err
	}
	dir, err := cacheDir()
	if err != nil {
		return "", err
	}
	return buildOnce(source, dir)
}

// buildOnce builds the module in source, unless a process has built it in dir before, and returns
// the path of the program. Other processes that want the same program wait for it.
func buildOnce(source, dir string) (string, error) {
	name, err := builtName(source)
	if err != nil {
		return "", err
	}
	path := filepath.Join(dir, name)
	ctx, cancel := context.WithTimeout(context.Background(), buildTime)
	defer cancel()
	return path, lockfile.WithLock(ctx, path+".lock", func() error {
		if _, err := os.Stat(path); !errors.Is(err, fs.ErrNotExist) {
			return err
		}
		return build(ctx, source, path)
	})
}

// build compiles a program. A kill leaves at most a file PATH.new, which the next build replaces.
func build(ctx context.Context, source, path string) error {
	file := path + ".new"
	if err := os.Remove(file); err != nil && !errors.Is(err, fs.ErrNotExist) {
		return err
	}
	cmd := exec.CommandContext(ctx, "go", "build", "-mod=readonly", "-buildvcs=false", "-trimpath", "-ldflags=-s -w", "-o", file, ".")
	cmd.Dir = source
	cmd.Env = append(os.Environ(), "CGO_ENABLED=0", "GOWORK=off", "GOFLAGS=")
	var out bytes.Buffer
	cmd.Stdout, cmd.Stderr = &out, &out
	// With a parent: the go command of a test that was killed must not write the file later.
	err := storetest.StartWithParent(cmd)
	if err == nil {
		err = cmd.Wait()
	}
	if err != nil {
		return fmt.Errorf("build etcd in %s: %w\n%s", source, err, bytes.TrimSpace(out.Bytes()[max(0, out.Len()-2000):]))
	}
	return os.Rename(file, path)
}

// sourceDir returns the directory of the module program. A test runs in the directory of its
// package, which is in the tree.
func sourceDir() (string, error) {
	dir, err := os.Getwd()
	if err != nil {
		return "", err
	}
	for {
		mod, err := os.ReadFile(filepath.Join(dir, "go.mod"))
		if err == nil && bytes.HasPrefix(mod, []byte("module github.com/leasectl/leasectl\n")) {
			return filepath.Join(dir, "proxyserver", "store", "etcd", "etcdtest", "program"), nil
		}
		parent := filepath.Dir(dir)
		if parent == dir {
			return "", errors.New("the source of etcd for tests was not found: run the tests in the tree of leasectl")
		}
		dir = parent
	}
}

// builtName names the program after the version of etcd and all that it is made from.
func builtName(source string) (string, error) {
	hash := sha256.New()
	fmt.Fprintln(hash, runtime.Version(), runtime.GOOS, runtime.GOARCH)
	var version string
	for _, file := range []string{"go.mod", "go.sum", "main.go"} {
		data, err := os.ReadFile(filepath.Join(source, file))
		if err != nil {
			return "", err
		}
		fmt.Fprintf(hash, "%s %d\n%s", file, len(data), data)
		if m := regexp.MustCompile(`go\.etcd\.io/etcd/server/v3 v(\S+)`).FindSubmatch(data); file == "go.mod" && m != nil {
			version = string(m[1])
		}
	}
	return fmt.Sprintf("etcd-%s-%x", version, hash.Sum(nil)[:8]), nil
}

// cacheDir returns a directory of this user that outlives the tests: in the user's cache, or
// among the temporary files where the cache cannot be written.
func cacheDir() (string, error) {
	dir, err := os.UserCacheDir()
	if err == nil {
		if dir, err = ownDir(dir, "leasectl-tests"); err == nil {
			return dir, nil
		}
	}
	dir, tmpErr := ownDir(os.TempDir(), fmt.Sprintf("leasectl-tests-%d", os.Getuid()))
	if tmpErr != nil {
		return "", fmt.Errorf("no directory for etcd: %w", errors.Join(err, tmpErr))
	}
	return dir, nil
}

// ownDir makes a directory that only this user can write, and checks that this user can.
func ownDir(parent, name string) (dir string, err error) {
	if err := os.MkdirAll(parent, 0o700); err != nil {
		return "", err
	}
	dir = filepath.Join(parent, name)
	if err := lockfile.MakeDir(dir); err != nil {
		return "", err
	}
	probe, err := os.CreateTemp(dir, "probe-")
	if err != nil {
		return "", err
	}
	probe.Close()
	return dir, os.Remove(probe.Name())
}
