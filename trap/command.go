package trap

import (
	"errors"
	"fmt"
	"os"
	"sync"
	"syscall"
)

// Command says what [Start] starts.
type Command struct {
	Args []string // Args[0] is a path, or a name that is searched in PATH
	Env  []string // as in [os.Environ], which it is if nil
	Dir  string   // where it runs; the current directory if empty

	// Stdin, Stdout and Stderr are handed over as they are, so nobody has to
	// copy and nobody waits for who else holds them. A nil one is /dev/null.
	Stdin, Stdout, Stderr *os.File

	// ParentDeath is the signal that the kernel sends to the child, not to its
	// group, when this process ends without having ended the child; 0 is none.
	// A child that runs a set-user-ID program loses it (prctl(2),
	// PR_SET_PDEATHSIG). Outside Linux nothing is sent.
	ParentDeath syscall.Signal
}

// forks lets processes start side by side, but none while StartDetached has
// changed which descriptors a new process inherits.
var forks sync.RWMutex

// Start starts a command in a process group of its own. The error is
// [ErrNotFound] or [ErrNotExecutable] if the command is at fault.
//
// Descriptors above 2 that this process has inherited are inherited further.
//
// If this process group is the foreground of its terminal, the child's becomes
// the foreground: at once if the terminal is its standard input, unless its
// standard output is a pipe, since the reader may be a pager that needs the
// terminal as well; else as soon as the child asks for the terminal.
func Start(c Command) (*Child, error) {
	if len(c.Args) == 0 {
		return nil, errors.New("start: no command")
	}
	path, err := lookup(c.Args[0])
	if err != nil {
		return nil, err
	}
	if err := checkDir(c.Dir); err != nil {
		return nil, err
	}
	files, closeNull, err := descriptors(c.Stdin, c.Stdout, c.Stderr)
	if err != nil {
		return nil, err
	}
	defer closeNull()

	child := newChild()
	attr := &syscall.ProcAttr{Dir: c.Dir, Env: environment(c.Env), Files: files, Sys: &syscall.SysProcAttr{Setpgid: true}}
	setParentDeath(attr.Sys, c.ParentDeath)
	if child.tty.eager(files[0], files[1]) {
		attr.Sys.Foreground = true // done by the new process itself, before it can look
		attr.Sys.Ctty = child.tty.fd
	}
	started := make(chan error)
	go child.supervise(func() (int, error) {
		forks.RLock()
		defer forks.RUnlock()
		pid, _, err := syscall.StartProcess(path, c.Args, attr)
		return pid, err
	}, started)
	if err := <-started; err != nil {
		return nil, explain(path, c.Dir, err)
	}
	return child, nil
}

// checkDir tells a missing directory from a missing command: the kernel has one
// error for both.
func checkDir(dir string) error {
	if dir == "" {
		return nil
	}
	info, err := os.Stat(dir)
	if err == nil && !info.IsDir() {
		err = &os.PathError{Op: "chdir", Path: dir, Err: syscall.ENOTDIR}
	}
	if err != nil {
		return fmt.Errorf("start in %s: %w", dir, err)
	}
	return nil
}

// descriptors returns those of the files, /dev/null for a nil one. done closes
// what it opened.
func descriptors(files ...*os.File) (fds []uintptr, done func(), err error) {
	var null *os.File
	done = func() {
		if null != nil {
			null.Close()
		}
	}
	for _, f := range files {
		if f == nil {
			if null == nil {
				if null, err = os.OpenFile(os.DevNull, os.O_RDWR, 0); err != nil {
					return nil, done, err
				}
			}
			f = null
		}
		fds = append(fds, f.Fd())
	}
	return fds, done, nil
}

func environment(env []string) []string {
	if env == nil {
		return os.Environ()
	}
	return env
}
