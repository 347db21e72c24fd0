package child

import (
	"errors"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
	"testing"

	"github.com/leasectl/leasectl/internal/testenv"
)

// For a command that cannot be started, the error says whether it was not found or could not be
// executed, as a shell's exit code would.
func TestStartErrors(t *testing.T) {
	dir := t.TempDir()
	write := func(name, content string, mode os.FileMode) {
		t.Helper()
		if err := os.WriteFile(filepath.Join(dir, name), []byte(content), mode); err != nil {
			t.Fatal(err)
		}
	}
	write("plain", "echo hello\n", 0o644)
	write("foreign", "\x7fELF\x02\x00\n", 0o755)
	write("lost", "#!/no/such/interpreter\n", 0o755)
	write("here", "#!/bin/sh\n", 0o755)
	if err := os.Mkdir(filepath.Join(dir, "folder"), 0o755); err != nil {
		t.Fatal(err)
	}
	t.Chdir(dir)
	for _, test := range []struct {
		name, path string // path: $PATH
		want       error
		text       string
		late       bool // LookPath cannot tell
	}{
		{name: "no-such-command", path: "/bin:/usr/bin", want: ErrNotFound, text: "$PATH"},
		{name: "", path: "/bin", want: ErrNotFound},
		{name: "./no/such/path", want: ErrNotFound, text: "no such file"},
		{name: "here", path: ":/bin", want: ErrNotFound, text: "write ./here"},
		{name: "here", path: ".:/bin", want: ErrNotFound, text: "write ./here"},
		{name: "folder", path: dir, want: ErrNotFound},
		{name: "./lost", want: ErrNotFound, text: "interpreter", late: true},
		{name: "plain", path: "/bin:" + dir, want: ErrNotExecutable, text: "permission denied"},
		{name: "./plain", want: ErrNotExecutable, text: "permission denied"},
		{name: "./folder", want: ErrNotExecutable},
		{name: "./plain/x", want: ErrNotExecutable, text: "not a directory"},
		{name: "./foreign", want: ErrNotExecutable, text: "./foreign: neither a program for this machine nor a script", late: true},
		{name: "foreign", path: dir, want: ErrNotExecutable, text: "neither a program for this machine nor a script", late: true},
		{name: "nul\x00/", want: ErrNotExecutable},
	} {
		t.Setenv("PATH", test.path)
		child, err := Start(Command{Args: []string{test.name}})
		if err == nil {
			child.Stop(syscall.SIGKILL, 0)
			t.Errorf("%q in PATH %q: started", test.name, test.path)
			continue
		}
		var got error
		for _, sentinel := range []error{ErrNotFound, ErrNotExecutable} {
			if errors.Is(err, sentinel) {
				got = sentinel
			}
		}
		_, lookErr := LookPath(test.name)
		if test.late != (lookErr == nil) || !test.late && !errors.Is(lookErr, test.want) {
			t.Errorf("LookPath(%q) in PATH %q: %v, and Start: %v", test.name, test.path, lookErr, err)
		}
		if got != test.want || !strings.Contains(err.Error(), test.text) {
			t.Errorf("%q in PATH %q: %v, want %v with %q", test.name, test.path, err, test.want, test.text)
		}
	}
	if _, err := Start(Command{}); err == nil {
		t.Error("no command was started")
	}
}

// A command has the environment that it is given, and not ours if it is given none.
func TestNoEnvironment(t *testing.T) {
	t.Setenv("SECRET", "x")
	log, w := testenv.Report(t)
	start(t, Command{Args: testenv.Shell(`echo "${SECRET-none}"`), Stdout: w})
	w.Close()
	log.Want("none")
}

// A command found in PATH runs with the name it was called by, in the directory
// and with the environment it was given.
func TestStartFindsInPath(t *testing.T) {
	dir := t.TempDir()
	if err := os.Symlink("/bin/sh", filepath.Join(dir, "found-in-path")); err != nil {
		t.Fatal(err)
	}
	t.Setenv("PATH", "/no/such/dir:"+dir)
	path, err := LookPath("found-in-path")
	if err != nil || path != filepath.Join(dir, "found-in-path") {
		t.Fatalf("found %q (%v)", path, err)
	}
	if path, err := LookPath("/bin/sh"); err != nil || path != "/bin/sh" {
		t.Fatalf("found %q (%v) for a path", path, err)
	}
	out, w := testenv.Report(t)
	child := start(t, Command{
		Args: []string{"found-in-path", "-c", `echo "$0|$X"`},
		Env:  []string{"X=y"}, Stdout: w,
	})
	w.Close()
	out.Want("found-in-path|y")
	if s := wait(t, child); s.ExitCode() != 0 {
		t.Errorf("ended with %v", s)
	}
}

// A script that names no interpreter is run by /bin/sh, as by execvp(3).
func TestStartScriptWithoutInterpreter(t *testing.T) {
	dir := t.TempDir()
	for _, script := range []struct{ name, text, says string }{
		{"bare", `echo "$0|$1|$#"`, filepath.Join(dir, "bare") + "|a b|2"},
		{"data", "echo data; exit\n\x00\x7fELF", "data"}, // a shell archive, for one
	} {
		t.Setenv("PATH", "/bin:"+dir)
		if err := os.WriteFile(filepath.Join(dir, script.name), []byte(script.text), 0o755); err != nil {
			t.Fatal(err)
		}
		out, w := testenv.Report(t)
		child := start(t, Command{Args: []string{script.name, "a b", "c"}, Stdout: w})
		w.Close()
		out.Want(script.says)
		if s := wait(t, child); s.ExitCode() != 0 {
			t.Errorf("%s ended with %v", script.name, s)
		}
	}
	empty := filepath.Join(dir, "empty")
	if err := os.WriteFile(empty, nil, 0o755); err != nil {
		t.Fatal(err)
	}
	if s := wait(t, start(t, Command{Args: []string{empty}})); s.ExitCode() != 0 {
		t.Errorf("an empty file ended with %v", s)
	}
}

// Start runs the file that LookPath found, even if PATH has changed since.
func TestStartUsesWhatWasLookedUp(t *testing.T) {
	t.Setenv("PATH", "/bin:/usr/bin")
	path, err := LookPath("sh")
	if err != nil {
		t.Fatal(err)
	}
	t.Setenv("PATH", "/no/such/dir")
	if s := wait(t, start(t, Command{Path: path, Args: []string{"sh", "-c", "exit 6"}})); s.Code != 6 {
		t.Errorf("ended with %v", s)
	}
	if _, err := Start(Command{Args: []string{"sh"}}); !errors.Is(err, ErrNotFound) {
		t.Errorf("without the path: %v, want ErrNotFound", err)
	}
}

// The child has its own group and the very descriptors it was given: a file's
// offset is shared, a missing one is /dev/null, and what we inherited stays open.
func TestStartHandsDescriptorsOver(t *testing.T) {
	file, err := os.CreateTemp(t.TempDir(), "")
	if err != nil {
		t.Fatal(err)
	}
	defer file.Close()
	inherited, err := syscall.Dup(int(file.Fd())) // without close-on-exec, as a shell leaves it
	if err != nil {
		t.Fatal(err)
	}
	defer syscall.Close(inherited)
	if inherited > 9 {
		t.Skipf("descriptor %d: a shell can name those up to 9, and whoever runs this test has them open", inherited)
	}
	in, inW, err := os.Pipe()
	if err != nil {
		t.Fatal(err)
	}
	defer in.Close()
	child := start(t, Command{
		Args:  testenv.Shell(`read go; echo one; echo two >&` + strconv.Itoa(inherited) + `; test ! -t 2 && cat <&2`),
		Stdin: in, Stdout: file,
	})
	if group, err := syscall.Getpgid(child.Pid()); err != nil || group != child.Pid() {
		t.Errorf("child %d is in group %d (%v)", child.Pid(), group, err)
	}
	inW.Close()
	if s := wait(t, child); s.Code != 0 {
		t.Fatalf("ended with %v", s)
	}
	if data, err := os.ReadFile(file.Name()); err != nil || string(data) != "one\ntwo\n" {
		t.Errorf("file holds %q (%v)", data, err)
	}
}
