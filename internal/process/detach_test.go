package process

import (
	"context"
	"errors"
	"io/fs"
	"os"
	"os/signal"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
	"testing"

	"golang.org/x/sys/unix"

	"github.com/leasectl/leasectl/internal/sys"
	"github.com/leasectl/leasectl/internal/testenv"
)

// daemonMode is a background process that behaves as its argument says.
func daemonMode(args []string) int {
	terminated := make(chan os.Signal, 1)
	signal.Notify(terminated, syscall.SIGTERM)
	say := func(s string) { os.Stdout.WriteString(s + "\n") }
	say(strconv.Itoa(os.Getpid()))
	switch args[0] {
	case "describe":
		describe(say)
	case "fail":
		Ready(errors.New(args[1]))
		return 1
	case "hang":
	case "die":
		return 3
	case "die holding the pipe":
		// A child of it has the pipe as well: its end does not close it.
		attr := &syscall.ProcAttr{Files: []uintptr{0, 1, 2, readyFD}}
		pid, _, err := syscall.StartProcess("/bin/sh", testenv.Shell("exec sleep 1000"), attr)
		if err != nil {
			panic(err)
		}
		say(strconv.Itoa(pid))
		return 3
	case "two words":
		for range 2 {
			if err := Ready(nil); err != nil {
				say(err.Error())
			}
			Ready(errors.New("too late"))
		}
	}
	<-terminated
	return 0
}

func describe(say func(string)) {
	session, _ := unix.Getsid(0)
	dir, _ := os.Getwd()
	_, err := os.OpenFile("/dev/tty", os.O_RDWR, 0)
	stdin, _ := os.Stdin.Read(make([]byte, 1))
	say("session " + strconv.Itoa(session))
	say("group " + strconv.Itoa(syscall.Getpgrp()))
	say("dir " + dir)
	say("terminal " + errors.Unwrap(err).Error())
	say("input " + strconv.Itoa(stdin))
	fds, _ := inheritedDescriptors()
	for _, fd := range fds {
		if fd != readyFD {
			say("descriptor " + strconv.Itoa(fd))
		}
	}
	Ready(nil)
	say("variable " + os.Getenv(readyName))
	if _, err := unix.FcntlInt(readyFD, unix.F_GETFD, 0); err != unix.EBADF {
		say("the pipe is still open")
	}
	os.Stderr.WriteString("stderr too\n")
}

// detach starts a daemon that logs to lines; the first is its process id.
func detach(t *testing.T, ctx context.Context, args ...string) (pid int, log *testenv.Lines, err error) {
	t.Helper()
	log, w := testenv.Report(t)
	argv, env := testenv.Self("daemon", args...)
	pid, err = StartDetached(ctx, argv, env, w)
	w.Close()
	if err == nil {
		t.Cleanup(func() { syscall.Kill(-pid, syscall.SIGKILL); awaitReaped(t) })
		log.Want(strconv.Itoa(pid))
	}
	return pid, log, err
}

// A background process has nothing of ours but its log, and the descriptors that we inherited
// stay open for others.
func TestDetachedHasNothingOfOurs(t *testing.T) {
	file, err := os.CreateTemp(t.TempDir(), "")
	if err != nil {
		t.Fatal(err)
	}
	defer file.Close()
	inherited, err := syscall.Dup(int(file.Fd())) // without close-on-exec, as a shell leaves it
	if err != nil {
		t.Fatal(err)
	}
	defer syscall.Close(inherited)
	t.Setenv(readyName, "1234") // as a process has it that a daemon started too early

	pid, log, err := detach(t, t.Context(), "describe")
	if err != nil {
		t.Fatal(err)
	}
	log.Want(
		"session "+strconv.Itoa(pid),
		"group "+strconv.Itoa(pid),
		"dir /",
		"terminal "+syscall.ENXIO.Error(),
		"input 0",
		"variable ",
		"stderr too",
	)

	// Not by os/exec, which hands over what it is told to.
	later, _, err := syscall.StartProcess("/bin/sh", testenv.Shell("echo still here >&"+strconv.Itoa(inherited)), &syscall.ProcAttr{})
	if err != nil {
		t.Fatal(err)
	}
	var ws syscall.WaitStatus
	if _, err := syscall.Wait4(later, &ws, 0, nil); err != nil || ws != 0 {
		t.Errorf("a later child: status %v (%v)", ws, err)
	}
	if data, _ := os.ReadFile(file.Name()); string(data) != "still here\n" {
		t.Errorf("the file holds %q", data)
	}

	// It is reaped when it ends, as long as we live.
	syscall.Kill(pid, syscall.SIGTERM)
	awaitReaped(t)
	if err := syscall.Kill(pid, 0); err != syscall.ESRCH {
		t.Errorf("the process is still there: %v", err)
	}
}

// The process's own error comes back, however odd.
func TestDetachedFails(t *testing.T) {
	long := strings.Repeat("no port is free\n", 1000)
	for _, text := range []string{"no port is free", "", "+", "a\nb", long} {
		pid, log, err := detach(t, t.Context(), "fail", text)
		if err == nil {
			t.Fatalf("%q: ready", text)
		}
		want := text[:min(len(text), readyMax-2)]
		if !strings.HasSuffix(err.Error(), ": "+want) || errors.Is(err, errSilent) {
			t.Errorf("%q: %v", text, err)
		}
		testenv.AwaitGone(t, testenv.Atoi(t, log.Next()))
		if pid != 0 {
			t.Errorf("process id %d with an error", pid)
		}
	}
}

// If a process ends without a message, the error says how it ended, even if another process
// still holds its pipe.
func TestDetachedDies(t *testing.T) {
	for _, mode := range []string{"die", "die holding the pipe"} {
		_, log, err := detach(t, t.Context(), mode)
		if !errors.Is(err, errSilent) {
			t.Fatalf("%s: %v, want %v", mode, err, errSilent)
		}
		testenv.Contains(t, err.Error(), "exit status 3")
		for _, pid := range log.Rest() { // ends when nobody is left
			testenv.AwaitGone(t, testenv.Atoi(t, pid))
		}
	}
}

// The message of a process that has ended counts, even if its end is noticed first and another
// process still holds its pipe.
func TestLastWordsAreHeard(t *testing.T) {
	ended := testenv.Start(t, testenv.Shell("exit 0"), nil, nil, nil, nil)
	ended.Wait() // its id stands for a process that has ended
	for message, want := range map[string]string{"+\x00": "", "-no port is free\x00": "no port is free", "": errSilent.Error(), "-no po": errSilent.Error()} {
		for range 50 {
			r, w, err := os.Pipe()
			if err != nil {
				t.Fatal(err)
			}
			w.WriteString(message)
			got := ""
			if err := awaitReady(t.Context(), r, ended.Process.Pid); err != nil {
				got = err.Error()
			}
			r.Close()
			w.Close()
			if got != want {
				t.Fatalf("after %q: %q, want %q", message, got, want)
			}
		}
	}
}

// A process that is not ready when the context ends is killed.
func TestDetachedIsCancelled(t *testing.T) {
	cause := errors.New("enough")
	ctx, cancel := context.WithCancelCause(t.Context())
	log, w := testenv.Report(t)
	argv, env := testenv.Self("daemon", "hang")
	done := make(chan error, 1)
	go func() {
		_, err := StartDetached(ctx, argv, env, w)
		done <- err
	}()
	pid := testenv.Atoi(t, log.Next())
	cancel(cause)
	if err := testenv.Receive(t, done); !errors.Is(err, cause) {
		t.Errorf("%v, want %v", err, cause)
	}
	if err := syscall.Kill(pid, 0); err != syscall.ESRCH {
		t.Errorf("the process is still there: %v", err)
	}
}

// Only the first call counts, and a further call is no error.
func TestReadyTwice(t *testing.T) {
	pid, log, err := detach(t, t.Context(), "two words")
	if err != nil {
		t.Fatal(err)
	}
	syscall.Kill(pid, syscall.SIGTERM)
	if said := log.Rest(); len(said) > 0 {
		t.Errorf("said %q", said)
	}
}

// In a process that nobody waits for, Ready writes nothing, even if the variable and a pipe are
// there.
func TestReadyWithoutAnybodyWaiting(t *testing.T) {
	if err := Ready(nil); err != nil {
		t.Error(err)
	}
	t.Setenv(readyName, "1")
	if err := Ready(errors.New("x")); err != nil {
		t.Error(err)
	}
}

func TestDetachedNotFound(t *testing.T) {
	plain := filepath.Join(t.TempDir(), "plain")
	if err := os.WriteFile(plain, nil, 0o644); err != nil {
		t.Fatal(err)
	}
	for path, want := range map[string]error{"/no/such/program": fs.ErrNotExist, "sh": fs.ErrNotExist, plain: fs.ErrPermission} {
		if _, err := StartDetached(t.Context(), []string{path}, nil, nil); !errors.Is(err, want) {
			t.Errorf("%s: %v, want %v", path, err, want)
		}
	}
	if _, err := StartDetached(t.Context(), nil, nil, nil); err == nil {
		t.Error("no command was started")
	}
}

// A background process has the environment that it is given, and no other: not ours if it is given
// none. It is a shell, which does without variables.
func TestDetachedEnvironment(t *testing.T) {
	t.Setenv("SECRET", "x")
	for _, env := range [][]string{nil, {}, {"OTHER=y"}} {
		log, w := testenv.Report(t)
		_, err := StartDetached(t.Context(), testenv.Shell(`printf '+\0' >&3; echo "${SECRET-none} ${OTHER-none}"`), env, w)
		w.Close()
		if err != nil {
			t.Fatal(err)
		}
		want := "none none"
		if len(env) > 0 {
			want = "none y"
		}
		log.Want(want)
	}
	awaitReaped(t)
}

// starterMode starts a daemon with its own standard output as log, and ends.
func starterMode([]string) int {
	argv, env := testenv.Self("daemon", "describe")
	if _, err := StartDetached(context.Background(), argv, env, os.Stdout); err != nil {
		panic(err)
	}
	return 0
}

// A background process outlives its starter, and all signals to its starter's group.
func TestDetachedOutlivesItsStarter(t *testing.T) {
	log, w := testenv.Report(t)
	argv, env := testenv.Self("starter")
	starter := testenv.Start(t, argv, env, nil, w, nil)
	w.Close()
	pid := testenv.Atoi(t, log.Next())
	defer syscall.Kill(-pid, syscall.SIGKILL)
	if err := starter.Wait(); err != nil {
		t.Fatalf("the starter ended with %v", err)
	}
	syscall.Kill(-starter.Process.Pid, syscall.SIGKILL) // what is left of its group
	if sys.Gone(pid) {
		t.Fatal("the process ended with its starter")
	}
	syscall.Kill(pid, syscall.SIGTERM)
	testenv.AwaitGone(t, pid)
}
