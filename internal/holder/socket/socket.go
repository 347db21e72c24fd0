// Package socket listens on Unix sockets at paths of any length, and finds out whether a server
// listens on one.
package socket

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"net"
	"os"
	"path/filepath"
	"runtime"
	"syscall"

	"github.com/leasectl/leasectl/lockfile"
)

// maxPath is the longest path, in bytes, that fits into the sun_path of unix(7) on Linux (108
// bytes) and macOS (104), with the zero at its end.
const maxPath = 103

// Short returns a path to the socket at path that fits into a socket address. On Linux it
// replaces a longer path by one through an open descriptor of its folder, which done closes; on
// other systems a longer path is an error.
func Short(path string) (short string, done func(), err error) {
	if len(path) <= maxPath {
		return path, func() {}, nil
	}
	if runtime.GOOS != "linux" {
		return "", nil, fmt.Errorf("socket path of %d bytes: at most %d fit: set a shorter $LEASECTL_STATE_DIR or --socket", len(path), maxPath)
	}
	dir, err := os.Open(filepath.Dir(path))
	if err != nil {
		return "", nil, fmt.Errorf("open the folder of socket %s: %w", path, err)
	}
	short = fmt.Sprintf("/proc/self/fd/%d/%s", dir.Fd(), filepath.Base(path))
	if len(short) > maxPath {
		dir.Close()
		return "", nil, fmt.Errorf("socket name %q of %d bytes: choose a shorter one", filepath.Base(path), len(filepath.Base(path)))
	}
	return short, func() { dir.Close() }, nil
}

// Accepts tells whether a server accepts connections on the socket at path. On Linux a server
// whose backlog is full counts too (EAGAIN, connect(2)). With an error it is not known, as when
// this process has no descriptor left.
func Accepts(path string) (bool, error) {
	short, done, err := Short(path)
	if err != nil {
		return false, err
	}
	defer done()
	conn, err := net.Dial("unix", short)
	switch {
	case err == nil:
		conn.Close()
		return true, nil
	case errors.Is(err, syscall.EAGAIN):
		return true, nil
	case errors.Is(err, syscall.ECONNREFUSED), errors.Is(err, fs.ErrNotExist):
		return false, nil
	}
	return false, err
}

// While calls fn while a connection to the server at path is open, if there is one; else it only
// calls fn.
func While(path string, fn func()) {
	if short, done, err := Short(path); err == nil {
		defer done()
		if conn, err := net.Dial("unix", short); err == nil {
			defer conn.Close()
		}
	}
	fn()
}

// TakenError says that the place of a socket is taken: by a server that listens there, or
// by a file that is no socket.
type TakenError string

func (e TakenError) Error() string { return string(e) }

// Listen listens on a socket at path that only the caller's user may connect to. It
// replaces the socket of a killed server. The error is a [TakenError] if something else is
// there. done closes the listener, and removes the socket unless another has replaced it.
func Listen(ctx context.Context, path string) (l net.Listener, done func(), err error) {
	short, closeDir, err := Short(path)
	if err != nil {
		return nil, nil, err
	}
	defer func() {
		if err != nil {
			closeDir()
		}
	}()
	dead, err := findDead(path)
	if err != nil {
		return nil, nil, err
	}
	bind := func() (err error) {
		old := syscall.Umask(0o177) // so that the socket is ours alone from its first moment
		l, err = new(net.ListenConfig).Listen(ctx, "unix", short)
		syscall.Umask(old)
		return err
	}
	if dead == nil {
		err = bind()
	} else {
		err = replace(path, bind)
	}
	_, taken := errors.AsType[TakenError](err)
	switch {
	case taken:
		return nil, nil, err
	case errors.Is(err, syscall.EADDRINUSE): // another server was faster
		return nil, nil, liveError(path)
	case err != nil:
		return nil, nil, fmt.Errorf("listen on socket %s: %w", path, err)
	}
	// The listener must not unlink its path: when it closes, another server's socket may be
	// there.
	l.(*net.UnixListener).SetUnlinkOnClose(false)
	ours, err := os.Lstat(path)
	if err != nil {
		l.Close()
		return nil, nil, fmt.Errorf("listen on socket %s: %w", path, err)
	}
	return l, func() {
		if now, err := os.Lstat(path); err == nil && os.SameFile(ours, now) {
			os.Remove(path)
		}
		l.Close()
		closeDir()
	}, nil
}

// replace removes the dead socket at path and calls bind. Servers that start at the same time
// do so one after the other: a server that was slow to remove the dead socket would otherwise
// remove the one that another had just put there. Nobody could reach that server any longer.
func replace(path string, bind func() error) error {
	lock := path + ".lock"
	err := lockfile.TryLock(lock, func() error {
		defer os.Remove(lock)
		dead, err := findDead(path)
		if err == nil && dead != nil {
			err = remove(path, dead)
		}
		if err != nil {
			return err
		}
		return bind()
	})
	if errors.Is(err, lockfile.ErrLocked) { // another server begins to listen there
		return liveError(path)
	}
	return err
}

// findDead returns the socket at path if a killed server left it; nil if nothing is there.
func findDead(path string) (dead os.FileInfo, err error) {
	info, err := os.Lstat(path)
	if err != nil {
		return nil, nil
	}
	if info.Mode().Type() != fs.ModeSocket {
		return nil, TakenError(fmt.Sprintf("%q: a file that is not a socket is there", path))
	}
	switch live, err := Accepts(path); {
	case err != nil:
		return nil, fmt.Errorf("find out whether a server listens on socket %s: %w", path, err)
	case live:
		return nil, liveError(path)
	}
	return info, nil
}

func liveError(path string) error {
	return TakenError(fmt.Sprintf("%q: another server listens there", path))
}

// remove removes a dead socket, unless another server that starts now has replaced it.
func remove(path string, dead os.FileInfo) error {
	if now, err := os.Lstat(path); err == nil && !same(now, dead) {
		return liveError(path)
	}
	if err := os.Remove(path); err != nil && !errors.Is(err, fs.ErrNotExist) {
		return fmt.Errorf("remove the socket of an earlier server: %w", err)
	}
	return nil
}

// same tells whether a and b are one file. The inode of a removed file may be used again at
// once, so the time counts too.
func same(a, b os.FileInfo) bool { return os.SameFile(a, b) && a.ModTime().Equal(b.ModTime()) }
