package campaign

import (
	"bytes"
	"encoding/json"
	"io"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/leasectl/leasectl/cmd/leasectl/clitest"
	"github.com/leasectl/leasectl/internal/proxyserver/store/etcd/etcdtest"
	"github.com/leasectl/leasectl/internal/proxyserver/store/postgres/pgtest"
	"github.com/leasectl/leasectl/leaseapi"
	"github.com/leasectl/leasectl/proxyclient"
)

// A job and its waiter survive a KILL of the leader: the handle keeps its lease, and the queue goes
// on. A standby server refuses calls and says who leads.
func TestFailover(t *testing.T) {
	t.Parallel()
	t.Run("etcd", func(t *testing.T) { t.Parallel(); testFailover(t, onEtcd(etcdtest.Start(t, 1))) })
	t.Run("PostgreSQL", func(t *testing.T) { t.Parallel(); testFailover(t, onPostgres(pgtest.Start(t))) })
}

func testFailover(t *testing.T, data sharedData) {
	program := clitest.Build(t, "")
	r := startReplicas(t, program, data, 1)
	first := r.leader()
	dir := t.TempDir()
	run := func(args ...string) *exec.Cmd {
		cmd := exec.Command(program, args...)
		cmd.Env = append(os.Environ(),
			"LEASECTL_STATE_DIR="+filepath.Join(dir, "state"), "LEASECTL_OWNER=job", "LEASE_PROXY_SERVER_URL="+r.list())
		cmd.Dir = dir
		return cmd
	}
	must := func(args ...string) string {
		t.Helper()
		var stderr bytes.Buffer
		cmd := run(args...)
		cmd.Stderr = &stderr
		out, err := cmd.Output()
		if err != nil {
			t.Fatalf("leasectl %v: %v\n%s", args, err, &stderr)
		}
		return strings.TrimSpace(string(out))
	}
	handle := must("acquire", "--type", "q")
	waiter := run("exec", "--type", "q", "--wait-timeout", "2m", "--", "sh", "-c", "echo ran")
	var ran bytes.Buffer
	waiter.Stdout, waiter.Stderr = &ran, &ran
	if err := waiter.Start(); err != nil {
		t.Fatal(err)
	}
	client := r.client()
	clitest.Await(t, &first.log, "a waiter", func() bool {
		pools, err := client.Pools(t.Context())
		return err == nil && pools[0].Waiting == 1
	})

	standby := r.servers[1]
	if standby == first {
		standby = r.servers[2]
	}
	for _, path := range []string{leaseapi.PathPools, leaseapi.PathReady} {
		clitest.Await(t, &standby.log, "a standby that names the leader", func() bool {
			resp, err := http.Get(standby.url + path)
			if err != nil {
				return false // it has just started
			}
			body, _ := io.ReadAll(resp.Body)
			resp.Body.Close()
			var p leaseapi.Problem
			if json.Unmarshal(body, &p); resp.StatusCode != 503 || p.Type != leaseapi.ProblemNotLeader || p.Leader != "" && p.Leader != first.url {
				t.Errorf("a standby's %s: %s %s", path, resp.Status, body)
			}
			return p.Leader != "" || t.Failed()
		})
	}

	before := must("status")
	if !strings.HasPrefix(before, "led by "+first.url) {
		t.Errorf("status says\n%s", before)
	}
	first.kill()
	second := r.leader()
	if second == first {
		t.Fatal("who was killed leads")
	}
	pools, err := client.Pools(t.Context())
	if err != nil || pools[0].InUse != 1 || pools[0].Leases[0].Owner != "job" {
		t.Errorf("after the failover %+v, %v", pools, err)
	}
	if status := must("status"); !strings.HasPrefix(status, "led by "+second.url) || !strings.Contains(status, " standing by") {
		t.Errorf("status says\n%s", status)
	}
	must("release", "--handle", handle)
	if err := waiter.Wait(); err != nil || !strings.Contains(ran.String(), "ran") {
		t.Errorf("the waiter: %v\n%s", err, &ran)
	}
	if pools, err := client.Pools(t.Context()); err != nil || pools[0].InUse != 0 {
		t.Errorf("at the end %+v, %v", pools, err)
	}
}

// A leader that stops hands over at once. The next leader has its leases, with a late release, and
// the old one can lead again.
func TestHandOver(t *testing.T) {
	t.Parallel()
	t.Run("etcd", func(t *testing.T) { t.Parallel(); testHandOver(t, onEtcd(etcdtest.Start(t, 1))) })
	t.Run("PostgreSQL", func(t *testing.T) { t.Parallel(); testHandOver(t, onPostgres(pgtest.Start(t))) })
}

func testHandOver(t *testing.T, data sharedData) {
	// The TTL is so long that even a slow machine keeps the lead. Nobody has to wait for its end.
	r := startReplicas(t, clitest.Build(t, ""), data, 2, "--leader-ttl", clitest.Patience.String())
	client := r.client()
	g, err := client.Acquire(t.Context(), proxyclient.Request{Ask: leaseapi.Ask{Type: "q", Count: 2}, Owner: "job", TTL: time.Hour})
	if err != nil {
		t.Fatal(err)
	}
	if _, err := client.Renew(t.Context(), g.Leases, 0); err != nil {
		t.Fatal(err)
	}
	late := leaseapi.ReleaseRequest{Leases: g.Leases[:1], Delay: leaseapi.Duration(5 * time.Second)}
	if _, err := client.Release(t.Context(), late); err != nil {
		t.Fatal(err)
	}
	first := r.leader()
	began := time.Now()
	first.signal(syscall.SIGTERM)
	if _, err := client.Renew(t.Context(), g.Leases[1:], 0); err != nil {
		t.Errorf("a renewal after the hand-over: %v", err)
	}
	took := time.Since(began)
	t.Logf("the first answer came %v after the TERM", took)
	if took > clitest.Patience/2 {
		t.Errorf("the first answer took %v", took)
	}
	clitest.Await(t, &first.log, "the late release", func() bool {
		pools, err := client.Pools(t.Context())
		return err == nil && pools[0].InUse == 1 && pools[0].Leases[0].Lease == g.Leases[1]
	})
	first.start()
	for _, s := range r.servers {
		if s != first {
			s.signal(syscall.SIGTERM)
		}
	}
	if again := r.leader(); again != first {
		t.Errorf("%s leads", again.url)
	}
	if pools, err := client.Pools(t.Context()); err != nil || pools[0].InUse != 1 {
		t.Errorf("after two hand-overs %+v, %v", pools, err)
	}
}
