package campaign

import (
	"context"
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/tls"
	"crypto/x509"
	"crypto/x509/pkix"
	"encoding/pem"
	"fmt"
	"io"
	"log"
	"math/big"
	"net"
	"net/http"
	"net/http/httptest"
	"net/http/httputil"
	"net/url"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/leasectl/leasectl/cmd/leasectl/clitest"
)

// A way is how clients reach the servers of [replicas].
type way struct {
	name  string
	proxy string   // the value of --proxy
	env   []string // further variables of the clients
}

// ways returns each way that clients take to r. [wayNames] has their names.
func (r *replicas) ways() []way {
	authority := newAuthority(r.t)
	good, expired := authority.sign(r.t, time.Hour), authority.sign(r.t, -time.Minute)
	hosts := make(map[string]string) // HOST:PORT by the name that only an HTTP proxy knows
	var secure, gateways, tunnels, forwards []string
	for i, s := range r.servers {
		behindTLS := listenForBytes(r.t, s.dial, good)
		secure = append(secure, "https://"+behindTLS)
		gateways = append(gateways, "http://"+serveHTTP(r.t, gatewayTo(func() string { return s.host() })))
		hosts[fmt.Sprintf("s%d.test:443", i)], hosts[fmt.Sprintf("s%d.test:80", i)] = behindTLS, s.host()
		tunnels = append(tunnels, fmt.Sprintf("https://s%d.test", i))
		forwards = append(forwards, fmt.Sprintf("http://s%d.test", i))
	}
	bad := "https://" + listenForBytes(r.t, r.dialReady, expired)
	proxy := "http://" + serveHTTP(r.t, httpProxy(hosts))
	ca := "LEASECTL_CA=" + authority.file
	return []way{
		{name: "list", proxy: r.list()},
		{name: "balancer", proxy: "http://" + listenForBytes(r.t, r.dialReady, nil)},
		{name: "gateways", proxy: strings.Join(gateways, ",")},
		{name: "gateway", proxy: "http://" + serveHTTP(r.t, gatewayTo(func() string {
			if s := r.probed.Load(); s != nil {
				return s.host()
			}
			return ""
		}))},
		{name: "tunnel", proxy: strings.Join(tunnels, ","), env: []string{ca, "https_proxy=" + proxy, "no_proxy="}},
		{name: "forward", proxy: strings.Join(forwards, ","), env: []string{"http_proxy=" + proxy, "no_proxy="}},
		{name: "certificate", proxy: strings.Join(append([]string{bad}, secure...), ","), env: []string{ca}},
	}
}

// wayNames has the names of all ways, which are also the prefixes of their pools.
var wayNames = []string{"list", "balancer", "gateways", "gateway", "tunnel", "forward", "certificate"}

func (s *replica) dial() (net.Conn, error) { return net.Dial("tcp", s.host()) }

// dialReady connects as a balancer that passes bytes does, such as a Service of Kubernetes: to the
// server whose readiness probe succeeded last. It leaves open connections alone.
func (r *replicas) dialReady() (net.Conn, error) {
	s := r.probed.Load()
	if s == nil {
		return nil, net.ErrClosed
	}
	return s.dial()
}

// probe asks each server whether it is ready, until the test ends.
func (r *replicas) probe() {
	ended := make(chan struct{})
	var probing sync.WaitGroup
	for _, s := range r.servers {
		probing.Go(func() {
			for {
				if s.leads() {
					r.probed.Store(s)
				} else {
					r.probed.CompareAndSwap(s, nil)
				}
				select {
				case <-ended:
					return
				case <-time.After(50 * time.Millisecond):
				}
			}
		})
	}
	r.t.Cleanup(func() { close(ended); probing.Wait() })
}

// listenForBytes passes the bytes of each connection to a connection that dial returns, until the
// test ends. With a certificate it speaks TLS to its clients, once there is a connection to pass the
// bytes to. It returns the HOST:PORT on which it listens.
func listenForBytes(t *testing.T, dial func() (net.Conn, error), certificate *tls.Certificate) string {
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { l.Close() })
	go func() {
		for {
			c, err := l.Accept()
			if err != nil {
				return
			}
			go func() {
				defer c.Close()
				to, err := dial()
				if err != nil {
					return
				}
				if certificate != nil {
					c = tls.Server(c, &tls.Config{Certificates: []tls.Certificate{*certificate}})
				}
				joinConns(c, to)
			}()
		}
	}()
	return l.Addr().String()
}

// joinConns passes bytes between two connections until one of them ends, and closes both.
func joinConns(a, b net.Conn) {
	var both sync.WaitGroup
	for _, pair := range [][2]net.Conn{{a, b}, {b, a}} {
		both.Go(func() {
			io.Copy(pair[0], pair[1])
			pair[0].Close()
			pair[1].Close()
		})
	}
	both.Wait()
}

// serveHTTP serves h until the test ends, and returns the HOST:PORT on which it listens.
func serveHTTP(t *testing.T, h http.Handler) string {
	s := httptest.NewServer(h)
	s.Config.ErrorLog = discardLog
	t.Cleanup(func() { s.CloseClientConnections(); s.Close() })
	return s.Listener.Addr().String()
}

var discardLog = log.New(io.Discard, "", 0)

// gatewayTo is a gateway to the server at host(), or to none if that is empty. As nginx does it answers
// with a page of its own if it does not reach the server.
func gatewayTo(host func() string) http.Handler {
	page := func(w http.ResponseWriter, status int) {
		w.Header().Set("Content-Type", "text/html")
		w.WriteHeader(status)
		fmt.Fprintf(w, "<html><h1>%d %s</h1></html>", status, http.StatusText(status))
	}
	pass := &httputil.ReverseProxy{
		Rewrite: func(p *httputil.ProxyRequest) {
			p.SetURL(&url.URL{Scheme: "http", Host: p.In.Context().Value(gatewayHost{}).(string)})
		},
		Transport:    &http.Transport{},
		ErrorLog:     discardLog,
		ErrorHandler: func(w http.ResponseWriter, _ *http.Request, _ error) { page(w, http.StatusBadGateway) },
	}
	return http.HandlerFunc(func(w http.ResponseWriter, req *http.Request) {
		to := host()
		if to == "" {
			page(w, http.StatusServiceUnavailable)
			return
		}
		pass.ServeHTTP(w, req.WithContext(context.WithValue(req.Context(), gatewayHost{}, to)))
	})
}

type gatewayHost struct{}

// httpProxy is an HTTP proxy that knows these hosts.
func httpProxy(hosts map[string]string) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, req *http.Request) {
		if req.Method != http.MethodConnect {
			name := req.URL.Host + ":80"
			gatewayTo(func() string { return hosts[name] }).ServeHTTP(w, req)
			return
		}
		to, err := net.Dial("tcp", hosts[req.URL.Host])
		if err != nil {
			http.Error(w, "no route", http.StatusBadGateway)
			return
		}
		c, _, err := http.NewResponseController(w).Hijack()
		if err != nil {
			to.Close()
			return
		}
		io.WriteString(c, "HTTP/1.1 200 OK\r\n\r\n")
		joinConns(c, to)
	})
}

// authority signs certificates.
type authority struct {
	file string // of its certificate
	cert *x509.Certificate
	key  *ecdsa.PrivateKey
}

func newAuthority(t *testing.T) *authority {
	a := &authority{file: filepath.Join(t.TempDir(), "ca.crt")}
	signed := a.sign(t, time.Hour)
	a.cert, a.key = signed.Leaf, signed.PrivateKey.(*ecdsa.PrivateKey)
	text := pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: a.cert.Raw})
	if err := os.WriteFile(a.file, text, 0o600); err != nil {
		t.Fatal(err)
	}
	return a
}

// sign returns a certificate for the hosts of the ways, which ends after d. The first is that of the
// authority itself.
func (a *authority) sign(t *testing.T, d time.Duration) *tls.Certificate {
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		t.Fatal(err)
	}
	cert := &x509.Certificate{
		SerialNumber: big.NewInt(time.Now().UnixNano()), Subject: pkix.Name{CommonName: "ways"},
		NotBefore: time.Now().Add(-time.Hour), NotAfter: time.Now().Add(d),
		DNSNames: []string{"*.test"}, IPAddresses: []net.IP{net.IPv4(127, 0, 0, 1)},
		IsCA: a.cert == nil, BasicConstraintsValid: true,
	}
	parent, signer := a.cert, a.key
	if parent == nil {
		parent, signer = cert, key
	}
	der, err := x509.CreateCertificate(rand.Reader, cert, parent, &key.PublicKey, signer)
	if err != nil {
		t.Fatal(err)
	}
	if cert, err = x509.ParseCertificate(der); err != nil {
		t.Fatal(err)
	}
	return &tls.Certificate{Certificate: [][]byte{der}, PrivateKey: key, Leaf: cert}
}

// A certificate that cannot be verified for a while is an outage like any other, for those who have
// trusted the server before: jobs that wait go on, and those that end give their leases back.
func TestCertificateThatIsBadForAWhile(t *testing.T) {
	t.Parallel()
	w := newWorld(t, clitest.Build(t, ""), "one=1")
	a := newAuthority(t)
	socket := strings.TrimPrefix(w.Variable("LEASE_PROXY_SERVER_URL"), "unix://")
	toServer := func() (net.Conn, error) { return net.Dial("unix", socket) }
	good, expired := listenForBytes(t, toServer, a.sign(t, time.Hour)), listenForBytes(t, toServer, a.sign(t, -time.Minute))
	var mu sync.Mutex
	var open []net.Conn
	to, refusals := good, 0
	front := listenForBytes(t, func() (net.Conn, error) {
		mu.Lock()
		defer mu.Unlock()
		if to == expired {
			refusals++
		}
		c, err := net.Dial("tcp", to)
		open = append(open, c)
		return c, err
	}, nil)
	switchTo := func(certificate string) {
		mu.Lock()
		defer mu.Unlock()
		to, refusals = certificate, 0
		for _, c := range open {
			c.Close()
		}
	}
	refused := func() int { mu.Lock(); defer mu.Unlock(); return refusals }
	w.Env = append(w.Env, "LEASE_PROXY_SERVER_URL=https://"+front, "LEASECTL_CA="+a.file)

	var said clitest.LiveLog
	start := func(args ...string) *exec.Cmd {
		cmd := w.Command(args...)
		cmd.Stderr = &said
		return cmd
	}
	holder := start("exec", "--type", "one", "--", "cat")
	stdin, err := holder.StdinPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := holder.Start(); err != nil {
		t.Fatal(err)
	}
	w.Await("the holder", func() bool { return w.inUse() == 1 })
	waiter := start("exec", "--type", "one", "--", "true")
	if err := waiter.Start(); err != nil {
		t.Fatal(err)
	}
	w.Await("the waiter", func() bool { return w.Pool("one").Waiting == 1 })
	switchTo(expired)
	clitest.Await(t, &said, "attempts of the waiter", func() bool { return refused() >= 2 })
	stdin.Close()
	before := refused()
	clitest.Await(t, &said, "attempts of the release", func() bool { return refused() >= before+2 })
	switchTo(good)
	for what, cmd := range map[string]*exec.Cmd{"holder": holder, "waiter": waiter} {
		if code := clitest.ExitCode(cmd.Wait()); code != 0 {
			t.Errorf("the %s ends with %d", what, code)
		}
	}
	if strings.Contains(said.String(), "keeps what is owed") {
		t.Error("not released")
	}
	if t.Failed() {
		t.Log(&said)
	}
	w.WantHeld()
}
