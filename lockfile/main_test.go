package lockfile

import (
	"bufio"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
)

// children are the functions of the test binary when it is run as another process. Each reports
// on stdout; the test waits for the first line.
var children = map[string]func(args []string) error{
	"count":     childCount,
	"hold":      childHold,
	"journal":   childJournal,
	"churn":     childChurn,
	"full-disk": childFullDisk,
	"stranger":  childStranger,
	"checkout":  childCheckout,
}

const childEnv = "LOCKFILE_TEST_CHILD"

func TestMain(m *testing.M) {
	if name := os.Getenv(childEnv); name != "" {
		if err := children[name](os.Args[1:]); err != nil {
			fmt.Println("error:", err)
			os.Exit(1)
		}
		return
	}
	os.Exit(m.Run())
}

// child is a process of the test binary.
type child struct {
	*exec.Cmd
	stdin io.WriteCloser
	out   *bufio.Reader
}

// startChild starts a child. The child ends with the test at the latest: its stdin ends, and it
// is killed.
func startChild(t *testing.T, uid int, name string, args ...string) *child {
	t.Helper()
	exe, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	c := &child{Cmd: exec.Command(exe, args...)}
	c.Env = append(os.Environ(), childEnv+"="+name)
	c.Dir = "/"
	c.Stderr = os.Stderr
	if uid != os.Geteuid() {
		// The folder of the binary is closed to others; this link is not. With umask 077 the
		// binary is closed, too.
		c.Path = "/proc/self/exe"
		if err := os.Chmod(exe, 0o755); err != nil {
			t.Fatal(err)
		}
		c.SysProcAttr = &syscall.SysProcAttr{Credential: &syscall.Credential{Uid: uint32(uid), Gid: uint32(uid)}}
	}
	if c.stdin, err = c.StdinPipe(); err != nil {
		t.Fatal(err)
	}
	stdout, err := c.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	c.out = bufio.NewReader(stdout)
	if err := c.Start(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		c.stdin.Close()
		c.Process.Kill()
		c.Wait()
	})
	return c
}

// line returns the next line of the child's output, "" at its end.
func (c *child) line() string {
	s, _ := c.out.ReadString('\n')
	return strings.TrimSuffix(s, "\n")
}

func (c *child) end(t *testing.T) {
	t.Helper()
	rest, _ := io.ReadAll(c.out)
	if err := c.Wait(); err != nil {
		t.Fatalf("child: %v: %s", err, rest)
	}
}

// handleIn returns a handle in a fresh directory.
func handleIn(t testing.TB) Handle {
	t.Helper()
	h, err := OpenHandle(filepath.Join(t.TempDir(), "handle"))
	if err != nil {
		t.Fatal(err)
	}
	return h
}

func write(t testing.TB, path, text string) {
	t.Helper()
	if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
}

func read(t testing.TB, path string) string {
	t.Helper()
	data, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	return string(data)
}

// ls returns the names in a directory, separated by spaces.
func ls(t testing.TB, dir string) string {
	t.Helper()
	entries, err := os.ReadDir(dir)
	if err != nil {
		t.Fatal(err)
	}
	var names []string
	for _, e := range entries {
		names = append(names, e.Name())
	}
	return strings.Join(names, " ")
}

// wantError fails unless err says text.
func wantError(t testing.TB, err error, text string) {
	t.Helper()
	if err == nil || !strings.Contains(err.Error(), text) {
		t.Errorf("error %v, want one that says %q", err, text)
	}
}

func ok(t testing.TB, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}

// stranger is a user that is not the one of the test.
const stranger = 65534

// needRoot skips the test unless it runs as root: only root can start a stranger.
func needRoot(t *testing.T) {
	t.Helper()
	if os.Geteuid() != 0 {
		t.Skip("only root can give a file to another user")
	}
}
