package main

import (
	"net/http"
	"net/http/httptest"
	"net/http/httputil"
	"net/url"
	"os"
	"strings"
	"sync/atomic"
	"testing"

	"github.com/leasectl/leasectl/cmd/leasectl/clitest"
)

// Another store at the address of a lease is said. At one server, which was started anew elsewhere, the lease
// counts as over. In a list of servers with stores of their own it may be held by the other: nothing is
// given up, and the next call that reaches its server does what it should.
func TestOtherStoreAtTheSameAddress(t *testing.T) {
	t.Parallel()
	program := clitest.Build(t, "")
	pools := []string{"install=20", "other=20"}
	one, two := newWorld(t, program, pools...), newWorld(t, program, pools...)
	var away atomic.Bool // the first server
	relay := func(to func() *world) string {
		h := httptest.NewServer(http.HandlerFunc(func(out http.ResponseWriter, req *http.Request) {
			w := to()
			if w == nil {
				panic(http.ErrAbortHandler)
			}
			proxy := httputil.NewSingleHostReverseProxy(&url.URL{Scheme: "http", Host: "server"})
			proxy.Transport = clitest.UnixTransport(w.Path("proxy.sock"))
			proxy.ServeHTTP(out, req)
		}))
		t.Cleanup(h.Close)
		return h.URL
	}
	turns := relay(func() *world {
		if away.Load() {
			return two
		}
		return one
	})
	list := relay(func() *world {
		if away.Load() {
			return nil
		}
		return one
	}) + "," + relay(func() *world { return two })

	for _, way := range []struct {
		name, proxy string
		several     bool
	}{{"one server anew", turns, false}, {"a list", list, true}} {
		for _, op := range []struct {
			name  string
			args  []string
			code  int // at one server
			says  string
			takes bool // a lease of the other store
		}{
			{name: "release", args: []string{"release", "--handle", "H"}, says: "install-N counts as released: the proxy has another store than the one that granted it"},
			{name: "reacquire", args: []string{"reacquire", "--handle", "H"}, says: "install-N counts as released: the proxy has another store than the one that granted it", takes: true},
			{name: "reacquire of another type", args: []string{"reacquire", "--handle", "H", "--type", "other"}, says: "install-N counts as released: the proxy has another store than the one that granted it", takes: true},
			{name: "renew", args: []string{"renew", "--handle", "H"}, code: 1, says: "renew install-N: lease lost: the proxy has another store than the one that granted it"},
			{name: "late release", args: []string{"release", "--handle", "H", "--delay", "1h", "--detach"}, code: 1, says: "put the release off by 1h: lease lost: the proxy has another store than the one that granted it"},
			{name: "recover", args: []string{"recover"}, says: "install-N counts as released: the proxy has another store than the one that granted it"},
			{name: "list of names", args: []string{"release", "--scope", "test"}, says: "install-N counts as released: the proxy has another store than the one that granted it"},
		} {
			t.Run(way.name+": "+op.name, func(t *testing.T) {
				away.Store(false)
				dir := t.TempDir()
				handle := dir + "/h"
				run := func(code int, args ...string) (stdout, stderr string) {
					t.Helper()
					cmd := one.Command(append(args, "--proxy", way.proxy)...)
					cmd.Env = append(cmd.Env, "SHARED_DIR="+dir, "LEASECTL_STATE_DIR="+dir+"/state")
					var out, errs strings.Builder
					cmd.Stdout, cmd.Stderr = &out, &errs
					if got := clitest.ExitCode(cmd.Run()); got != code {
						t.Fatalf("leasectl %v: exit code %d, want %d\n%s%s", args, got, code, &out, &errs)
					}
					return out.String(), errs.String()
				}
				if op.name == "recover" {
					kill := one.Command("exec", "--proxy", way.proxy, "--type", "install", "--handle", handle, "--parent-death", "KILL", "--", "sh", "-c", "kill -KILL $PPID; exec sleep 600")
					kill.Env = append(kill.Env, "LEASECTL_STATE_DIR="+dir+"/state")
					kill.Run()
				} else {
					run(0, "acquire", "--type", "install", "--handle", handle, "--scope", "test")
				}
				name, err := os.ReadFile(handle)
				if err != nil {
					t.Fatal(err)
				}
				held := func() bool {
					for _, l := range one.Pool("install").Leases {
						if l.Name == strings.TrimSpace(string(name)) {
							return true
						}
					}
					return false
				}
				away.Store(true)
				args := append([]string(nil), op.args...)
				for i := range args {
					args[i] = strings.ReplaceAll(args[i], "H", handle)
				}
				says := strings.ReplaceAll(op.says, "install-N", strings.TrimSpace(string(name)))
				code := op.code
				if way.several {
					code, says = 1, "another store"
				}
				if _, stderr := run(code, args...); !strings.Contains(stderr, says) {
					t.Errorf("it says %q, want %q", stderr, says)
				}
				if len(two.Pool("install").Leases)+len(two.Pool("other").Leases) > 0 != (op.takes && !way.several) {
					t.Errorf("the other server holds %v, %v", two.Pool("install").Leases, two.Pool("other").Leases)
				}
				if !held() {
					t.Error("its server does not hold the lease")
				}
				if !way.several {
					if op.takes {
						run(0, "release", "--handle", handle)
					}
					one.Run(0, "release", "--names", strings.TrimSpace(string(name)))
					return
				}
				away.Store(false)
				run(0, args...)
				run(0, "release", "--handle", handle)
				if held() {
					t.Error("the lease is held after its server was asked")
				}
			})
		}
	}
}
