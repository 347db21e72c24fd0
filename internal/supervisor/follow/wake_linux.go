package follow

import (
	"context"
	"os"
	"path/filepath"
	"syscall"
	"time"
)

// waker says when a log may have changed.
type waker struct {
	path  string
	queue *os.File // of inotify(7); nil: there is none
	polls bool     // the log must be polled, since something cannot be watched
	read  []byte
}

func newWaker(path string) *waker {
	w := &waker{path: path, polls: true}
	fd, err := syscall.InotifyInit1(syscall.IN_CLOEXEC | syscall.IN_NONBLOCK)
	if err == nil {
		w.queue = os.NewFile(uintptr(fd), "inotify")
		w.read = make([]byte, 4<<10) // one event and the longest name take less
	}
	return w
}

const (
	fileEvents = syscall.IN_MODIFY | syscall.IN_ATTRIB | syscall.IN_MOVE_SELF | syscall.IN_DELETE_SELF
	// dirEvents are for the log's directory, or for the nearest directory above it that exists.
	dirEvents = syscall.IN_CREATE | syscall.IN_MOVED_TO | syscall.IN_MOVED_FROM | syscall.IN_DELETE |
		syscall.IN_MOVE_SELF | syscall.IN_DELETE_SELF | syscall.IN_ONLYDIR
)

// arm makes each change from now on end a wait. Watching a path again changes nothing, and the
// kernel ends the watch of a file that is gone.
func (w *waker) arm() {
	if w.queue == nil {
		return
	}
	w.polls = remote(w.path)
	// Go up to the nearest directory that exists: its watch reports what is created in it from
	// then on. Then go down again, to directories that were created before that.
	dirs := []string{filepath.Dir(w.path)}
	for dir := dirs[0]; w.watch(dir, dirEvents) == syscall.ENOENT && dir != filepath.Dir(dir); {
		dir = filepath.Dir(dir)
		dirs = append(dirs, dir)
	}
	below := len(dirs) - 1
	for below > 0 && w.watch(dirs[below-1], dirEvents) == nil {
		below--
	}
	if below == 0 {
		w.watch(w.path, fileEvents)
	}
}

func (w *waker) watch(path string, events uint32) error {
	conn, err := w.queue.SyscallConn()
	if err != nil {
		return err
	}
	if e := conn.Control(func(fd uintptr) { _, err = syscall.InotifyAddWatch(int(fd), path, events) }); e != nil {
		return e
	}
	if err != nil && err != syscall.ENOENT {
		w.polls = true
	}
	return err
}

// wait returns when something has changed since arm, or ctx has ended. The change need not be
// one of the log.
func (w *waker) wait(ctx context.Context) {
	if w.polls {
		pause(ctx, pollEvery)
		return
	}
	stop := context.AfterFunc(ctx, func() { w.queue.SetReadDeadline(time.Unix(1, 0)) })
	defer stop()
	w.queue.Read(w.read)
	// A program writes its log in many small pieces: they are read together.
	pause(ctx, gather)
}

// gather is how long wait waits for more pieces of a log after the first.
const gather = 50 * time.Millisecond

func (w *waker) close() {
	if w.queue != nil {
		w.queue.Close()
	}
}

// remote reports whether the log is on a file system that other machines may write to: inotify
// does not report their changes.
func remote(path string) bool {
	var fs syscall.Statfs_t
	if syscall.Statfs(path, &fs) != nil {
		if syscall.Statfs(filepath.Dir(path), &fs) != nil {
			return false
		}
	}
	switch uint32(fs.Type) {
	case 0x6969, 0x517B, 0xFF534D42, 0xFE534D42, 0x65735546, 0x00C36400, 0x01021997:
		return true // NFS, SMB, CIFS, SMB2, FUSE, Ceph, 9P: statfs(2)
	}
	return false
}
