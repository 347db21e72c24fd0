package main

import (
	"bytes"
	"net/http"
	"net/http/httputil"
	"net/url"
	"os"
	"regexp"
	"strings"
	"testing"
	"time"

	"github.com/leasectl/leasectl/cmd/leasectl/clitest"
)

// An attempt whose lease ended when the next one asked in its place does not say of that lease that it was not
// released, also if there is no other.
func TestAttemptWithoutAnotherLease(t *testing.T) {
	t.Parallel()
	w := newWorld(t, clitest.Build(t, ""), "one=1")
	start := func(args ...string) (wait func() (code int, stderr string)) {
		cmd := w.Command(append([]string{"exec", "--type", "one"}, args...)...)
		var stderr bytes.Buffer
		cmd.Stderr = &stderr
		if err := cmd.Start(); err != nil {
			t.Fatal(err)
		}
		return func() (int, string) { return clitest.ExitCode(cmd.Wait()), stderr.String() }
	}
	first := start("--attempts", "3", "--retry-on", "4", "--wait-timeout", "1s", "--", "sh", "-c", "touch up; until test -e go; do sleep 0.02; done; exit 4")
	w.Await("the first attempt", func() bool { return clitest.Exists(w.Path("up")) })
	second := start("--", "sh", "-c", "until test -e end; do sleep 0.02; done")
	w.Await("the other job to wait", func() bool { return w.Pool("one").Waiting == 1 })
	touch(t, w.Path("go"))
	code, stderr := first()
	touch(t, w.Path("end"))
	if code != exitNoLease || !strings.Contains(stderr, "no lease of type") || strings.Contains(stderr, "not released") {
		t.Errorf("exit code %d\n%s", code, stderr)
	}
	if code, stderr := second(); code != 0 {
		t.Errorf("the other job: exit code %d\n%s", code, stderr)
	}
}

func touch(t *testing.T, path string) {
	t.Helper()
	if err := os.WriteFile(path, nil, 0o600); err != nil {
		t.Fatal(err)
	}
}

// A server that does not say in time whether a lease is free is not taken for a full one.
func TestSlowServerIsNotFull(t *testing.T) {
	t.Parallel()
	w := newWorld(t, clitest.Build(t, ""), "one=1")
	address, _ := w.Listen(http.HandlerFunc(func(out http.ResponseWriter, req *http.Request) {
		time.Sleep(1500 * time.Millisecond)
		proxy := httputil.NewSingleHostReverseProxy(&url.URL{Scheme: "http", Host: "server"})
		proxy.Transport = clitest.UnixTransport(w.Path("proxy.sock"))
		proxy.ServeHTTP(out, req)
	}))
	for _, wait := range []string{"0", "100ms"} {
		cmd := w.Command("exec", "--proxy", address, "--type", "one", "--wait-timeout", wait, "--", "true")
		var stderr bytes.Buffer
		cmd.Stderr = &stderr
		if code := clitest.ExitCode(cmd.Run()); code != exitUnreachable || strings.Contains(stderr.String(), "no lease of type") {
			t.Errorf("--wait-timeout %s: exit code %d, want %d\n%s", wait, code, exitUnreachable, &stderr)
		}
	}
	w.Await("nothing to be held", func() bool { return len(w.Pool("one").Leases) == 0 })
}

// A late release of a shared lease stops its commands, whenever and from wherever it is asked for, and with
// the true reason.
func TestLateReleaseOfSharedLease(t *testing.T) {
	t.Parallel()
	const release, confirmed = `"$0" release --handle "$LEASECTL_HANDLE" --delay 3s --detach; `, `until test -e go; do sleep 0.02; done; `
	for name, script := range map[string]string{"at once": release, "after a renewal": confirmed + release, "elsewhere": ""} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			w := newWorld(t, clitest.Build(t, ""), "one=1")
			cmd := w.Command("exec", "--type", "one", "--shared", "build", "--grace-period", "1s", "--ttl", "10s", "--", "sh", "-c",
				script+"exec sleep 600", w.Program)
			var stderr bytes.Buffer
			cmd.Stderr = &stderr
			if err := cmd.Start(); err != nil {
				t.Fatal(err)
			}
			if script != release { // which may give it back before it is confirmed
				w.Await("the lease to be confirmed", func() bool {
					leases := w.Pool("one").Leases
					return len(leases) == 1 && !leases[0].Provisional
				})
			}
			touch(t, w.Path("go"))
			if script == "" { // the next renewal tells
				elsewhere := w.Command("release", "--names", "one-0", "--owner", w.Pool("one").Leases[0].Owner, "--delay", "8s", "--detach")
				elsewhere.Env = append(elsewhere.Env, "LEASECTL_STATE_DIR="+w.Path("elsewhere"))
				if out, err := elsewhere.CombinedOutput(); err != nil {
					t.Errorf("%v\n%s", err, out)
				}
			}
			code := clitest.ExitCode(cmd.Wait())
			if code != exitLost || !regexp.MustCompile(`lease lost: released late, at [0-9:]+: stopping the command`).MatchString(stderr.String()) {
				t.Errorf("exit code %d\n%s", code, &stderr)
			}
		})
	}
}

// An acquire whose shell was killed while it waited takes no lease: nobody would release it.
func TestAcquireWhoseShellWasKilled(t *testing.T) {
	t.Parallel()
	for _, command := range []string{"acquire", "reacquire"} {
		t.Run(command, func(t *testing.T) {
			t.Parallel()
			w := newWorld(t, clitest.Build(t, ""), "one=1")
			w.Run(0, "acquire", "--type", "one", "--handle", w.Path("holder"))
			shell := w.Command(command, "--type", "one", "--handle", w.Path("h"))
			shell.Args = append([]string{"sh", "-c", `"$@" >/dev/null 2>said; true`, "sh"}, append([]string{w.Program}, shell.Args[1:]...)...)
			shell.Path = "/bin/sh"
			if err := shell.Start(); err != nil {
				t.Fatal(err)
			}
			w.Await("it to wait", func() bool { return w.Pool("one").Waiting == 1 })
			shell.Process.Kill()
			shell.Wait()
			w.Await("it to give up", func() bool { return w.Pool("one").Waiting == 0 })
			w.Run(0, "release", "--handle", w.Path("holder"))
			w.Await("its last words", func() bool {
				said, _ := os.ReadFile(w.Path("said"))
				return strings.Contains(string(said), "the process that started this has ended: no lease is taken")
			})
			if pool := w.Pool("one"); len(pool.Leases) > 0 || clitest.Exists(w.Path("h")) {
				t.Errorf("held: %v", pool.Leases)
			}
		})
	}
}
