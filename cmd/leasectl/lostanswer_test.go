package main

import (
	"bytes"
	"io"
	"net"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"syscall"
	"testing"
	"time"

	"github.com/leasectl/leasectl/cmd/leasectl/clitest"
	"github.com/leasectl/leasectl/leaseapi"
)

// swallow forwards bytes between clients and a world's proxy, but no answers on deaf connections.
// isDeaf decides when a connection begins; connections are counted from 0.
func (w *world) swallow(isDeaf func(conn int) bool) { w.between(isDeaf, 1) }

// between is swallow, and delivers each part of an answer as often as times says.
func (w *world) between(isDeaf func(conn int) bool, times int) {
	w.T.Helper()
	proxy := strings.TrimPrefix(w.Variable("LEASE_PROXY_SERVER_URL"), "unix://")
	socket := filepath.Join(w.Dir, "swallow.sock")
	l, err := net.Listen("unix", socket)
	if err != nil {
		w.T.Fatal(err)
	}
	var relaying sync.WaitGroup
	var mu sync.Mutex
	var open []net.Conn
	relaying.Go(func() {
		for n := 0; ; n++ {
			client, err := l.Accept()
			if err != nil {
				return
			}
			server, err := net.Dial("unix", proxy)
			if err != nil {
				client.Close()
				continue
			}
			mu.Lock()
			open = append(open, client, server)
			mu.Unlock()
			deaf := isDeaf(n)
			relaying.Go(func() {
				io.Copy(server, client)
				server.Close()
			})
			relaying.Go(func() {
				answers := make([]byte, 64<<10)
				for {
					n, err := server.Read(answers)
					if n > 0 && !deaf {
						client.Write(bytes.Repeat(answers[:n], times))
					}
					if err != nil {
						break
					}
				}
				if !deaf {
					client.Close()
				} // a deaf connection stays open, as behind some balancers
			})
		}
	})
	w.T.Cleanup(func() {
		l.Close()
		mu.Lock()
		for _, c := range open {
			c.Close()
		}
		mu.Unlock()
		relaying.Wait()
	})
	w.Env = append(w.Env, "LEASE_PROXY_SERVER_URL=unix://"+socket)
}

// A connection whose answers are swallowed costs half a minute, and the grant in the lost answer.
// Before, it cost the whole wait of an hour.
func TestAcquireWithSwallowedAnswer(t *testing.T) {
	if testing.Short() {
		t.Skip("takes half a minute")
	}
	t.Parallel()
	w := newWorld(t, clitest.Build(t, ""), "install=1")
	w.swallow(func(conn int) bool { return conn == 0 })
	begun := time.Now()
	w.Run(0, "acquire", "--type", "install", "--handle", w.Path("h"))
	if took := time.Since(begun); took > 2*time.Minute {
		t.Errorf("took %s", took)
	}
	w.Run(0, "release", "--handle", w.Path("h"))
	w.WantHeld()
}

// If the answer with a grant is lost in a cut of the network that lasts until the grant has ended,
// after 30 s, the client asks anew in the same wait. Before, the grant was "released by another
// process".
func TestAcquireThroughCut(t *testing.T) {
	if testing.Short() {
		t.Skip("takes half a minute")
	}
	t.Parallel()
	w := newWorld(t, clitest.Build(t, ""), "install=1")
	w.swallow(func(int) bool { return !strings.Contains(w.Log.String(), "msg=expired") })
	out := w.Run(0, "exec", "--type", "install", "--handle", w.Path("h"), "--", "sh", "-c", "echo $LEASECTL_NAMES")
	if out != "install-0\n" {
		t.Errorf("the child said %q", out)
	}
	w.WantHeld()
	if l := w.Ledger(); len(l.Granted) != 2 {
		t.Errorf("granted %d times, want once more after the cut\n%s", len(l.Granted), w.Log)
	}
	if left, _ := filepath.Glob(w.Path("state/intents/*")); len(left) > 0 {
		t.Errorf("left behind: %v", left)
	}
}

// If a client is stopped while its lease is granted and ends again, it asks anew when it goes on.
// This holds for exec, exec --shared and acquire. Before, exec ended with 125.
func TestStoppedWhileItsGrantEnds(t *testing.T) {
	if testing.Short() {
		t.Skip("takes half a minute")
	}
	t.Parallel()
	clients := [][]string{
		{"exec", "--type", "install", "--", "true"},
		{"exec", "--shared", "name", "--type", "install", "--", "true"},
		{"acquire", "--type", "install", "--handle", "h"},
	}
	w := newWorld(t, clitest.Build(t, ""), "install="+strconv.Itoa(len(clients)))
	for i := range clients {
		w.Run(0, "acquire", "--type", "install", "--handle", w.Path("before"+strconv.Itoa(i)))
	}
	waiting := make([]*exec.Cmd, len(clients))
	said := make([]bytes.Buffer, len(clients))
	for i, args := range clients {
		waiting[i] = w.Command(args...)
		waiting[i].Stderr = &said[i]
		if err := waiting[i].Start(); err != nil {
			t.Fatal(err)
		}
		defer waiting[i].Process.Kill()
	}
	w.Await("all to wait", func() bool { return w.Pool("install").Waiting == len(clients) })
	for _, cmd := range waiting {
		cmd.Process.Signal(syscall.SIGSTOP)
	}
	for i := range clients {
		w.Run(0, "release", "--handle", w.Path("before"+strconv.Itoa(i)))
	}
	w.Await("all to be granted", func() bool { return w.Pool("install").InUse == len(clients) })
	for begun := time.Now(); w.Pool("install").InUse > 0; time.Sleep(100 * time.Millisecond) {
		if time.Since(begun) > leaseapi.ProvisionalTTL+clitest.Patience {
			t.Fatal("the grants do not end")
		}
	}
	for i, cmd := range waiting {
		cmd.Process.Signal(syscall.SIGCONT)
		if err := cmd.Wait(); err != nil || !strings.Contains(said[i].String(), "ended before the answer came") {
			t.Errorf("%v: %v; it said:\n%s", clients[i], err, &said[i])
		}
	}
	w.Run(0, "release", "--handle", w.Path("h"))
	w.WantHeld()
}

// If a proxy answers 500 to everything, acquire reports it meanwhile, and gives up within a minute
// with the proxy's words. Before, a step hung silently.
func TestAcquireFromProxyOfErrors(t *testing.T) {
	if testing.Short() {
		t.Skip("takes a minute")
	}
	t.Parallel()
	w := newWorld(t, clitest.Build(t, ""), "install=1")
	proxy, _ := w.Listen(http.HandlerFunc(func(out http.ResponseWriter, _ *http.Request) {
		http.Error(out, "the quota service is on fire", http.StatusInternalServerError)
	}))
	var stderr bytes.Buffer
	cmd := w.Command("acquire", "--proxy", proxy, "--type", "install", "--handle", w.Path("h"))
	cmd.Stderr = &stderr
	begun := time.Now()
	code := clitest.ExitCode(cmd.Run())
	if took := time.Since(begun); code != exitUnreachable || took < 55*time.Second || took > 2*time.Minute {
		t.Errorf("exit code %d after %s", code, took)
	}
	lines := strings.Split(strings.TrimSpace(stderr.String()), "\n")
	if last := lines[len(lines)-1]; !strings.Contains(last, "answers with errors only") || !strings.Contains(last, "the quota service is on fire") {
		t.Errorf("the last word is %q", last)
	}
	told := 0
	for _, line := range lines[:len(lines)-1] {
		if strings.Contains(line, "the quota service is on fire") {
			told++
		}
	}
	if told == 0 {
		t.Errorf("nothing was said meanwhile:\n%s", &stderr)
	}
}

// A late release that was done, but whose answer was lost, is success. Before, it was
// "held-by-other".
func TestDetachedReleaseWhoseAnswerIsLost(t *testing.T) {
	t.Parallel()
	w := newWorld(t, clitest.Build(t, ""), "install=1")
	w.Run(0, "acquire", "--type", "install", "--handle", w.Path("h"))
	var releases atomic.Int32
	w.RelayAnswers(func(req *http.Request) bool {
		return req.URL.Path != leaseapi.PathRelease || releases.Add(1) > 1
	})
	w.Run(0, "release", "--proxy", w.Variable("LEASE_PROXY_SERVER_URL"), "--handle", w.Path("h"), "--delay", "1s", "--detach")
	if releases.Load() != 2 {
		t.Errorf("sent %s times", strconv.Itoa(int(releases.Load())))
	}
	w.WantHeld()
}

// A lease that ends before its acquire has confirmed it is none: with --optional the job goes on without one.
func TestAcquireWhoseLeaseEndsUnconfirmed(t *testing.T) {
	t.Parallel()
	for _, tt := range []struct {
		flag string
		code int
		says string
	}{
		{"--optional", 0, "leasectl: going on without a lease: confirm the lease: "},
		{"--optional=false", exitFailure, "leasectl: confirm the lease: "},
	} {
		w := newWorld(t, clitest.Build(t, ""), "install=1")
		w.RelayAnswers(func(req *http.Request) bool {
			if req.URL.Path == leaseapi.PathRenew {
				w.Client.ReleaseAll(t.Context(), "job-1")
			}
			return true
		})
		var stderr bytes.Buffer
		cmd := w.Command("acquire", "--type", "install", "--handle", "h", tt.flag)
		cmd.Stderr = &stderr
		code := clitest.ExitCode(cmd.Run())
		if want := tt.says + "renew: lease lost: \"install-0\" (released)\n"; code != tt.code || stderr.String() != want {
			t.Errorf("%s: exit code %d; it said %q, want %q", tt.flag, code, &stderr, want)
		}
		if left, _ := filepath.Glob(w.Path("h*")); len(left) > 0 {
			t.Errorf("%s: left behind: %v", tt.flag, left)
		}
		w.WantHeld()
	}
}

// If the first answer to release --all is lost, it says that it does not know how much it released,
// and removes the handles of the released leases. Before, it said that it released nothing.
func TestReleaseAllWhoseAnswerIsLost(t *testing.T) {
	t.Parallel()
	w := newWorld(t, clitest.Build(t, ""), "install=1")
	w.Run(0, "acquire", "--type", "install")
	var releases atomic.Int32
	w.RelayAnswers(func(req *http.Request) bool {
		return req.URL.Path != leaseapi.PathRelease || releases.Add(1) > 1
	})
	var stderr bytes.Buffer
	cmd := w.Command("release", "--all", "--owner", "job-1")
	cmd.Stderr = &stderr
	err := cmd.Run()
	const want = "leasectl: released all of job-1: the answer to an earlier try was lost, and this one found 0 leases and 0 waiting requests\n"
	if code := clitest.ExitCode(err); code != 0 || stderr.String() != want {
		t.Errorf("exit code %d; it said:\n%s", code, &stderr)
	}
	w.WantHeld()
	if left, _ := filepath.Glob(w.Path("state/lease-*")); len(left) > 0 {
		t.Errorf("left behind: %v", left)
	}
}

// Each answer comes twice. The commands do their work, and print nothing of it.
func TestAnswersComeTwice(t *testing.T) {
	t.Parallel()
	pools := filepath.Join(t.TempDir(), "pools.yaml")
	if err := os.WriteFile(pools, []byte("resources:\n- {type: install, state: free, names: [i-0]}\n- {type: mem, units: 100}\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	w := newWorldOf(t, clitest.Build(t, ""), "--config", pools)
	w.between(func(int) bool { return false }, 2)
	for _, args := range []string{
		"acquire --handle h --type install", "renew --handle h", "reacquire --handle h", "release --handle h",
		"acquire --handle h --type mem --count 10", "resize --handle h --count 20", "release --handle h",
		"exec --type install -- sleep 0.1",
	} {
		var stderr bytes.Buffer
		cmd := w.Command(strings.Fields(args)...)
		cmd.Stderr = &stderr
		if code := clitest.ExitCode(cmd.Run()); code != 0 || strings.Contains(stderr.String(), "HTTP") {
			t.Errorf("%s: exit code %d\n%s", args, code, &stderr)
		}
	}
	for _, typ := range []string{"install", "mem"} {
		if p := w.Pool(typ); p.InUse+p.Waiting > 0 {
			t.Errorf("held: %+v", p)
		}
	}
}
