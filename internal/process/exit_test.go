package process

import (
	"context"
	"errors"
	"os"
	"syscall"
	"testing"
	"time"

	"github.com/leasectl/leasectl/internal/sys"
	"github.com/leasectl/leasectl/internal/testenv"
)

// waiters are the ways to wait for a process's end: that of WaitExit, and its fallback.
var waiters = map[string]func(context.Context, int) error{
	"WaitExit": WaitExit,
	"pollExit": func(ctx context.Context, pid int) error {
		return sys.PollExit(ctx, pid, func() bool { return true }, time.Millisecond)
	},
}

// sleeper starts a process of another parent: a grandchild that ends when its input does.
func sleeper(t *testing.T) (pid int, end func()) {
	t.Helper()
	in, inW, err := os.Pipe()
	if err != nil {
		t.Fatal(err)
	}
	out, w := testenv.Report(t)
	testenv.Start(t, testenv.Shell(`exec 3<&0; sh -c 'echo $$; exec cat' <&3 & exec 3<&-; exec sleep 1000`), nil, in, w, nil)
	in.Close()
	return testenv.Atoi(t, out.Next()), func() { inW.Close() }
}

// The wait is over when the process ends, child or not, and not before.
func TestWaitExit(t *testing.T) {
	for name, waitExit := range waiters {
		t.Run(name, func(t *testing.T) {
			pid, end := sleeper(t)
			done := make(chan error, 1)
			go func() { done <- waitExit(t.Context(), pid) }()
			select {
			case err := <-done:
				t.Fatalf("returned %v while the process lives", err)
			default:
			}
			if !Lives(pid) {
				t.Error("Lives says that it does not")
			}
			end()
			if err := testenv.Receive(t, done); err != nil {
				t.Error(err)
			}
			if !sys.Gone(pid) || Lives(pid) {
				t.Error("the process lives") // a zombie: its parent does not wait
			}
		})
	}
}

// A process that is a zombie or does not exist has ended already, also for a
// context that has ended.
func TestWaitExitOfTheDead(t *testing.T) {
	attr := &syscall.ProcAttr{}
	pid, _, err := syscall.StartProcess("/bin/sh", testenv.Shell("exit 1"), attr)
	if err != nil {
		t.Fatal(err)
	}
	if _, err := sys.Waitid(pid, sys.WaitEnd|sys.WaitPeek); err != nil {
		t.Fatal(err)
	}
	ended, cancel := context.WithCancel(t.Context())
	cancel()
	for name, waitExit := range waiters {
		for range 2000 { // the end of the context must never be seen first
			if err := waitExit(ended, pid); err != nil {
				t.Fatalf("%s of a zombie: %v", name, err)
			}
		}
	}
	syscall.Wait4(pid, nil, 0, nil)
	for name, waitExit := range waiters {
		if err := waitExit(ended, pid); err != nil {
			t.Errorf("%s of nobody: %v", name, err)
		}
	}
}

// The end of the context ends the wait, with its cause.
func TestWaitExitIsCancelled(t *testing.T) {
	cause := errors.New("enough")
	for name, waitExit := range waiters {
		ctx, cancel := context.WithCancelCause(t.Context())
		done := make(chan error, 1)
		go func() { done <- waitExit(ctx, os.Getpid()) }()
		cancel(cause)
		if err := testenv.Receive(t, done); err != cause {
			t.Errorf("%s: %v, want %v", name, err, cause)
		}
	}
}

// Where no descriptor is free at the moment, the end of a process is polled for.
func TestWatchExitWithoutDescriptors(t *testing.T) {
	pid, end := sleeper(t)
	var limit syscall.Rlimit
	if err := syscall.Getrlimit(syscall.RLIMIT_NOFILE, &limit); err != nil {
		t.Fatal(err)
	}
	if err := syscall.Setrlimit(syscall.RLIMIT_NOFILE, &syscall.Rlimit{Cur: 0, Max: limit.Max}); err != nil {
		t.Fatal(err)
	}
	ended := WatchExit(t.Context(), pid)
	if err := syscall.Setrlimit(syscall.RLIMIT_NOFILE, &limit); err != nil {
		t.Fatal(err)
	}
	select {
	case err := <-ended:
		t.Fatalf("returned %v while the process lives", err)
	default:
	}
	end()
	if err := testenv.Receive(t, ended); err != nil {
		t.Error(err)
	}
}

// A pid that is not positive is an error: it counts neither as a process that has ended nor as
// one to wait for.
func TestWaitExitOfNoProcess(t *testing.T) {
	for _, pid := range []int{0, -1} {
		if err := WaitExit(t.Context(), pid); !errors.Is(err, syscall.EINVAL) {
			t.Errorf("process %d: %v, want EINVAL", pid, err)
		}
	}
}

// If the pid was given to another process, the wait is over at once.
func TestWaitExitOfAnother(t *testing.T) {
	another := func() bool { return false }
	if err := sys.AwaitExit(t.Context(), os.Getpid(), another, time.Hour); err != nil {
		t.Error(err)
	}
	if err := sys.PollExit(t.Context(), os.Getpid(), another, time.Hour); err != nil {
		t.Error(err)
	}
}
