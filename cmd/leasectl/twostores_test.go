package main

import (
	"context"
	"io"
	"log"
	"net"
	"net/http"
	"net/http/httptest"
	"net/http/httputil"
	"os"
	"strings"
	"sync/atomic"
	"testing"

	"github.com/leasectl/leasectl/cmd/leasectl/clitest"
)

// frontOf returns an HTTP server that passes all calls on to the socket that it has now.
func frontOf(t *testing.T, socket string) (url string, at *atomic.Pointer[string]) {
	at = new(atomic.Pointer[string])
	at.Store(&socket)
	dial := func(ctx context.Context, _, _ string) (net.Conn, error) {
		return new(net.Dialer).DialContext(ctx, "unix", *at.Load())
	}
	front := httptest.NewServer(&httputil.ReverseProxy{
		ErrorLog:  log.New(io.Discard, "", 0), // of a server that is away
		Rewrite:   func(r *httputil.ProxyRequest) { r.Out.URL.Scheme, r.Out.URL.Host = "http", "localhost" },
		Transport: &http.Transport{DialContext: dial, DisableKeepAlives: true},
	})
	t.Cleanup(front.Close)
	return front.URL, at
}

// Two servers with stores of their own in one list are an operator's error. The answer of one says
// nothing of a lease of the other: it is no release, and is said. Before, the handle was removed, and the
// lease stayed. A single server whose store is new holds nothing of before, which is said, too.
func TestReleaseToAnotherStore(t *testing.T) {
	t.Parallel()
	program := clitest.Build(t, "")
	a, b := clitest.NewDurableServer(t, program, "--pool", "one=1", "--pool", "many=9"), clitest.NewDurableServer(t, program, "--pool", "one=1", "--pool", "many=9")
	urlA, frontA := frontOf(t, a.Socket)
	urlB, frontB := frontOf(t, b.Socket)
	w := clitest.NewBareWorld(t, program)
	w.Env = append(os.Environ(), "LEASECTL_STATE_DIR="+w.Path("state"), "LEASECTL_OWNER=job-1", "SHARED_DIR="+w.Dir)
	run := func(code int, args ...string) string {
		t.Helper()
		cmd := w.Command(args...)
		out, err := cmd.CombinedOutput()
		if got := clitest.ExitCode(err); got != code {
			t.Errorf("%q: exit code %d, want %d\n%s", args, got, code, out)
		}
		return string(out)
	}
	says := func(said, text string) {
		t.Helper()
		if !strings.Contains(said, text) {
			t.Errorf("want %q, and it said %s", text, said)
		}
	}

	list, nobody := urlB+","+urlA, "/nobody/listens/there"
	frontA.Store(&nobody) // however slow the other server is, it grants
	run(0, "acquire", "--proxy", list, "--type", "one", "--handle", "h")
	frontA.Store(&a.Socket)
	says(run(1, "release", "--handle", "h", "--proxy", urlA), "which has another store, but of "+list)
	says(run(1, "release", "--handle", "h", "--proxy", urlA+","+urlB), "which has another store")
	run(1, "recover", "--proxy", urlA)
	frontB.Store(&nobody) // so that the other server of the list answers
	says(run(1, "release", "--handle", "h"), "which has another store: name the one that granted it with --proxy")
	if held := b.Pool().InUse; held != 1 {
		t.Errorf("%d are held", held)
	}
	frontB.Store(&b.Socket)
	says(run(0, "release", "--handle", "h"), "one-0")

	// A killed exec's lease, which recover settles, also if its handle is gone.
	for _, clean := range []string{"", "rm k k.json k.lock; "} {
		killed := w.Command("exec", "--proxy", list, "--type", "one", "--handle", "k", "--", "sh", "-c", clean+"kill -9 $PPID; sleep 1")
		frontA.Store(&nobody)
		killed.Run()
		frontA.Store(&a.Socket)
		if said := run(1, "recover", "--proxy", urlA); strings.Contains(said, "nothing was held") {
			t.Error(said)
		}
		frontB.Store(&nobody)
		says(run(1, "recover"), "which has another store: name the one that granted it with --proxy")
		frontB.Store(&b.Socket)
		says(run(0, "recover"), "released one-0")
	}

	// A single server whose store is new.
	acquire := func(more ...string) {
		run(0, append([]string{"acquire", "--proxy", urlB, "--type", "many"}, more...)...)
	}
	const counts = " counts as released: the proxy has another store than the one that granted it"
	for _, name := range []string{"h", "late", "renewed", "again"} {
		acquire("--handle", name)
	}
	acquire("--scope", "test")
	acquire("--scope", "test", "--handle", "listed")
	w.Command("exec", "--proxy", urlB, "--type", "many", "--handle", "k", "--", "sh", "-c", "rm k k.json k.lock; kill -9 $PPID; sleep 1").Run()
	frontB.Store(&a.Socket)
	says(run(0, "recover"), counts)
	says(run(0, "release", "--handle", "h"), "many-0"+counts)
	says(run(1, "release", "--handle", "late", "--delay", "1s", "--detach"), "put the release off by 1s: lease lost: the proxy has another store")
	says(run(1, "renew", "--handle", "renewed"), "the proxy has another store")
	says(run(0, "reacquire", "--handle", "again"), "many-3"+counts)
	says(run(1, "release", "--scope", "test", "--delay", "1s", "--detach", "--proxy", urlB), "put the release off by 1s: lease lost: the proxy has another store")
	says(run(1, "release", "--scope", "test", "--proxy", urlA), "which has another store: name its proxy with --proxy")
	says(run(0, "release", "--scope", "test", "--proxy", urlB), "many-5"+counts)
	says(run(0, "release", "--handle", "listed"), "many-5"+counts)
	if said := run(0, "recover") + run(0, "release", "--scope", "test", "--proxy", urlB); said != "" {
		t.Error(said)
	}
}
