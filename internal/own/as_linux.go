package own

import (
	"errors"
	"fmt"
	"io/fs"
	"runtime"

	"golang.org/x/sys/unix"
)

// adopts says that root can use the directories of another user: with the rights of that user.
const adopts = true

// as runs fn in a thread that has the rights of another user to files, and no groups but that user's. The
// thread ends with fn: nobody else gets it.
func as(o Owner, fn func() error) error {
	done := make(chan error, 1)
	go func() {
		runtime.LockOSThread() // and never unlocks
		err := become(o)
		if err == nil {
			err = fn()
		}
		done <- err
	}()
	err := <-done
	if errors.Is(err, fs.ErrPermission) {
		err = fmt.Errorf("%w, as user %d, to whom its directory or one above belongs: run as user %d, or use another directory", err, o.User, o.User)
	}
	return err
}

// become changes what the kernel compares with the owner of a file, of this thread only. It takes away root's
// right to pass over modes, too.
func become(o Owner) error {
	_, _, failed := unix.RawSyscall(unix.SYS_SETGROUPS, 0, 0, 0)
	unix.SetfsgidRetGid(o.Group)
	unix.SetfsuidRetUid(o.User)
	group, _ := unix.SetfsgidRetGid(-1) // changes nothing, and returns what is in force
	user, _ := unix.SetfsuidRetUid(-1)
	if failed != 0 || user != o.User || group != o.Group {
		return fmt.Errorf("take the rights of user %d: %w", o.User, fs.ErrPermission)
	}
	return nil
}
