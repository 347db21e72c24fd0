package main

import (
	"bytes"
	"fmt"
	"io"
	"net/http"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/leasectl/leasectl/cmd/leasectl/clitest"
)

// trouble is a proxy that grants no lease.
type trouble struct {
	name string
	h    http.HandlerFunc // nil: the world's own proxy
	typ  string           // to ask for
	says string           // part of the line that says why
}

// answering returns a proxy that gives every request the same answer.
func answering(status int, body string, header ...string) http.HandlerFunc {
	return func(w http.ResponseWriter, r *http.Request) {
		io.Copy(io.Discard, r.Body)
		for i := 0; i+1 < len(header); i += 2 {
			w.Header().Set(header[i], header[i+1])
		}
		w.WriteHeader(status)
		io.WriteString(w, body)
	}
}

// gone marks a case in which nobody listens at all.
func gone(http.ResponseWriter, *http.Request) {}

var troubles = []trouble{
	{name: "absent", h: gone, says: "does not answer"},
	{name: "full", typ: "full", says: `no lease of type "full"`},
	{name: "unknown type", typ: "other", says: `unknown lease type "other"`},
	{name: "slow: accepts, never answers", says: "does not answer", h: func(_ http.ResponseWriter, r *http.Request) {
		io.Copy(io.Discard, r.Body) // the server notices a lost connection only after that
		<-r.Context().Done()
	}},
	{name: "fails", h: answering(500, "no store"), says: "500 Internal Server Error: no store"},
	{name: "fails, in version 1's words", h: answering(500, `Failed to acquire lease "install": no store`), says: "no store"},
	{name: "fails, and asks for a long pause", h: answering(503, "busy", "Retry-After", "3600"), says: "503 Service Unavailable: busy"},
	{name: "garbage", h: answering(200, "{]\x1b[2J\nleasectl: acquired it"), says: "answered 200 OK: {] [2J leasectl: acquired it"},
	{name: "another JSON", h: answering(200, `{"status":"ok"}`), says: `answered 200 OK: {"status":"ok"}`},
	{name: "login page", h: answering(200, "<!DOCTYPE html>\n<p>log in", "Content-Type", "text/html"), says: "an HTML or XML page"},
	{name: "redirect", h: answering(302, "", "Location", "https://login.test/"), says: `redirects to "https://login.test/"`},
	{name: "wants a token", h: answering(401, ""), says: "wants a token"},
	{name: "endless", says: "longer than", h: func(w http.ResponseWriter, r *http.Request) {
		io.Copy(io.Discard, r.Body)
		for r.Context().Err() == nil {
			w.Write(make([]byte, 64<<10))
		}
	}},
	{name: "hangs up", says: "EOF", h: func(_ http.ResponseWriter, r *http.Request) {
		io.Copy(io.Discard, r.Body)
		panic(http.ErrAbortHandler)
	}},
}

// Whatever is wrong with the proxy: with --optional the command runs and is told that it has no
// lease, its exit code counts, and one line says why there is no lease. An acquire prints its
// handle and succeeds.
func TestOptional(t *testing.T) {
	t.Parallel()
	w := newWorld(t, clitest.Build(t, ""), "install=1", "full=1")
	w.Run(0, "acquire", "--type", "full", "--handle", "blocker")
	var all sync.WaitGroup // run together, so that the test takes as long as the slowest
	for i, tt := range troubles {
		address := w.Variable("LEASE_PROXY_SERVER_URL")
		if tt.h != nil {
			var closing func()
			if address, closing = w.Listen(tt.h); tt.name == "absent" {
				closing()
			}
		}
		if tt.typ == "" {
			tt.typ = "install"
		}
		take := []string{"--proxy", address, "--type", tt.typ, "--optional", "--wait-timeout", "500ms"}
		// Each case has its own state directory, so that no case settles another's journal.
		env := func(kind string) string {
			return "LEASECTL_STATE_DIR=" + w.Path(fmt.Sprintf("state-%s-%d", kind, i))
		}
		all.Go(func() {
			begun := time.Now()
			why, out := w.goesOn(7, env("exec"), append(append([]string{"exec"}, take...), "--", "sh", "-c",
				`echo "$LEASECTL_STATE:$LEASECTL_HANDLE$LEASECTL_NAMES$LEASED_RESOURCE"; exit 7`))
			if out != "degraded:\n" || !strings.Contains(why, "sh runs without a lease: ") || !strings.Contains(why, tt.says) {
				t.Errorf("%s: exec: stdout %q, stderr %q: want %q", tt.name, out, why, tt.says)
			}
			t.Logf("%s: %v: %s", tt.name, time.Since(begun).Round(time.Millisecond), why)
		})
		all.Go(func() {
			handle := w.Path(fmt.Sprintf("h%d", i))
			why, out := w.goesOn(0, env("acquire"), append([]string{"acquire", "--handle", handle}, take...))
			if out != handle+"\n" || !strings.Contains(why, "going on without a lease: ") || !strings.Contains(why, tt.says) {
				t.Errorf("%s: acquire: stdout %q, stderr %q: want %q", tt.name, out, why, tt.says)
			}
			if clitest.Exists(handle) || clitest.Exists(handle+".json") {
				t.Errorf("%s: there is a handle, and no lease", tt.name)
			}
		})
	}
	all.Wait()
	w.WantHeld("full-0")
}

// goesOn runs a command that must say on one line of stderr why it has no lease. Lines about a long
// wait do not count.
func (w *world) goesOn(code int, env string, args []string) (why, stdout string) {
	var out, text bytes.Buffer
	cmd := w.Command(args...)
	cmd.Env = append(cmd.Env, env)
	cmd.Stdout, cmd.Stderr = &out, &text
	if got := clitest.ExitCode(cmd.Run()); got != code {
		w.T.Errorf("leasectl %v: exit code %d, want %d", args, got, code)
	}
	for line := range strings.Lines(text.String()) {
		if strings.HasPrefix(line, "leasectl: waiting ") || strings.Contains(line, "; trying since ") {
			continue
		}
		if why != "" || !strings.HasPrefix(line, "leasectl: ") {
			w.T.Errorf("leasectl %v: stderr %q", args, &text)
		}
		why += line
	}
	return why, out.String()
}
