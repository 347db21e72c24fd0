// Package etcdtest starts real etcd for tests, on ports from the kernel.
//
// It is the etcd of PATH. If there is none, the tests build one from its Go module (the module
// program beside this package), once per version, into the user's cache directory. That takes a
// minute or two, and a network. Where it cannot be built, tests are skipped, or fail with CI=true
// in the environment. With -short they are skipped, too.
//
// The variable TEST_ETCD chooses another: TEST_ETCD=built is the one from the module, also where
// PATH has an etcd, and TEST_ETCD=FILE is a program. A chosen etcd that is not to be had fails the
// tests. [Run] prints which etcd the tests of a package used.
package etcdtest

import (
	"fmt"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/leasectl/leasectl/internal/proxyserver/store/storetest"
)

// Cluster is etcd with one member or more.
type Cluster struct {
	Members []*Member
}

// Member is a process of etcd.
type Member struct {
	Host string // HOST:PORT for clients

	args    []string
	log     string // path
	process storetest.Process
}

// used is set once a process of etcd was started.
var used atomic.Bool

// patience bounds the start of etcd: CI is slow.
const patience = 60 * time.Second

// Start starts etcd with this number of members, each with the further arguments args. It
// returns when all of them serve. They are killed at the end of t.
func Start(t testing.TB, members int, args ...string) *Cluster {
	t.Helper()
	Need(t)
	var err error
	for range 3 { // another process may take a port before etcd does
		var c *Cluster
		if c, err = start(t.TempDir(), members, args...); err == nil {
			t.Cleanup(c.Kill)
			return c
		}
	}
	t.Fatal(err)
	return nil
}

// shared is the etcd of [Shared].
var shared struct {
	once    sync.Once
	cluster *Cluster
	dir     string
	err     error
}

// Shared returns an etcd with one member that all tests of a package share. The first call starts
// it, and [Run] kills it.
func Shared(t testing.TB) *Cluster {
	t.Helper()
	Need(t)
	s := &shared
	s.once.Do(func() {
		if s.dir, s.err = os.MkdirTemp("", "etcdtest-"); s.err == nil {
			s.cluster, s.err = start(s.dir, 1)
		}
	})
	if s.err != nil {
		t.Fatal(s.err)
	}
	return s.cluster
}

// Run runs the tests of a package, and returns their exit code. If they used etcd, it prints the
// version and the path of etcd's program. TestMain calls Run.
func Run(m *testing.M) int {
	code := m.Run()
	if shared.cluster != nil {
		shared.cluster.Kill()
	}
	os.RemoveAll(shared.dir)
	if used.Load() {
		version, path, err := Version()
		if err != nil {
			fmt.Fprintln(os.Stderr, "etcdtest:", err)
			return max(code, 1)
		}
		fmt.Printf("tested with etcd %s, %s\n", version, path)
	}
	return code
}

// URL is the address of a store under prefix.
func (c *Cluster) URL(prefix string) string {
	var hosts []string
	for _, m := range c.Members {
		hosts = append(hosts, m.Host)
	}
	return "etcd://" + strings.Join(hosts, ",") + "/" + prefix
}

// Kill kills all members.
func (c *Cluster) Kill() {
	for _, m := range c.Members {
		m.Kill()
	}
}

func start(dir string, members int, more ...string) (*Cluster, error) {
	hosts, err := storetest.FreePorts(2 * members)
	if err != nil {
		return nil, err
	}
	clients, peers := hosts[:members], hosts[members:]
	var initial []string
	for i, peer := range peers {
		initial = append(initial, fmt.Sprintf("m%d=http://%s", i, peer))
	}
	c := new(Cluster)
	for i := range members {
		data := filepath.Join(dir, fmt.Sprintf("m%d", i))
		m := &Member{Host: clients[i], log: data + ".log", args: []string{
			"--name", fmt.Sprintf("m%d", i), "--data-dir", data, "--initial-cluster", strings.Join(initial, ","),
			"--listen-client-urls", "http://" + clients[i], "--advertise-client-urls", "http://" + clients[i],
			"--listen-peer-urls", "http://" + peers[i], "--initial-advertise-peer-urls", "http://" + peers[i],
			// Tests survive no power cut, so they need no fsync. An election in the usual
			// second would be too slow for them.
			"--unsafe-no-fsync", "--heartbeat-interval", "50", "--election-timeout", "500",
		}}
		m.args = append(m.args, more...)
		c.Members = append(c.Members, m)
		if err := m.Start(); err != nil {
			c.Kill()
			return nil, err
		}
	}
	if err := c.AwaitHealth(); err != nil {
		c.Kill()
		return nil, err
	}
	return c, nil
}

// AwaitHealth returns when every member answers. It fails if a member has ended, or does not
// answer within a minute.
func (c *Cluster) AwaitHealth() error {
	client := http.Client{Timeout: time.Second}
	defer client.CloseIdleConnections()
	end := time.Now().Add(patience)
	for _, m := range c.Members {
		for {
			resp, err := client.Get("http://" + m.Host + "/health")
			if err == nil {
				resp.Body.Close()
				if resp.StatusCode == http.StatusOK {
					break
				}
			}
			if !m.Running() || time.Now().After(end) {
				return fmt.Errorf("etcd does not serve on %s: %v\n%s", m.Host, err, m.process.Output())
			}
			time.Sleep(10 * time.Millisecond)
		}
	}
	return nil
}

// Start starts a member that was killed.
func (m *Member) Start() error {
	path, err := program()
	if err != nil {
		return err
	}
	if err := m.process.Start(exec.Command(path, m.args...), m.log); err != nil {
		return err
	}
	used.Store(true)
	return nil
}

// Running reports whether the process has not ended.
func (m *Member) Running() bool { return m.process.Running() }

// Kill kills the member, and waits for its end.
func (m *Member) Kill() { m.process.Kill() }

// Stop suspends the process, until Continue.
func (m *Member) Stop() { m.process.Stop() }

// Continue lets a stopped process go on.
func (m *Member) Continue() { m.process.Continue() }
