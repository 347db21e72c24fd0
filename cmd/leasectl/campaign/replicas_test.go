package campaign

import (
	"context"
	"fmt"
	"math/rand/v2"
	"net"
	"net/http"
	"os/exec"
	"strings"
	"sync"
	"sync/atomic"
	"syscall"
	"testing"
	"time"

	"github.com/leasectl/leasectl/cmd/leasectl/clitest"
	"github.com/leasectl/leasectl/internal/proxyserver/store/etcd/etcdtest"
	"github.com/leasectl/leasectl/internal/proxyserver/store/postgres/pgtest"
	"github.com/leasectl/leasectl/internal/proxyserver/store/storetest"
	"github.com/leasectl/leasectl/leaseapi"
	"github.com/leasectl/leasectl/proxyclient"
)

// replicas are three servers on one database. Each server reaches it over links of its own.
type replicas struct {
	t       *testing.T
	servers []*replica
	probed  atomic.Pointer[replica] // the server that was ready when it was probed last: see [replicas.probe]
}

// sharedData is the database of replicas.
type sharedData struct {
	hosts []string                    // HOST:PORT of its members
	url   func(hosts []string) string // --data of a server that reaches the members at hosts
}

func onEtcd(c *etcdtest.Cluster) sharedData {
	d := sharedData{url: func(hosts []string) string { return "etcd://" + strings.Join(hosts, ",") + "/leases" }}
	for _, m := range c.Members {
		d.hosts = append(d.hosts, m.Host)
	}
	return d
}

func onPostgres(c *pgtest.Cluster) sharedData {
	return sharedData{hosts: []string{c.Host}, url: func(hosts []string) string { return strings.Replace(c.URL(), c.Host, hosts[0], 1) }}
}

// replica is one of the servers.
type replica struct {
	t     *testing.T
	url   string
	args  []string
	links []*link // to the members of the database
	log   clitest.LiveLog
	cmd   *exec.Cmd
	ended chan struct{}
}

const replicaTTL = time.Second

// startReplicas starts three servers with the pool q of n leases. They end with the test.
func startReplicas(t *testing.T, program string, data sharedData, n int, more ...string) *replicas {
	t.Helper()
	r := &replicas{t: t}
	for i := range 3 {
		s := &replica{t: t}
		var hosts []string
		for _, host := range data.hosts {
			l := newLink(t, host)
			s.links = append(s.links, l)
			hosts = append(hosts, l.Addr().String())
		}
		free, err := storetest.FreePorts(1)
		if err != nil {
			t.Fatal(err)
		}
		host := free[0]
		s.url = "http://" + host
		s.args = []string{program, "serve", "--listen", host, "--advertise", s.url, "--pool", fmt.Sprintf("q=%d", n),
			"--data", data.url(hosts), "--leader-ttl", replicaTTL.String()}
		s.args = append(s.args, more...)
		r.servers = append(r.servers, s)
		s.start()
		if i == 0 {
			r.leader() // so that tests know who leads at first
		}
	}
	t.Cleanup(func() {
		for _, s := range r.servers {
			s.kill()
		}
		if t.Failed() {
			for i, s := range r.servers {
				t.Logf("server %d:\n%s", i, &s.log)
			}
		}
	})
	return r
}

// list returns the URLs of all servers, separated by commas.
func (r *replicas) list() string { return r.listEnding(r.servers[len(r.servers)-1]) }

// listEnding is list with the URL of one at the end.
func (r *replicas) listEnding(one *replica) string {
	var urls []string
	for _, s := range r.servers {
		if s != one {
			urls = append(urls, s.url)
		}
	}
	return strings.Join(append(urls, one.url), ",")
}

// client returns a client of all servers, which is closed when the test ends.
func (r *replicas) client() *proxyclient.Client {
	return clitest.NewClient(r.t, r.list())
}

// host returns the HOST:PORT of a server.
func (s *replica) host() string { return strings.TrimPrefix(s.url, "http://") }

// leader waits until a server leads, and returns it.
func (r *replicas) leader() *replica {
	r.t.Helper()
	for end := time.Now().Add(clitest.Patience); time.Now().Before(end); time.Sleep(5 * time.Millisecond) {
		for _, s := range r.servers {
			if s.leads() {
				return s
			}
		}
	}
	r.t.Fatal("nobody leads")
	return nil
}

// quick is a client for requests to servers that may be stopped.
var quick = &http.Client{Timeout: time.Second, Transport: &http.Transport{DisableKeepAlives: true}}

func (s *replica) leads() bool {
	resp, err := quick.Get(s.url + leaseapi.PathReady)
	if err != nil {
		return false
	}
	resp.Body.Close()
	return resp.StatusCode == http.StatusOK
}

func (s *replica) start() {
	s.t.Helper()
	s.cmd = exec.Command(s.args[0], s.args[1:]...)
	s.cmd.Stderr = &s.log
	if err := s.cmd.Start(); err != nil {
		s.t.Fatal(err)
	}
	cmd, ended := s.cmd, make(chan struct{})
	s.ended = ended
	go func() {
		cmd.Wait()
		close(ended)
	}()
}

// signal sends a signal. If the signal ends the server, signal waits for that.
func (s *replica) signal(sig syscall.Signal) {
	s.cmd.Process.Signal(sig)
	if sig == syscall.SIGKILL || sig == syscall.SIGTERM {
		<-s.ended
	}
}

func (s *replica) kill() { s.signal(syscall.SIGKILL) }

// cut cuts or heals the network between a server and the database.
func (s *replica) cut(isCut bool) {
	for _, l := range s.links {
		l.cut(isCut)
	}
}

// link forwards connections to an address. While the link is cut, bytes wait; they arrive when the
// link is healed.
type link struct {
	net.Listener
	to   string
	deaf atomic.Bool  // the next answer on a connection breaks it
	slow atomic.Int64 // how long bytes wait at most, in nanoseconds

	mu     sync.Mutex
	healed chan struct{} // closed while the link is whole
}

func newLink(t *testing.T, to string) *link {
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	k := &link{Listener: l, to: to, healed: make(chan struct{})}
	close(k.healed)
	ctx, stop := context.WithCancel(context.Background())
	t.Cleanup(func() {
		stop()
		l.Close()
	})
	go func() {
		for {
			c, err := l.Accept()
			if err != nil {
				return
			}
			go k.forward(ctx, c)
		}
	}()
	return k
}

func (k *link) cut(isCut bool) {
	k.mu.Lock()
	defer k.mu.Unlock()
	select {
	case <-k.healed:
		if isCut {
			k.healed = make(chan struct{})
		}
	default:
		if !isCut {
			close(k.healed)
		}
	}
}

// pass waits until the link is whole.
func (k *link) pass(ctx context.Context) {
	k.mu.Lock()
	healed := k.healed
	k.mu.Unlock()
	select {
	case <-healed:
	case <-ctx.Done():
	}
}

func (k *link) forward(ctx context.Context, c net.Conn) {
	defer c.Close()
	k.pass(ctx)
	to, err := net.Dial("tcp", k.to)
	if err != nil {
		return
	}
	defer to.Close()
	stop := context.AfterFunc(ctx, func() { c.Close(); to.Close() })
	defer stop()
	var both sync.WaitGroup
	both.Go(func() { k.pipe(ctx, to, c, nil) })
	both.Go(func() { k.pipe(ctx, c, to, &k.deaf) })
	both.Wait()
}

// pipe forwards bytes until the connection breaks, which the next ones do once breaks is true.
func (k *link) pipe(ctx context.Context, to, from net.Conn, breaks *atomic.Bool) {
	defer to.Close()
	buffer := make([]byte, 64<<10)
	for {
		n, err := from.Read(buffer)
		k.pass(ctx)
		if slow := k.slow.Load(); slow > 0 {
			time.Sleep(time.Duration(rand.Int64N(slow)))
		}
		if breaks != nil && breaks.Load() {
			return
		}
		if n > 0 {
			if _, err := to.Write(buffer[:n]); err != nil {
				return
			}
		}
		if err != nil {
			return
		}
	}
}
