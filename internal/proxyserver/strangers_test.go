package proxyserver

import (
	"bufio"
	"fmt"
	"io"
	"net"
	"net/http"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/leasectl/leasectl/internal/pool"
	"github.com/leasectl/leasectl/internal/proxyserver/auth"
	"github.com/leasectl/leasectl/internal/wiretest"
	"github.com/leasectl/leasectl/leaseapi"
)

const callerSecret = "secret-of-a-caller-0123"

// callers lets in who shows callerSecret.
func callers(t *testing.T) *auth.Config {
	t.Helper()
	sum, err := auth.SumOf(callerSecret)
	if err != nil {
		t.Fatal(err)
	}
	return &auth.Config{Tokens: []auth.Token{{Name: "caller", Sum: sum}}}
}

// post is the head of a POST with a body of so many bytes, and a few of them.
func post(path string, size int, header ...string) string {
	head := fmt.Sprintf("POST %s HTTP/1.1\r\nHost: pipe\r\nContent-Length: %d\r\n", wiretest.Target(path), size)
	return head + strings.Join(append(header, ""), "\r\n") + "\r\nx"
}

const bearer = "Authorization: Bearer " + callerSecret

// say dials the server and sends text, which nobody may read.
func (p *peer) say(text string) net.Conn {
	p.t.Helper()
	conn, err := p.pipes.dial(p.t.Context(), "", "")
	if err != nil {
		p.t.Fatal(err)
	}
	go io.WriteString(conn, text)
	synctest.Wait()
	return conn
}

// Strangers keep nobody out, however many stall, and wherever: their connections are closed for
// those of callers. A caller that waits, and one that is slow with its body, keep theirs.
func TestStrangersKeepNobodyOut(t *testing.T) {
	for name, says := range map[string]string{
		"nothing":               "",
		"half a header":         "POST /lease/acquire HTTP/1.1\r\nHost: pipe\r\nX: ",
		"the body of a login":   post("/ui/login", 100),
		"the body of a call":    post(leaseapi.PathRelease, 100),
		"a body without a path": post("/nothing", 100),
		"the body of a probe":   post(leaseapi.PathHealth, 100),
		"a bad token":           post(leaseapi.PathRenew, 100, "Authorization: Bearer another-secret-0123456789"),
		"a large login":         post("/ui/login", leaseapi.MaxBody),
		"a body of any length":  "POST /ui/login HTTP/1.1\r\nHost: pipe\r\nTransfer-Encoding: chunked\r\n\r\n1000\r\n",
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				const most = 6
				p := start(t, Options{Pools: []pool.Config{quota(1)}, maxConnections: most, Auth: callers(t)})
				ask := func(method, target, body string) reply {
					t.Helper()
					req, err := http.NewRequestWithContext(t.Context(), method, "http://pipe"+target, strings.NewReader(body))
					if err != nil {
						t.Fatal(err)
					}
					req.Header.Set("Authorization", "Bearer "+callerSecret)
					resp, err := p.http.Do(req)
					if err != nil {
						t.Fatalf("%s %s: %v", method, target, err)
					}
					defer resp.Body.Close()
					text, err := io.ReadAll(resp.Body)
					if err != nil {
						t.Fatal(err)
					}
					return reply{resp.StatusCode, resp.Header, string(text)}
				}
				if r := ask("POST", leaseapi.PathAcquire+"?type=q", ""); r.status != 200 {
					t.Fatalf("%d %s", r.status, r.body)
				}
				waits := make(chan reply, 1)
				go func() { waits <- ask("POST", leaseapi.PathAcquire+"?type=q", "") }()
				slow := p.say(strings.TrimSuffix(post(leaseapi.PathRelease, len(`{"names":["q-0"]}`), bearer), "x") + `{"names":`)
				defer slow.Close()
				asked := time.Now()
				var strangers []net.Conn
				for range 3 {
					for range 5 * most {
						strangers = append(strangers, p.say(says))
					}
					begin := time.Now()
					if r := ask("GET", leaseapi.PathWhoami, ""); r.status != 200 {
						t.Errorf("%d %s", r.status, r.body)
					}
					if took := time.Since(begin); took > time.Second {
						t.Errorf("a caller waited %v", took)
					}
				}
				if n := p.server.handler.connections.Stats().Open; n > most {
					t.Errorf("%d connections: strangers took the spare ones", n)
				}
				time.Sleep(bodyTime - time.Since(asked) - time.Second)
				go io.WriteString(slow, `["q-0"]}`)
				if resp, err := http.ReadResponse(bufio.NewReader(slow), nil); err != nil || resp.StatusCode != 204 {
					t.Errorf("a caller with a slow body: %v, %v", resp, err)
				}
				if r := <-waits; r.status != 200 {
					t.Errorf("who waited got %d %s", r.status, r.body)
				}
				for _, c := range strangers {
					c.Close()
				}
			})
		})
	}
}

// A request of many header lines, each of which costs memory as long as it waits, is refused.
func TestManyHeaderLines(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		p := start(t, Options{Pools: []pool.Config{quota(1)}, Auth: callers(t)})
		for n, want := range map[int]int{mostHeaderLines - 2: 200, mostHeaderLines: 400} { // beside the token and the length
			conn := p.say(post(leaseapi.PathAcquire+"?type=q&wait=0", 0, bearer, strings.TrimSuffix(strings.Repeat("ab:\r\n", n), "\r\n")))
			resp, err := http.ReadResponse(bufio.NewReader(conn), nil)
			if err != nil {
				t.Fatal(err)
			}
			if resp.StatusCode != want {
				t.Errorf("%d lines: %s", n, resp.Status)
			}
			conn.Close()
		}
	})
}

// Who is not let in is answered at once, for the last time on that connection, and has a second
// to send a body. A form to sign in with is read within a second, and only if it is small.
func TestStrangersHaveASecond(t *testing.T) {
	for name, c := range map[string]struct {
		says   string
		status int
		after  time.Duration // until the answer
	}{
		"no token":       {post(leaseapi.PathRelease, 1000), 401, 0},
		"a bad token":    {post(leaseapi.PathAcquire+"?type=q", 1000, "Authorization: Bearer x"), 401, 0},
		"a large body":   {post(leaseapi.PathRenew, leaseapi.MaxBody), 401, 0},
		"an operation":   {post("/ui/pause", 1000), 303, 0},
		"a login":        {post("/ui/login", 100), 400, strangerTime},
		"a large login":  {post("/ui/login", 5<<10), 413, 0},
		"a bad secret":   {post("/ui/login", 1), 401, 0},
		"without a body": {"GET /pools HTTP/1.1\r\nHost: pipe\r\n\r\n", 401, 0},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				p := start(t, Options{Pools: []pool.Config{quota(1)}, Auth: callers(t)})
				begin := time.Now()
				conn := p.say(c.says)
				resp, err := http.ReadResponse(bufio.NewReader(conn), nil)
				if err != nil {
					t.Fatal(err)
				}
				if resp.StatusCode != c.status || !resp.Close {
					t.Errorf("%s, last: %t; want %d, the last", resp.Status, resp.Close, c.status)
				}
				if took := time.Since(begin); took != c.after {
					t.Errorf("answered after %v, want %v", took, c.after)
				}
				io.Copy(io.Discard, conn)
				// net/http lets the client read an answer for half a second.
				if took := time.Since(begin); took > strangerTime+time.Second {
					t.Errorf("closed after %v", took)
				}
				conn.Close()
			})
		})
	}
}

// A request that waited is asked once more who it is, by the rules of now: one of version 1, and one with an id if
// they have changed. If it may no longer have the lease, that is given back.
func TestWaitersAreAskedAgain(t *testing.T) {
	for name, c := range map[string]struct {
		change func(*auth.Config)
		status int
	}{
		"the same":      {func(*auth.Config) {}, 200},
		"removed":       {func(c *auth.Config) { c.Tokens = nil }, 401},
		"other pools":   {func(c *auth.Config) { c.Tokens[0].Pools = []string{"other"} }, 401},
		"only looks":    {func(c *auth.Config) { c.Tokens[0].Role = auth.RoleRead }, 401},
		"another name":  {func(c *auth.Config) { c.Tokens[0].Name = "somebody" }, 401},
		"more pools":    {func(c *auth.Config) { c.Tokens[0].Pools = []string{"q", "other"} }, 200},
		"one more rule": {func(c *auth.Config) { c.Tokens = append([]auth.Token{{Name: "new"}}, c.Tokens...) }, 200},
	} {
		asked := func(t *testing.T, more string, waits time.Duration) {
			synctest.Test(t, func(t *testing.T) {
				p := start(t, Options{Pools: []pool.Config{quota(1)}})
				p.acquire("type=q") // while everybody may
				p.server.SetAuth(callers(t))
				conn := p.say("POST " + wiretest.Target("/lease/acquire?type=q"+more) + " HTTP/1.1\r\nHost: pipe\r\n" + bearer + "\r\n\r\n")
				time.Sleep(waits)
				changed := callers(t)
				c.change(changed)
				p.server.SetAuth(changed)
				time.Sleep(time.Second)
				if err := p.server.handler.term().do(func(set *pool.Set, now time.Duration) {
					l, _ := set.Held(now, "q-0")
					set.Release(now, pool.Ref{Name: l.Name, Generation: l.Generation}, 0)
				}); err != nil {
					t.Fatal(err)
				}
				resp, err := http.ReadResponse(bufio.NewReader(conn), nil)
				if err != nil || resp.StatusCode != c.status {
					t.Fatalf("%v, %v; want %d", resp, err, c.status)
				}
				p.server.SetAuth(nil)
				if n, want := p.inUse(), map[int]int{200: 1, 401: 0}[c.status]; n != want {
					t.Errorf("%d in use, want %d", n, want)
				}
				conn.Close()
			})
		}
		t.Run("version 1/"+name, func(t *testing.T) { asked(t, "", time.Hour) })
		t.Run("with an id/"+name, func(t *testing.T) { asked(t, "&request_id=R", time.Second/2) })
	}
}
