package process

import (
	"os"
	"os/signal"
	"sync"
	"syscall"
	"unsafe"

	"golang.org/x/sys/unix"

	"github.com/leasectl/leasectl/internal/sys"
)

func reapOrphans() (stop func()) {
	if !adopts() {
		return func() {}
	}
	died := make(chan os.Signal, 1) // room for one is enough: a sweep reaps all orphans
	signal.Notify(died, syscall.SIGCHLD)
	end := make(chan struct{})
	var reaper sync.WaitGroup
	reaper.Go(func() {
		for {
			blocker := sweep()
			select {
			case <-died:
			case <-blocker:
			case <-end:
				return
			}
		}
	})
	return sync.OnceFunc(func() {
		signal.Stop(died)
		close(end)
		reaper.Wait()
	})
}

// adopts tells whether orphans become children of this process.
func adopts() bool {
	if os.Getpid() == 1 {
		return true
	}
	var subreaper int32
	err := unix.Prctl(unix.PR_GET_CHILD_SUBREAPER, uintptr(unsafe.Pointer(&subreaper)), 0, 0, 0)
	return err == nil && subreaper != 0
}

// sweep reaps the orphans that have ended, up to the first zombie that is not an orphan.
// blocker is closed when that zombie is reaped; it is nil if there is none.
func sweep() (blocker <-chan struct{}) {
	sys.ForkLock.Lock() // a new child must be registered before its zombie is seen
	defer sys.ForkLock.Unlock()
	for {
		info, err := sys.WaitidAny(sys.WaitEnd | sys.WaitPeek | sys.WaitNow)
		if err != nil || info.Pid() == 0 {
			return nil
		}
		if reaped, ok := sys.Started(info.Pid()); ok {
			return reaped
		}
		if err := sys.RetryInterrupted(func() error {
			_, err := unix.Wait4(info.Pid(), nil, unix.WNOHANG, nil)
			return err
		}); err != nil {
			return nil
		}
	}
}
