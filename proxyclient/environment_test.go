package proxyclient

import (
	"bufio"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"os"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/leasectl/leasectl/leaseapi"
)

func acquireChild() {
	c, err := New(Options{URL: os.Getenv("TEST_URL"), CAFile: os.Getenv("TEST_CA")})
	if err != nil {
		fmt.Println(err)
		return
	}
	wait, _ := time.ParseDuration(os.Getenv("TEST_WAIT"))
	g, err := c.Acquire(noDeadline, Request{Ask: leaseapi.Ask{Type: "t", Count: 1}, Wait: wait})
	fmt.Println(g != nil, err)
}

// The HTTP proxies of the environment are used. Each case needs its own process, since
// net/http reads the variables once. A CONNECT that fails has sent nothing.
func TestEnvironmentProxy(t *testing.T) {
	run := func(t *testing.T, env ...string) string {
		none := []string{"HTTP_PROXY=", "http_proxy=", "HTTPS_PROXY=", "https_proxy=", "NO_PROXY=", "no_proxy="}
		out, err := child(t, "acquire", append(append(none, "TEST_WAIT=1m"), env...)...).Output()
		if err != nil {
			t.Fatal(err)
		}
		return strings.TrimSpace(string(out))
	}
	t.Run("http", func(t *testing.T) {
		var asked string
		proxy := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) { asked = r.RequestURI; grant(w, r) }))
		defer proxy.Close()
		got := run(t, "http_proxy="+proxy.URL, "TEST_URL=http://lease.test/p")
		if got != "true <nil>" || !strings.HasPrefix(asked, "http://lease.test/p/lease/acquire?") {
			t.Errorf("asked for %q: %s", asked, got)
		}
	})
	t.Run("https", func(t *testing.T) {
		var posts, connects atomic.Int64
		srv := httptest.NewTLSServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) { posts.Add(1); grant(w, r) }))
		defer srv.Close()
		proxy := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
			if r.Method != http.MethodConnect || connects.Add(1) < 3 {
				http.Error(w, "not now", http.StatusBadGateway)
				return
			}
			tunnel(t, w, srv.Listener.Addr().String())
		}))
		defer proxy.Close()
		got := run(t, "https_proxy="+proxy.URL, "TEST_URL=https://example.com", "TEST_CA="+caFile(t, srv))
		if got != "true <nil>" || connects.Load() != 3 || posts.Load() != 1 {
			t.Errorf("%d connects, %d requests: %s", connects.Load(), posts.Load(), got)
		}
	})
	t.Run("not for this host", func(t *testing.T) {
		srv := httptest.NewServer(http.HandlerFunc(grant))
		defer srv.Close()
		if got := run(t, "http_proxy=http://127.0.0.1:1", "no_proxy=127.0.0.1", "TEST_URL="+srv.URL); got != "true <nil>" {
			t.Error(got)
		}
	})
	t.Run("an error says which one", func(t *testing.T) {
		silent, err := net.Listen("tcp", "127.0.0.1:0")
		if err != nil {
			t.Fatal(err)
		}
		defer silent.Close()
		proxy := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
			if r.Host == "ours.test" {
				problem(w, http.StatusForbidden, leaseapi.Problem{Type: leaseapi.ProblemForbidden, Detail: "not you"})
				return
			}
			w.WriteHeader(http.StatusProxyAuthRequired)
		}))
		defer proxy.Close()
		at := strings.TrimPrefix(proxy.URL, "http://")
		for _, tt := range []struct{ proxy, url, want string }{
			{"http_proxy=http://u:secret@" + at, "http://lease.test", "the proxy answered 407 Proxy Authentication Required (through http_proxy http://u:xxxxx@" + at + ")"},
			{"https_proxy=" + proxy.URL, "https://lease.test", "through https_proxy " + proxy.URL + ": Proxy Authentication Required"},
			{"http_proxy=http://127.0.0.1:1", "http://lease.test", "through http_proxy http://127.0.0.1:1: proxyconnect tcp: dial tcp 127.0.0.1:1: connect: connection refused"},
			{"https_proxy=" + silent.Addr().String(), "https://lease.test", "through https_proxy http://" + silent.Addr().String() + ": no connection in time"},
			{"http_proxy=" + proxy.URL, "http://ours.test", "the proxy answered 403 Forbidden: not you"},
		} {
			if got := run(t, tt.proxy, "TEST_URL="+tt.url, "TEST_WAIT=0"); !strings.HasSuffix(got, ": "+tt.want) {
				t.Errorf("%s: %s, want %s", tt.proxy, got, tt.want)
			}
		}
	})
}

// tunnel joins the connection of w with addr until one of them ends.
func tunnel(t *testing.T, w http.ResponseWriter, addr string) {
	to, err := net.Dial("tcp", addr)
	if err != nil {
		t.Error(err)
		return
	}
	defer to.Close()
	from, buf, err := http.NewResponseController(w).Hijack()
	if err != nil {
		t.Error(err)
		return
	}
	defer from.Close()
	io.WriteString(from, "HTTP/1.1 200 OK\r\n\r\n")
	back := make(chan struct{})
	go func() {
		defer close(back)
		io.Copy(from, to)
		from.Close()
	}()
	io.Copy(to, bufio.NewReader(buf))
	to.Close()
	<-back
}
