package child

import (
	"syscall"

	"golang.org/x/sys/unix"
	"golang.org/x/term"

	"github.com/leasectl/leasectl/internal/sys"
)

// terminal is the controlling terminal of this process. All methods but restoreModes may be
// called on nil, which stands for no terminal. The caller holds the mu of the child's group, or
// has not published the child yet.
type terminal struct {
	fd    int
	home  int         // our process group
	modes *term.State // before the child had the terminal
	child *term.State // of the child, when it last lost the terminal
}

// OnTerminal tells whether this process has a controlling terminal, whose keys send
// SIGINT and SIGQUIT: see [Status].
func OnTerminal() bool {
	t := openTerminal()
	t.close()
	return t != nil
}

// openTerminal returns nil if there is no terminal, or if our group has no id here because it
// belongs to another PID namespace.
func openTerminal() *terminal {
	home := syscall.Getpgrp()
	if home == 0 {
		return nil
	}
	fd, err := unix.Open("/dev/tty", unix.O_RDWR|unix.O_NOCTTY|unix.O_CLOEXEC, 0)
	if err != nil {
		return nil
	}
	t := &terminal{fd: fd, home: home}
	if t.modes, err = term.GetState(fd); err != nil {
		t.close()
		return nil
	}
	return t
}

func (t *terminal) close() {
	if t != nil {
		unix.Close(t.fd)
	}
}

// eager tells whether a child with these descriptors should have the terminal
// from the start.
func (t *terminal) eager(stdin, stdout uintptr) bool {
	if t == nil || foreground(int(stdin)) != t.home {
		return false
	}
	_, pipe := sys.PipeInode(stdout)
	return !pipe
}

// lend hands the terminal to a group if our group has it, and reports whether the group has it
// now.
func (t *terminal) lend(group int) (lent bool) {
	if t == nil {
		return false
	}
	WithoutTTOU(func() {
		switch foreground(t.fd) {
		case group:
			lent = true
		case t.home:
			if modes, err := term.GetState(t.fd); err == nil {
				t.modes = modes
			}
			if t.child != nil {
				term.Restore(t.fd, t.child)
			}
			lent = setForeground(t.fd, group) == nil
		}
	})
	return lent
}

// reclaim takes the terminal back from the group, or from any group that has ended, and reports
// whether it did. It does not take the terminal from other groups, such as a shell that has put
// us into the background.
func (t *terminal) reclaim(group int) (reclaimed bool) {
	if t == nil {
		return false
	}
	WithoutTTOU(func() {
		current := foreground(t.fd)
		if current <= 0 || current == t.home || current != group && syscall.Kill(-current, 0) != syscall.ESRCH {
			return
		}
		if modes, err := term.GetState(t.fd); err == nil {
			t.child = modes
		}
		reclaimed = setForeground(t.fd, t.home) == nil
	})
	return reclaimed
}

// restoreModes undoes what the child did to the terminal's modes.
func (t *terminal) restoreModes() {
	WithoutTTOU(func() { term.Restore(t.fd, t.modes) })
}

// WithoutTTOU calls do with SIGTTOU blocked. So do may change the terminal from the background,
// which would stop our process group otherwise (tcsetpgrp(3)), or write to it, which would with
// stty tostop. While a child has the terminal we are in the background.
func WithoutTTOU(do func()) { sys.Blocked(syscall.SIGTTOU, do) }

// foreground returns the foreground process group of the terminal fd; -1 if fd is not our
// controlling terminal, 0 if the group has no id here.
func foreground(fd int) int {
	group, err := unix.IoctlGetInt(fd, unix.TIOCGPGRP)
	if err != nil {
		return -1
	}
	return int(int32(group)) // a pid_t
}

func setForeground(fd, group int) error {
	return unix.IoctlSetPointerInt(fd, unix.TIOCSPGRP, group)
}
