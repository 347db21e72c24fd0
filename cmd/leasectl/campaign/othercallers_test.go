package campaign

import (
	"context"
	"fmt"
	"os"
	"os/exec"
	"slices"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/leasectl/leasectl/cmd/leasectl/clitest"
	"github.com/leasectl/leasectl/internal/proxyserver/store/etcd/etcdtest"
	"github.com/leasectl/leasectl/internal/proxyserver/store/postgres/pgtest"
	"github.com/leasectl/leasectl/proxyclient"
)

// A leader dies, or stands still and goes on when another leads, and at once somebody gives back what alice took on the
// same machine: with her other token it ends, with that of carol, who does not see her pool, it stays, and so do its
// traces: alice gives it back afterwards. It is what TestLeasesOfOtherCallers asserts with one server.
func TestFailoverOfOtherCallers(t *testing.T) {
	t.Parallel()
	t.Run("etcd, the leader is killed", func(t *testing.T) {
		t.Parallel()
		testFailoverOfOtherCallers(t, onEtcd(etcdtest.Start(t, 1)), func(_ *replicas, leader *replica) { leader.kill() })
	})
	t.Run("PostgreSQL, the leader stands still", func(t *testing.T) {
		t.Parallel()
		testFailoverOfOtherCallers(t, onPostgres(pgtest.Start(t)), func(r *replicas, leader *replica) {
			leader.signal(syscall.SIGSTOP)
			var going sync.WaitGroup
			going.Go(func() {
				for end := time.Now().Add(clitest.Patience); !r.othersLead(leader) && time.Now().Before(end); {
					time.Sleep(5 * time.Millisecond)
				}
				leader.signal(syscall.SIGCONT) // it has requests to answer that came meanwhile
			})
			t.Cleanup(going.Wait)
		})
	})
}

// othersLead tells whether another server than one leads.
func (r *replicas) othersLead(one *replica) bool {
	return slices.ContainsFunc(r.servers, func(s *replica) bool { return s != one && s.leads() })
}

func testFailoverOfOtherCallers(t *testing.T, data sharedData, fail func(r *replicas, leader *replica)) {
	const killed = `leasectl exec --type $T --parent-death KILL --handle h -- sh -c '"$LEASECTL" renew --handle "$LEASECTL_HANDLE" && kill -KILL $PPID; exec sleep 100' 2>/dev/null; true`
	ops := []struct {
		name, take, act, settle string
		quiet                   bool // carol's act succeeds, although it leaves the lease alone
	}{
		{"release by handle", `leasectl acquire --type $T --handle h`, `leasectl release --handle h`, `leasectl release --handle h`, false},
		{"release by name", `leasectl acquire --type $T --handle h`, `leasectl release --names $T-0`, `leasectl release --handle h`, false},
		{"release by list", `leasectl acquire --type $T --scope test`, `leasectl release --scope test`, `leasectl release --scope test`, false},
		{"release of all", `leasectl acquire --type $T --handle h --owner $T`, `leasectl release --all --owner $T`, `leasectl release --handle h`, true},
		{"reacquire", `leasectl acquire --type $T --handle h`, `leasectl reacquire --type other --handle h`, `leasectl release --handle h`, false},
		{"recover after a killed exec", killed, `leasectl recover`, `leasectl recover`, false},
		{"acquire after a killed exec", killed, `leasectl acquire --type other; leasectl acquire --type other`, `leasectl recover`, true},
	}
	w := newBareWorld(t, clitest.Build(t, ""))
	t.Cleanup(w.NoneLeft)
	serve := []string{"--auth", clitest.WriteCallers(t, w.Dir), "--pool", "other=100"}
	tokens := []string{"alice-2", "carol"}
	for op := range ops {
		for _, token := range tokens {
			serve = append(serve, "--pool", fmt.Sprintf("t%d-%s=1", op, token))
		}
	}
	r := startReplicas(t, w.Program, data, 1, serve...)
	first := r.leader()
	client, err := proxyclient.New(proxyclient.Options{URL: r.list(), TokenFile: w.Path("alice.token")})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(client.Close)
	held := func(typ string) bool {
		pools, err := client.Pools(context.Background())
		for _, p := range pools {
			if p.Type == typ {
				return p.InUse > 0
			}
		}
		t.Errorf("%s: %v", typ, err)
		return false
	}
	run := func(token, typ, script string) (code int, said string) {
		dir := w.Path(typ)
		if err := os.MkdirAll(dir, 0o700); err != nil {
			t.Error(err)
		}
		cmd := exec.Command("sh", "-c", `leasectl() { "$LEASECTL" "$@"; }; `+script)
		cmd.Dir = dir
		cmd.Env = append(os.Environ(), "LEASECTL="+w.Program, "T="+typ, "LEASECTL_STATE_DIR="+dir+"/state", "SHARED_DIR="+dir, "LEASECTL_OWNER=job-1",
			"LEASE_PROXY_SERVER_URL="+r.list(), "LEASECTL_TOKEN_FILE="+w.Path(token+".token"))
		out, err := cmd.CombinedOutput()
		return clitest.ExitCode(err), string(out)
	}
	each := func(do func(op int, token, typ string)) {
		var all sync.WaitGroup
		for op := range ops {
			for _, token := range tokens {
				all.Go(func() { do(op, token, fmt.Sprintf("t%d-%s", op, token)) })
			}
		}
		all.Wait()
	}
	each(func(op int, token, typ string) {
		if code, said := run("alice", typ, ops[op].take); code != 0 || !held(typ) {
			t.Errorf("%s: alice: %d\n%s", ops[op].name, code, said)
		}
	})
	fail(r, first)
	each(func(op int, token, typ string) {
		ends, o := token == "alice-2", ops[op]
		code, said := run(token, typ, o.act)
		if code == exitUnreachable { // on a slow machine
			r.leader()
			code, said = run(token, typ, o.act)
		}
		if (code == 0) != (ends || o.quiet) || held(typ) == ends || !ends && strings.Contains(said, "released "+typ) {
			t.Errorf("%s with the token of %s: exit code %d, held: %t\n%s", o.name, token, code, held(typ), said)
		}
		if !ends {
			if code, said := run("alice", typ, o.settle); code != 0 || held(typ) {
				t.Errorf("%s: alice cannot give it back: exit code %d, held: %t\n%s", o.name, code, held(typ), said)
			}
		}
		if code, left := run("alice", typ, `leasectl recover >/dev/null; ls state/intents`); code != 0 || strings.TrimSpace(left) != "" {
			t.Errorf("%s: left: %d %s", o.name, code, left)
		}
	})
}
