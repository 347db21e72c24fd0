package holder

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
)

// maxSocketPath is what fits into the sun_path of unix(7) on Linux (108 bytes)
// and macOS (104), with the zero at its end.
const maxSocketPath = 103

// shortSocket returns a path for a socket that fits into a socket address. A
// longer one goes through an open descriptor of its folder, which must stay
// open until done is called.
func shortSocket(path string) (short string, done func(), err error) {
	if len(path) <= maxSocketPath {
		return path, func() {}, nil
	}
	if runtime.GOOS != "linux" {
		return "", nil, fmt.Errorf("socket path of %d bytes: at most %d fit: set a shorter $LEASECTL_STATE_DIR or --socket", len(path), maxSocketPath)
	}
	dir, err := os.Open(filepath.Dir(path))
	if err != nil {
		return "", nil, fmt.Errorf("open the folder of socket %s: %w", path, err)
	}
	short = fmt.Sprintf("/proc/self/fd/%d/%s", dir.Fd(), filepath.Base(path))
	if len(short) > maxSocketPath {
		dir.Close()
		return "", nil, fmt.Errorf("socket name %q of %d bytes: choose a shorter one", filepath.Base(path), len(filepath.Base(path)))
	}
	return short, func() { dir.Close() }, nil
}

// accepts tells whether somebody accepts connections on a Unix socket, whose
// path is short enough. On Linux that is also known of one who has no room for
// another now (EAGAIN, connect(2)). An error leaves it open, as when this process
// has no descriptor left.
func accepts(socket string) (bool, error) {
	conn, err := net.Dial("unix", socket)
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

// ListenSocket listens on a Unix socket at path, of any length, that only the
// caller's user may connect to. The file that a killed server left is replaced;
// a socket that somebody serves is [ErrInvalid], as is a file that is none.
// done closes the listener and removes the socket if it still is this one.
func ListenSocket(ctx context.Context, path string) (l net.Listener, done func(), err error) {
	short, closeDir, err := shortSocket(path)
	if err != nil {
		return nil, nil, err
	}
	defer func() {
		if err != nil {
			closeDir()
		}
	}()
	if err := removeDead(path, short); err != nil {
		return nil, nil, err
	}
	old := syscall.Umask(0o177) // so that the socket is ours alone from its first moment
	l, err = new(net.ListenConfig).Listen(ctx, "unix", short)
	syscall.Umask(old)
	if err != nil {
		return nil, nil, fmt.Errorf("listen on socket %s: %w", path, err)
	}
	// Not unlinked by its path, which may be another server's socket when this
	// one closes.
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

// removeDead removes the socket that a killed server left.
func removeDead(path, short string) error {
	info, err := os.Lstat(path)
	if err != nil {
		return nil
	}
	if info.Mode().Type() != fs.ModeSocket {
		return invalidf("--socket %q: a file that is not a socket is there", path)
	}
	switch live, err := accepts(short); {
	case err != nil:
		return fmt.Errorf("find out whether a server listens on socket %s: %w", path, err)
	case live:
		return invalidf("--socket %q: another server listens there", path)
	}
	if err := os.Remove(path); err != nil {
		return fmt.Errorf("remove the socket of an earlier server: %w", err)
	}
	return nil
}
