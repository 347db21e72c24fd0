package main

import (
	"bytes"
	"fmt"
	"net"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/leasectl/leasectl/cmd/leasectl/clitest"
)

// If the proxy is gone or silent, status says so within seconds, in one line that names the proxy.
// It prints the record of the handle all the same.
func TestStatusWithoutProxy(t *testing.T) {
	t.Parallel()
	program := clitest.Build(t, "")
	var all sync.WaitGroup
	for _, silent := range []bool{false, true} {
		w := newWorld(t, program, "install=1")
		relay := w.Relay()
		w.Run(0, "acquire", "--type", "install", "--handle", "h")
		if relay.Silent.Store(silent); !silent {
			relay.Close()
		}
		proxy := w.Variable("LEASE_PROXY_SERVER_URL")
		for _, args := range [][]string{{"status"}, {"status", "--handle", "h"}, {"status", "--handle", "h", "--output", "json"}} {
			all.Go(func() {
				var stdout, stderr bytes.Buffer
				clitest.Promptly(t, 5*time.Second, func() time.Duration { // 3 s, and a slow machine
					stdout.Reset()
					stderr.Reset()
					cmd := w.Command(args...)
					cmd.Stdout, cmd.Stderr = &stdout, &stderr
					begun := time.Now()
					if code := clitest.ExitCode(cmd.Run()); code != exitUnreachable {
						t.Errorf("%v: exit code %d", args, code)
					}
					return time.Since(begun)
				})
				if strings.Count(stderr.String(), "\n") != 1 || !strings.Contains(stderr.String(), proxy) || strings.Contains(stderr.String(), "context") {
					t.Errorf("%v: stderr %q", args, &stderr)
				}
				if says := strings.Contains(stdout.String(), "install-0"); says != (len(args) > 1) || strings.Contains(stdout.String(), "not known") {
					t.Errorf("%v: stdout %q", args, &stdout)
				}
			})
		}
	}
	all.Wait()
}

// If the first server of a list is on a machine that is down, the next one answers.
func TestStatusOfAListWithASilentServer(t *testing.T) {
	t.Parallel()
	w := newWorld(t, clitest.Build(t, ""), "install=1")
	live := httptest.NewServer(http.HandlerFunc(func(rw http.ResponseWriter, _ *http.Request) {
		rw.Write([]byte(`{"pools": [{"type": "install"}]}`))
	}))
	t.Cleanup(live.Close)
	silent, err := net.Listen("tcp", "127.0.0.1:0") // nobody accepts
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { silent.Close() })
	clitest.Promptly(t, 8*time.Second, func() time.Duration { // an attempt is given up after 4 s
		begun := time.Now()
		text, err := w.Command("status", "--proxy", "http://"+silent.Addr().String()+","+live.URL).CombinedOutput()
		if err != nil || !strings.Contains(string(text), "install") {
			t.Fatalf("%v: %s", err, text)
		}
		return time.Since(begun)
	})
}

// The server says for how long a pool has been paused, since its clock may differ from ours.
func TestPausedForByTheServersClock(t *testing.T) {
	t.Parallel()
	w := newWorld(t, clitest.Build(t, ""), "install=1")
	ahead := httptest.NewServer(http.HandlerFunc(func(rw http.ResponseWriter, r *http.Request) {
		since := time.Now().Add(10 * time.Minute).UTC().Format(time.RFC3339)
		if r.Method == http.MethodPost {
			fmt.Fprintf(rw, `{"type": "install", "reason": "throttled", "for": "7s", "since": %q}`, since)
			return
		}
		fmt.Fprintf(rw, `{"pools": [{"type": "install", "paused": "throttled", "paused_for": "7s", "paused_since": %q}]}`, since)
	}))
	t.Cleanup(ahead.Close)
	for want, args := range map[string][]string{"install  7s ": {"status"}, "it was paused for 7s (throttled)": {"resume", "install"}} {
		text, err := w.Command(append(args, "--proxy", ahead.URL)...).CombinedOutput()
		if err != nil || !strings.Contains(string(text), want) {
			t.Errorf("%v: %v: %s", args, err, text)
		}
	}
}
