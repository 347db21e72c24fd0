package child

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"syscall"

	"golang.org/x/sys/unix"
)

// Errors of a command that cannot be started. A shell's exit codes for them are
// 127 and 126 (POSIX, 2.8.2 Exit Status for Commands).
var (
	ErrNotFound      = errors.New("command not found")
	ErrNotExecutable = errors.New("command not executable")
)

// LookPath finds the file for a command's name as [exec.LookPath] does. A name with a slash is
// a path, relative to the current directory. Any other name is searched in PATH, but not in the
// relative directories that PATH may have, such as the current one. The error is [ErrNotFound]
// or [ErrNotExecutable], as that of [Start] would be. A file that is found may still fail to
// start, such as a script whose interpreter is missing.
func LookPath(name string) (string, error) {
	if strings.Contains(name, "/") {
		if err := checkExecutable(name); err != nil {
			return "", explain(name, err)
		}
		return name, nil
	}
	path, err := exec.LookPath(name)
	switch {
	case err == nil:
		return path, nil
	case errors.Is(err, exec.ErrDot):
		return "", fmt.Errorf("%w: %q is only found through a relative directory in $PATH: write ./%s to run it", ErrNotFound, name, path)
	}
	if path := plainFile(name); path != "" {
		return "", fmt.Errorf("%w: %s: permission denied", ErrNotExecutable, path)
	}
	return "", fmt.Errorf("%w: %q is in no directory of $PATH%s", ErrNotFound, name, shellHint(name))
}

// shellHint returns a hint for a command that only a shell would understand, as flock -c and others
// accept. It returns "" if the command looks like a file, whose path may have blanks.
func shellHint(name string) string {
	before, _, assigns := strings.Cut(name, "=")
	switch {
	case strings.ContainsAny(name, "\n;|<>"), strings.Contains(name, "&&"), hasArguments(name):
		return ": shell code needs sh -c"
	case assigns && !strings.Contains(before, "/"):
		return ": a variable before a command needs env"
	}
	return ""
}

// hasArguments tells whether a name that is not found looks like a program and its arguments:
// its first word is a program, or has no slash, as a shell's own cd.
func hasArguments(name string) bool {
	words := strings.Fields(name)
	switch {
	case len(words) < 2:
		return false
	case !strings.Contains(words[0], "/"):
		return true
	}
	_, err := LookPath(words[0])
	return err == nil
}

// checkExecutable returns the errno of execve(2) for a path that is no regular file or may not
// be executed.
func checkExecutable(path string) error {
	var st unix.Stat_t
	if err := unix.Stat(path, &st); err != nil {
		return err
	}
	if st.Mode&unix.S_IFMT != unix.S_IFREG {
		return syscall.EACCES
	}
	err := unix.Faccessat(unix.AT_FDCWD, path, unix.X_OK, unix.AT_EACCESS)
	if err == unix.EACCES {
		return err
	}
	return nil // a sandbox may forbid faccessat(2); execve(2) will tell
}

// plainFile finds a file in PATH that only lacks the permission to be executed. execvp(3) and
// shells also tell this case from a missing file.
func plainFile(name string) string {
	if name == "" {
		return ""
	}
	for _, dir := range filepath.SplitList(os.Getenv("PATH")) {
		path := filepath.Join(dir, name)
		if info, err := os.Stat(path); filepath.IsAbs(path) && err == nil && info.Mode().IsRegular() {
			return path
		}
	}
	return ""
}

// shell runs scripts that name no interpreter.
const shell = "/bin/sh"

// isScript tells whether a file that is no program may be a script. As in shells, a script has
// no NUL byte in its first line (POSIX, 2.9.1.6 Non-built-in Utility Execution).
func isScript(path string) bool {
	f, err := os.Open(path)
	if err != nil {
		return false
	}
	defer f.Close()
	begin := make([]byte, 512) // a binary file has a NUL byte sooner
	n, err := io.ReadFull(f, begin)
	if err != nil && err != io.EOF && err != io.ErrUnexpectedEOF {
		return false
	}
	line, _, _ := bytes.Cut(begin[:n], []byte("\n"))
	return !bytes.Contains(line, []byte{0})
}

// execErrors are the errors of execve(2) that are about the file or its arguments. Others, such
// as EAGAIN or ENOMEM, say that no process could be made.
var execErrors = []syscall.Errno{
	syscall.EACCES, syscall.EPERM, syscall.ENOEXEC, syscall.ENOTDIR, syscall.EISDIR,
	syscall.ELOOP, syscall.ENAMETOOLONG, syscall.ETXTBSY, syscall.E2BIG, syscall.EINVAL,
}

// explain turns the errno of a failed start into an error that says what is
// wrong with the command.
func explain(path string, err error) error {
	errno, ok := err.(syscall.Errno)
	switch {
	case ok && errno == syscall.ENOENT:
		if _, statErr := os.Stat(path); statErr == nil {
			return fmt.Errorf("%w: %s is there, but the interpreter or loader that it names is not", ErrNotFound, path)
		}
		return fmt.Errorf("%w: %s: %w%s", ErrNotFound, path, err, shellHint(path))
	case ok && errno == syscall.ENOEXEC:
		return fmt.Errorf("%w: %s: neither a program for this machine nor a script", ErrNotExecutable, path)
	case ok && slices.Contains(execErrors, errno):
		return fmt.Errorf("%w: %s: %w", ErrNotExecutable, path, err)
	}
	return fmt.Errorf("start %s: %w", path, err)
}
