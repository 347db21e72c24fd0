package main

import (
	"testing"
	"unsafe"

	"golang.org/x/sys/unix"

	"github.com/leasectl/leasectl/cmd/leasectl/clitest"
)

// TestFilesOfAnExec counts the files that one exec creates in its state directory: a lock, a record
// and the names of its handle, and an entry of the journal.
func TestFilesOfAnExec(t *testing.T) {
	t.Parallel()
	w := newWorld(t, clitest.Build(t, ""), "install=1")
	w.Run(0, "exec", "--type", "install", "--", "true") // makes the directories
	fd, err := unix.InotifyInit1(unix.IN_NONBLOCK | unix.IN_CLOEXEC)
	if err != nil {
		t.Skipf("inotify: %v", err)
	}
	defer unix.Close(fd)
	for _, dir := range []string{"state", "state/intents"} {
		if _, err := unix.InotifyAddWatch(fd, w.Path(dir), unix.IN_CREATE); err != nil {
			t.Fatal(err)
		}
	}
	w.Run(0, "exec", "--type", "install", "--", "true")
	var created []string
	buf := make([]byte, 64<<10)
	n, err := unix.Read(fd, buf)
	if err != nil {
		t.Fatal(err)
	}
	for at := 0; at < n; {
		event := (*unix.InotifyEvent)(unsafe.Pointer(&buf[at]))
		name := buf[at+unix.SizeofInotifyEvent : at+unix.SizeofInotifyEvent+int(event.Len)]
		created = append(created, unix.ByteSliceToString(name))
		at += unix.SizeofInotifyEvent + int(event.Len)
	}
	if len(created) != 4 {
		t.Errorf("it created %d files, want 4: %v", len(created), created)
	}
}
