package child

import (
	"errors"
	"os"
	"strings"
	"sync"
	"syscall"

	"github.com/leasectl/leasectl/internal/sys"
)

// Command says what [Start] starts.
type Command struct {
	// Path is the file of the command, such as one that [LookPath] found. If it is empty, Start
	// looks Args[0] up.
	Path string
	Args []string // Args[0] is the name that the command sees as its own
	Env  []string // the whole environment, in the form of [os.Environ]; nil is an empty one
	Dir  string   // where it runs; "" is our own directory

	// Stdin, Stdout and Stderr are handed over without copying, so Wait does not
	// depend on other processes that hold them. A nil one is /dev/null.
	Stdin, Stdout, Stderr *os.File

	// ParentDeath is the signal that the kernel sends to the child, not to its group, when this
	// process ends before the child; 0 is none. A child that runs a set-user-ID program loses
	// it (prctl(2), PR_SET_PDEATHSIG). Outside Linux nothing is sent.
	ParentDeath syscall.Signal

	// Peak asks for the peak memory of the command; see [Process.Peak].
	Peak bool
}

// Start starts a command in a process group of its own. The error is [ErrNotFound] or
// [ErrNotExecutable] if the command is at fault.
//
// A script whose first line names no interpreter is run by /bin/sh, as execvp(3) does.
//
// The child also inherits the descriptors above 2 that this process has inherited.
//
// If this process group is the foreground of its terminal, the child's becomes the foreground
// as soon as the child asks for the terminal. It becomes the foreground at once if the terminal
// is the child's standard input and its standard output is no pipe: the reader of a pipe may be
// a pager that needs the terminal as well.
func Start(c Command) (*Process, error) {
	if len(c.Args) == 0 {
		return nil, errors.New("start: no command")
	}
	path, err := c.path()
	if err != nil {
		return nil, err
	}
	files, closeNull, err := sys.Descriptors(c.Stdin, c.Stdout, c.Stderr)
	if err != nil {
		return nil, err
	}
	defer closeNull()

	p := &Process{group: newGroup(), done: make(chan struct{}), wantsPeak: c.Peak}
	if c.Peak {
		p.cgroup = cgroupOfOurOwn()
	}
	attr := &syscall.ProcAttr{Dir: c.Dir, Env: c.Env, Files: files, Sys: &syscall.SysProcAttr{Setpgid: true}}
	setParentDeath(attr.Sys, c.ParentDeath)
	if tty := p.group.tty; tty.eager(files[0], files[1]) {
		attr.Sys.Foreground = true // done by the new process itself, before it can look
		attr.Sys.Ctty = tty.fd
	}
	started := make(chan error)
	// Nobody waits for this goroutine. WaitGroup.Go avoids a go statement, which would have the
	// runtime read the name of this function, and so a part of the program that is read for
	// nothing else.
	var supervision sync.WaitGroup
	supervision.Go(func() {
		p.supervise(func() (int, error) {
			sys.ForkLock.RLock()
			defer sys.ForkLock.RUnlock()
			pid, err := sys.StartProcess(path, c.Args, attr)
			if err == syscall.ENOEXEC && isScript(path) {
				p.group.tty.reclaim(0) // the process that failed may have got the terminal
				path, c.Args = shell, append([]string{shell, path}, c.Args[1:]...)
				pid, err = sys.StartProcess(path, c.Args, attr)
			}
			return pid, err
		}, started)
	})
	if err := <-started; err != nil {
		return nil, explain(path, err)
	}
	return p, nil
}

// path returns the file to start.
func (c Command) path() (string, error) {
	switch name := c.Args[0]; {
	case c.Path != "":
		return c.Path, nil
	case strings.Contains(name, "/"):
		return name, nil
	default:
		return LookPath(name)
	}
}
