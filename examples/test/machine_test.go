package test

import (
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"testing"
)

// machine is a directory that stands for the root of a server's machine: other users may look
// into it, and the program is in it.
type machine struct {
	t       *testing.T
	root    string
	program string
}

func newMachine(t *testing.T) *machine {
	t.Helper()
	root, err := os.MkdirTemp("", "examples-") // t.TempDir is for one user
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { os.RemoveAll(root) })
	if err := os.Chmod(root, 0o755); err != nil {
		t.Fatal(err)
	}
	if out, err := exec.Command(*program, "install-to", root).CombinedOutput(); err != nil {
		t.Fatalf("%v\n%s", err, out)
	}
	return &machine{t: t, root: root, program: filepath.Join(root, "leasectl")}
}

// dir makes a directory, and returns its path.
func (m *machine) dir(name string, mode fs.FileMode) string {
	m.t.Helper()
	path := filepath.Join(m.root, name)
	if err := os.Mkdir(path, mode); err != nil {
		m.t.Fatal(err)
	}
	return path
}

// file copies a file into the root.
func (m *machine) file(path string) string {
	m.t.Helper()
	text, err := os.ReadFile(path)
	if err != nil {
		m.t.Fatal(err)
	}
	return write(m.t, filepath.Join(m.root, filepath.Base(path)), string(text))
}

// give makes a directory that of a user, with its group; what is in it can be read by that
// group. Only root can; without it, the server runs as who runs the test.
func (m *machine) give(name string, uid int, mode fs.FileMode) {
	m.t.Helper()
	if os.Getuid() != 0 {
		return
	}
	dir := filepath.Join(m.root, name)
	err := filepath.WalkDir(dir, func(path string, d fs.DirEntry, err error) error {
		if err != nil || path == dir {
			return err
		}
		if err := os.Lchown(path, 0, nobody); err != nil || d.Type()&fs.ModeSymlink != 0 {
			return err
		}
		return os.Chmod(path, 0o640)
	})
	if err == nil {
		err = os.Chown(dir, uid, nobody)
	}
	if err == nil {
		err = os.Chmod(dir, mode)
	}
	if err != nil {
		m.t.Fatal(err)
	}
}
