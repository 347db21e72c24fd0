package main

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"net/http/httputil"
	"net/url"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"runtime"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"syscall"
	"testing"

	"github.com/leasectl/leasectl/cmd/leasectl/clitest"
	"github.com/leasectl/leasectl/proxyclient"
)

// callersWorld is a server with the callers of [clitest.WriteCallers]: alice takes leases.
type callersWorld struct {
	*world
	socket string
	pools  []string
	server *exec.Cmd
	lossy  atomic.Bool // the first answer about each type or request is lost
}

func newCallersWorld(t *testing.T, pools ...string) *callersWorld {
	w := &callersWorld{world: newBareWorld(t, clitest.Build(t, "")), pools: pools}
	w.socket = w.Path("s")
	w.Env = append(os.Environ(), "LEASE_PROXY_SERVER_URL="+w.relay(), "LEASECTL_OWNER=job-1")
	clitest.WriteCallers(t, w.Dir)
	t.Cleanup(func() { w.stop(); w.NoneLeft() })
	return w
}

// aboutCell finds in a request which type or request it is about.
var aboutCell = regexp.MustCompile(`\bt\d+-\d+\b|\b[A-Z2-7]{26}\b`)

// relay starts what stands between the commands and the server, and returns its address.
func (w *callersWorld) relay() string {
	var seen sync.Map
	server := &httputil.ReverseProxy{
		Rewrite:      func(p *httputil.ProxyRequest) { p.SetURL(&url.URL{Scheme: "http", Host: "proxy"}) },
		Transport:    clitest.UnixTransport(w.socket),
		ErrorHandler: func(http.ResponseWriter, *http.Request, error) { panic(http.ErrAbortHandler) },
	}
	address, _ := w.Listen(http.HandlerFunc(func(out http.ResponseWriter, r *http.Request) {
		body, err := io.ReadAll(r.Body)
		about := aboutCell.FindString(r.URL.RawQuery + " " + string(body))
		r.Body = io.NopCloser(bytes.NewReader(body))
		if err == nil && w.lossy.Load() && about != "" {
			if _, again := seen.LoadOrStore(r.URL.Path+" "+about, true); !again {
				server.ServeHTTP(httptest.NewRecorder(), r)
				panic(http.ErrAbortHandler)
			}
		}
		server.ServeHTTP(out, r)
	}))
	return address
}

func (w *callersWorld) write(name, text string) {
	w.T.Helper()
	if err := os.WriteFile(w.Path(name), []byte(text), 0o600); err != nil {
		w.T.Fatal(err)
	}
}

// start starts the server, which asks for tokens if auth is true.
func (w *callersWorld) start(auth bool) {
	w.T.Helper()
	args := []string{"serve", "--socket", w.socket, "--data", w.Path("data"), "--pool", "other=100"}
	for _, p := range w.pools {
		args = append(args, "--pool", p)
	}
	if auth {
		args = append(args, "--auth", w.Path("auth.yaml"))
	}
	w.server = exec.Command(w.Program, args...)
	w.server.Stderr = w.Log
	if err := w.server.Start(); err != nil {
		w.T.Fatal(err)
	}
	w.Client = nil
	client, err := proxyclient.New(proxyclient.Options{URL: "unix://" + w.socket, TokenFile: w.Path("alice.token")})
	if err != nil {
		w.T.Fatal(err)
	}
	w.T.Cleanup(client.Close)
	w.Client = client
	w.Await("the server to answer", func() bool { _, err := client.Pools(context.Background()); return err == nil })
}

func (w *callersWorld) stop() {
	w.server.Process.Signal(syscall.SIGTERM)
	w.server.Wait()
}

// held tells whether the only lease of a pool is held.
func (w *callersWorld) held(typ string) bool { return w.Pool(typ).InUse > 0 }

// cell is a state directory with a lease of alice, and what somebody does there.
type cell struct {
	w   *callersWorld
	typ string
}

// run runs a script with a token, or with none, in the directory of the cell. In it $T is the type.
func (c cell) run(token, script string) (code int, said string) {
	c.w.T.Helper()
	dir := c.w.Path(c.typ)
	if err := os.MkdirAll(filepath.Join(dir, "shared"), 0o700); err != nil {
		c.w.T.Fatal(err)
	}
	cmd := exec.Command("sh", "-c", `leasectl() { "$LEASECTL" "$@"; }; `+script)
	cmd.Dir = dir
	cmd.Env = append(slices.Clone(c.w.Env), "LEASECTL="+c.w.Program, "T="+c.typ, "LEASECTL_STATE_DIR="+dir+"/state", "SHARED_DIR="+dir+"/shared")
	if token != "" {
		cmd.Env = append(cmd.Env, "LEASECTL_TOKEN_FILE="+c.w.Path(token+".token"))
	}
	out, err := cmd.CombinedOutput()
	if exit := new(exec.ExitError); err != nil && !errors.As(err, &exit) {
		c.w.T.Fatal(err)
	}
	return clitest.ExitCode(err), string(out)
}

// killed is an exec of alice's that was killed, with a lease that was confirmed.
const killed = `leasectl exec --type $T --parent-death KILL %s -- sh -c '"$LEASECTL" renew --handle "$LEASECTL_HANDLE" && kill -KILL $PPID; exec sleep 100' 2>/dev/null; true`

// aDayLater notes in the journal that who made its entries died a day ago.
const aDayLater = `leasectl recover >/dev/null 2>&1; sed -i "s/\"dead\":\"[^\"]*\"/\"dead\":\"$(date -u -d '25 hours ago' +%FT%TZ)\"/" state/intents/*.json 2>/dev/null; `

// What a token does not see is not over. Whatever somebody does to what another caller took on the same
// machine, either the lease ends, or alice's next clean-up gives it back: the words, the exit code, the files
// and the server agree, also if the first answer about the lease was lost, or the server was restarted.
func TestLeasesOfOtherCallers(t *testing.T) {
	t.Parallel()
	ops := []struct {
		name   string
		take   string // what alice does first
		act    string // what somebody does then
		settle string // how alice gives it back, if it is held still
		quiet  bool   // act succeeds, although it leaves the lease alone
		denied bool   // carol is refused before a lease is looked for
	}{
		{"release by handle", `leasectl acquire --type $T --handle h`, `leasectl release --handle h`, `leasectl release --handle h`, false, false},
		{"late release", `leasectl acquire --type $T --handle h`, `leasectl release --handle h --delay 100ms --detach`, `leasectl release --handle h`, false, false},
		{"release by list", `leasectl acquire --type $T --scope test`, `leasectl release --scope test`, `leasectl release --scope test`, false, false},
		{"late release by list", `leasectl acquire --type $T --scope test`, `leasectl release --scope test --delay 100ms --detach`, `leasectl release --scope test`, false, false},
		{"release by name", `leasectl acquire --type $T --handle h`, `leasectl release --names $T-0`, `leasectl release --handle h`, false, true},
		{"release of all", `leasectl acquire --type $T --handle h --owner $T`, `leasectl release --all --owner $T`, `leasectl release --handle h`, true, false},
		{"reacquire", `leasectl acquire --type $T --handle h`, `leasectl reacquire --type other --handle h`, `leasectl release --handle h`, false, false},
		{"recover after a killed exec", fmt.Sprintf(killed, ""), `leasectl recover`, `leasectl recover`, false, false},
		{"recover after a killed exec without its handle", fmt.Sprintf(killed, "--handle h") + `; rm h h.json`, `leasectl recover`, `leasectl recover`, false, false},
		{"recover a day after a killed exec that was renewed for longer", strings.Replace(fmt.Sprintf(killed, ""), "renew", "renew --ttl 48h", 1), aDayLater + `leasectl recover`, `leasectl recover`, false, false},
		{"acquire after a killed exec", fmt.Sprintf(killed, ""), `leasectl acquire --type other`, `leasectl recover`, true, false},
		{"recover after a dead shared lease", fmt.Sprintf(killed, "--shared S"), `leasectl recover`, `leasectl recover`, false, false},
		{"release of a lease with a keeper", `leasectl acquire --type $T --handle h --owner-pid $PPID`, `leasectl release --handle h`, `leasectl release --handle h`, false, false},
		{"join of a dead shared lease", fmt.Sprintf(killed, "--shared S"), `leasectl exec --type $T --shared S --wait-timeout 10s -- true`, `leasectl recover`, false, true},
		{"exec after a dead shared lease", fmt.Sprintf(killed, "--shared S"), `leasectl exec --type other --shared R -- true`, `leasectl recover`, true, false},
	}
	cases := []struct {
		token string
		auth  bool // the server asks for tokens when somebody acts
		again bool // it was restarted before
		lossy bool // the first answer is lost
		ends  bool
		says  string
	}{
		{"alice-2", true, false, false, true, ""},
		{"bob", true, false, false, false, ""},
		{"carol", true, false, false, false, "the proxy does not show this lease to carol, which is not who took it"},
		{"", true, false, false, false, ""},
		{"alice-2", true, false, true, true, ""},
		{"carol", true, false, true, false, "the proxy does not show this lease to carol, which is not who took it"},
		{"carol", true, true, false, false, "the proxy does not show this lease to carol, which is not who took it"},
		{"carol", false, true, false, true, ""},
		{"", false, true, false, true, ""},
	}
	var pools []string
	cellOf := func(w *callersWorld, op, i int) cell { return cell{w, fmt.Sprintf("t%d-%d", op, i)} }
	for op := range ops {
		for i := range cases {
			pools = append(pools, cellOf(nil, op, i).typ+"=1")
		}
	}
	w := newCallersWorld(t, pools...)
	w.start(true)
	var taking sync.WaitGroup
	for op, o := range ops {
		taking.Go(func() {
			for i := range cases {
				c := cellOf(w, op, i)
				if code, said := c.run("alice", o.take); code != 0 {
					t.Errorf("%s: alice: %d\n%s", o.name, code, said)
				}
			}
		})
	}
	taking.Wait()
	auth, again := true, false
	for i, tt := range cases {
		if tt.auth != auth || tt.again != again {
			w.stop()
			w.start(tt.auth)
			auth, again = tt.auth, tt.again
		}
		w.lossy.Store(tt.lossy)
		t.Run(fmt.Sprintf("%s/auth=%t/restarted=%t/lossy=%t", tt.token, tt.auth, tt.again, tt.lossy), func(t *testing.T) {
			for op, o := range ops {
				t.Run(o.name, func(t *testing.T) {
					t.Parallel()
					c := cellOf(w, op, i)
					if !w.held(c.typ) {
						t.Fatal("alice has no lease")
					}
					code, said := c.run(tt.token, o.act)
					defer func() {
						if t.Failed() {
							t.Logf("exit code %d\n%s", code, said)
						}
					}()
					if tt.ends {
						if code != 0 {
							t.Errorf("exit code %d", code)
						}
						if strings.Contains(o.act, "--detach") {
							w.Await("the late release", func() bool { return !w.held(c.typ) })
						}
					} else {
						if quiet := o.quiet && tt.token != ""; (code == 0) != quiet {
							t.Errorf("exit code %d, want success: %t", code, quiet)
						}
						if !w.held(c.typ) {
							t.Error("it has ended")
						}
						if strings.Contains(said, "released "+c.typ) || strings.Contains(said, "\n"+c.typ+"-0\n") {
							t.Error("it says that it is released")
						}
						if !o.quiet && !o.denied && !strings.Contains(said, tt.says) {
							t.Errorf("it did not say %q", tt.says)
						}
					}
					if w.held(c.typ) == tt.ends {
						t.Errorf("held: %t", !tt.ends)
					}
					if !tt.ends {
						if code, said := c.run("alice", o.settle); code != 0 || w.held(c.typ) {
							t.Errorf("alice cannot give it back: exit code %d, held: %t\n%s", code, w.held(c.typ), said)
						}
					}
					if code, left := c.run("alice", `leasectl recover >/dev/null; ls state/intents`); code != 0 || strings.TrimSpace(left) != "" {
						t.Errorf("left: %d %s", code, left)
					}
				})
			}
		})
	}
}

// A shared lease that commands use is joined with the token that began it only: another one is refused with a word, also if it
// is the same caller's, and changes nothing of the lease.
func TestSharedLeaseOfOtherTokens(t *testing.T) {
	t.Parallel()
	w := newCallersWorld(t, "t0-0=1")
	w.start(true)
	c := cell{w, "t0-0"}
	user := make(chan string)
	go func() {
		code, said := c.run("alice", `leasectl exec --type $T --shared S -- sh -c 'until [ -e stop ]; do sleep 0.05; done'`)
		user <- fmt.Sprint(code, "\n", said)
	}()
	w.Await("alice's lease", func() bool { return w.held(c.typ) })
	if code, said := c.run("", `leasectl exec --type $T --shared S --token-file ../alice.token -- true`); code != 0 {
		t.Errorf("a token file with a relative path: exit code %d\n%s", code, said)
	}
	if code, said := c.run("", `leasectl exec --type other --shared R --token-file ../alice.token -- true`); code != 0 {
		t.Errorf("a round that is begun with a token file of a relative path: exit code %d\n%s", code, said)
	}
	for _, token := range []string{"alice", "alice-2", "bob", "carol", ""} {
		code, said := c.run(token, `leasectl exec --type $T --shared S -- true`)
		if token == "alice" && code != 0 || token != "alice" && (code != exitUsage || !strings.Contains(said, `shared lease "S": its round was begun with the token`)) {
			t.Errorf("%s: exit code %d\n%s", token, code, said)
		}
	}
	if !w.held(c.typ) {
		t.Error("the lease has ended")
	}
	w.write(c.typ+"/stop", "")
	if said := <-user; !strings.HasPrefix(said, "0\n") {
		t.Error(said)
	}
	if code, left := c.run("carol", `leasectl recover; ls state/intents`); code != 0 || strings.TrimSpace(left) != "" || w.held(c.typ) {
		t.Errorf("left: %d %s, held: %t", code, left, w.held(c.typ))
	}
}

// What another caller does with a handle, and the proxy does not show it, has not lost its lease, which goes on.
func TestHandleOfAnotherCaller(t *testing.T) {
	t.Parallel()
	w := newCallersWorld(t, "t0-0=1")
	w.start(true)
	c := cell{w, "t0-0"}
	if code, said := c.run("alice", `leasectl acquire --type $T --handle h --owner-pid $PPID`); code != 0 {
		t.Fatal(said)
	}
	for _, act := range []string{"renew", "resize --count 2", "report ok", "status", "release --delay 1s", "release", "reacquire"} {
		code, said := c.run("carol", `leasectl `+act+` --handle h`)
		if (code == 0) != (act == "status") || !strings.Contains(said, "the proxy does not show this lease to carol, which is not who took it: use the token of alice") || strings.Contains(said, "lost") {
			t.Errorf("%s: exit code %d\n%s", act, code, said)
		}
	}
	if n := len(w.Processes()); n != 2 && runtime.GOOS == "linux" {
		t.Errorf("%d processes, want the server and the keeper", n)
	}
	if code, said := c.run("alice", `leasectl renew --handle h && leasectl release --handle h; ls state/intents`); code != 0 || w.held(c.typ) || strings.Contains(said, ".json") {
		t.Errorf("alice: %d\n%s", code, said)
	}
}
