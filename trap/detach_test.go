package trap

import (
	"context"
	"errors"
	"os"
	"os/signal"
	"path/filepath"
	"strings"
	"syscall"
	"testing"

	"golang.org/x/sys/unix"
)

// daemonMode is a background process that behaves as its argument says.
func daemonMode(args []string) int {
	terminated := make(chan os.Signal, 1)
	signal.Notify(terminated, syscall.SIGTERM)
	say := func(s string) { os.Stdout.WriteString(s + "\n") }
	say(itoa(os.Getpid()))
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
		pid, _, err := syscall.StartProcess("/bin/sh", shell("exec sleep 1000"), attr)
		if err != nil {
			panic(err)
		}
		say(itoa(pid))
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
	say("session " + itoa(session))
	say("group " + itoa(syscall.Getpgrp()))
	say("dir " + dir)
	say("terminal " + errors.Unwrap(err).Error())
	say("input " + itoa(stdin))
	fds, _ := inheritedDescriptors()
	for _, fd := range fds {
		if fd != readyFD {
			say("descriptor " + itoa(fd))
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
func detach(t *testing.T, ctx context.Context, args ...string) (pid int, log *lines, err error) {
	t.Helper()
	log, w := report(t)
	argv, env := self("daemon", args...)
	pid, err = StartDetached(ctx, argv, env, w)
	w.Close()
	if err == nil {
		t.Cleanup(func() { syscall.Kill(-pid, syscall.SIGKILL); detached.Wait() })
		log.want(itoa(pid))
	}
	return pid, log, err
}

// A background process has nothing of ours but its log, and what we inherited
// is still there for others.
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
	log.want(
		"session "+itoa(pid),
		"group "+itoa(pid),
		"dir /",
		"terminal "+syscall.ENXIO.Error(),
		"input 0",
		"variable ",
		"stderr too",
	)

	child := start(t, Command{Args: shell("echo still here >&" + itoa(inherited))})
	if s := wait(t, child); s.Code != 0 {
		t.Errorf("a later child: %v", s)
	}
	if data, _ := os.ReadFile(file.Name()); string(data) != "still here\n" {
		t.Errorf("the file holds %q", data)
	}

	// It is reaped when it ends, as long as we live.
	syscall.Kill(pid, syscall.SIGTERM)
	detached.Wait()
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
		awaitGone(t, atoi(t, log.next()))
		if pid != 0 {
			t.Errorf("process id %d with an error", pid)
		}
	}
}

// A process that ends without a word is an error that says how it ended, even if
// somebody else still holds its pipe.
func TestDetachedDies(t *testing.T) {
	for _, mode := range []string{"die", "die holding the pipe"} {
		_, log, err := detach(t, t.Context(), mode)
		if !errors.Is(err, errSilent) {
			t.Fatalf("%s: %v, want %v", mode, err, errSilent)
		}
		contains(t, err.Error(), "exit status 3")
		for _, pid := range log.rest() { // ends when nobody is left
			awaitGone(t, atoi(t, pid))
		}
	}
}

// What a process said before it ended counts, even if its end is noticed first
// and somebody else still holds its pipe.
func TestLastWordsAreHeard(t *testing.T) {
	child := start(t, Command{Args: shell("exit 0")})
	wait(t, child) // its id stands for a process that has ended
	for message, want := range map[string]string{"+\x00": "", "-no port is free\x00": "no port is free", "": errSilent.Error(), "-no po": errSilent.Error()} {
		for range 50 {
			r, w, err := os.Pipe()
			if err != nil {
				t.Fatal(err)
			}
			w.WriteString(message)
			got := ""
			if err := awaitReady(t.Context(), r, child.Pid()); err != nil {
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
	log, w := report(t)
	argv, env := self("daemon", "hang")
	done := make(chan error, 1)
	go func() {
		_, err := StartDetached(ctx, argv, env, w)
		done <- err
	}()
	pid := atoi(t, log.next())
	cancel(cause)
	if err := receive(t, done); !errors.Is(err, cause) {
		t.Errorf("%v, want %v", err, cause)
	}
	if err := syscall.Kill(pid, 0); err != syscall.ESRCH {
		t.Errorf("the process is still there: %v", err)
	}
}

// Only the first word counts, and none is an error.
func TestReadyTwice(t *testing.T) {
	pid, log, err := detach(t, t.Context(), "two words")
	if err != nil {
		t.Fatal(err)
	}
	syscall.Kill(pid, syscall.SIGTERM)
	if said := log.rest(); len(said) > 0 {
		t.Errorf("said %q", said)
	}
}

// In a process that nobody waits for, Ready writes nothing, even if a variable
// and a pipe are there.
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
	for path, want := range map[string]error{"/no/such/program": ErrNotFound, "no-such-command": ErrNotFound, plain: ErrNotExecutable} {
		if _, err := StartDetached(t.Context(), []string{path}, nil, nil); !errors.Is(err, want) {
			t.Errorf("%s: %v, want %v", path, err, want)
		}
	}
	if _, err := StartDetached(t.Context(), nil, nil, nil); err == nil {
		t.Error("no command was started")
	}
}

// starterMode starts a daemon with its own standard output as log, and ends.
func starterMode([]string) int {
	argv, env := self("daemon", "describe")
	if _, err := StartDetached(context.Background(), argv, env, os.Stdout); err != nil {
		panic(err)
	}
	return 0
}

// A background process outlives whoever started it, and everything that is sent
// to its starter's group.
func TestDetachedOutlivesItsStarter(t *testing.T) {
	log, w := report(t)
	argv, env := self("starter")
	starter := start(t, Command{Args: argv, Env: env, Stdout: w})
	w.Close()
	pid := atoi(t, log.next())
	defer syscall.Kill(-pid, syscall.SIGKILL)
	if s := starter.Stop(0, patience); s.ExitCode() != 0 {
		t.Fatalf("the starter ended with %v", s)
	}
	if gone(pid) {
		t.Fatal("the process ended with its starter")
	}
	syscall.Kill(pid, syscall.SIGTERM)
	awaitGone(t, pid)
}
