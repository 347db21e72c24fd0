// Package testprogram builds programs of others that tests need, from their Go modules: once per
// version, into the user's cache directory. That takes a minute or two, the go command, and a
// network if its caches lack a module.
//
// A program in the cache is whole, whatever was killed while it was built. Processes that want the
// same program at once wait for one build.
package testprogram

import (
	"bytes"
	"context"
	"crypto/sha256"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"os/exec"
	"path"
	"path/filepath"
	"regexp"
	"runtime"
	"time"

	"github.com/leasectl/leasectl/internal/proxyserver/store/storetest"
	"github.com/leasectl/leasectl/lockfile"
)

// buildTime bounds a build, or the wait for another process that builds. With an empty cache of the
// go command etcd takes a minute on two cores, Terraform two.
const buildTime = 15 * time.Minute

// FromTree builds the program in the directory dir of leasectl's tree, which is a module of its own,
// and returns its path. The file in the cache is named name, with the version that the module requires
// of another module. The test runs in the directory of its package. FromTree blocks for the build.
func FromTree(name, dir, module string) (string, error) {
	tree, err := treeDir()
	if err != nil {
		return "", err
	}
	cache, err := cacheDir()
	if err != nil {
		return "", err
	}
	return fromSource(cache, name, filepath.Join(tree, filepath.FromSlash(dir)), module)
}

// FromModule builds the program that go install takes from a version of a module, such as v1.2.3, and
// returns its path. It blocks for the build.
func FromModule(module, version string) (string, error) {
	cache, err := cacheDir()
	if err != nil {
		return "", err
	}
	name := fmt.Sprintf("%s-%s-%x", path.Base(module), version, digest(module)[:8])
	return buildOnce(cache, name, func(ctx context.Context, dir string) *exec.Cmd {
		cmd := goCommand(ctx, "install", module+"@"+version)
		cmd.Env = append(cmd.Env, "GOBIN="+dir)
		return cmd
	})
}

// fromSource is FromTree for a module in the directory source.
func fromSource(cache, name, source, module string) (string, error) {
	files, err := filepath.Glob(filepath.Join(source, "*.go"))
	if err != nil {
		return "", err
	}
	required := regexp.MustCompile(`(?m)^(?:require)?\s*` + regexp.QuoteMeta(module) + ` v(\S+)`)
	var version string
	var made []string
	for _, file := range append(files, filepath.Join(source, "go.mod"), filepath.Join(source, "go.sum")) {
		data, err := os.ReadFile(file)
		if err != nil {
			return "", err
		}
		made = append(made, filepath.Base(file), string(data))
		if m := required.FindSubmatch(data); filepath.Base(file) == "go.mod" && m != nil {
			version = string(m[1])
		}
	}
	name = fmt.Sprintf("%s-%s-%x", name, version, digest(made...)[:8])
	return buildOnce(cache, name, func(ctx context.Context, dir string) *exec.Cmd {
		cmd := goCommand(ctx, "build", "-mod=readonly", "-o", dir+string(filepath.Separator), ".")
		cmd.Dir = source
		return cmd
	})
}

// digest is a hash of what a program is made from.
func digest(from ...string) []byte {
	hash := sha256.New()
	for _, s := range append(from, runtime.Version(), runtime.GOOS, runtime.GOARCH) {
		fmt.Fprintf(hash, "%d:%s", len(s), s)
	}
	return hash.Sum(nil)
}

// goCommand returns a go command that compiles a program, whatever the settings of the go command are.
func goCommand(ctx context.Context, verb string, args ...string) *exec.Cmd {
	cmd := exec.CommandContext(ctx, "go", append([]string{verb, "-buildvcs=false", "-trimpath", "-ldflags=-s -w"}, args...)...)
	cmd.Env = append(os.Environ(), "CGO_ENABLED=0", "GOWORK=off", "GOFLAGS=")
	return cmd
}

// buildOnce returns the path of the program name in the cache. Unless it is there, build returns the
// command that writes it into a directory, as its only file.
func buildOnce(cache, name string, build func(ctx context.Context, dir string) *exec.Cmd) (string, error) {
	file := filepath.Join(cache, name)
	ctx, cancel := context.WithTimeout(context.Background(), buildTime)
	defer cancel()
	return file, lockfile.WithLock(ctx, file+".lock", func() error {
		if _, err := os.Stat(file); !errors.Is(err, fs.ErrNotExist) {
			return err
		}
		fresh := file + ".new" // all that a kill leaves
		if err := os.RemoveAll(fresh); err != nil {
			return err
		}
		if err := os.Mkdir(fresh, 0o700); err != nil {
			return err
		}
		defer os.RemoveAll(fresh)
		if err := run(build(ctx, fresh)); err != nil {
			return fmt.Errorf("build %s: %w", name, err)
		}
		made, err := os.ReadDir(fresh)
		if err != nil {
			return err
		}
		if len(made) != 1 {
			return fmt.Errorf("build %s: it made %v, want one file", name, made)
		}
		return os.Rename(filepath.Join(fresh, made[0].Name()), file)
	})
}

// run runs cmd, which ends with this process: the go command of a test that was killed must not
// write a file later.
func run(cmd *exec.Cmd) error {
	var out bytes.Buffer
	cmd.Stdout, cmd.Stderr = &out, &out
	err := storetest.StartWithParent(cmd)
	if err == nil {
		err = cmd.Wait()
	}
	if err != nil {
		said := bytes.TrimSpace(out.Bytes())
		return fmt.Errorf("%w\n%s", err, said[max(0, len(said)-2000):])
	}
	return nil
}

// treeDir returns the root of leasectl's tree, above the current directory.
func treeDir() (string, error) {
	dir, err := os.Getwd()
	if err != nil {
		return "", err
	}
	for {
		mod, err := os.ReadFile(filepath.Join(dir, "go.mod"))
		if err == nil && bytes.HasPrefix(mod, []byte("module github.com/leasectl/leasectl\n")) {
			return dir, nil
		}
		parent := filepath.Dir(dir)
		if parent == dir {
			return "", errors.New("the source of a program for tests was not found: run the tests in the tree of leasectl")
		}
		dir = parent
	}
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
		return "", fmt.Errorf("no directory for programs of tests: %w", errors.Join(err, tmpErr))
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
