package proxyserver

import (
	"bufio"
	"context"
	"encoding/json"
	"errors"
	"flag"
	"fmt"
	"net"
	"net/http"
	"os"
	"os/exec"
	"strings"
	"sync"
	"testing"

	"github.com/leasectl/leasectl/internal/pool"
	"github.com/leasectl/leasectl/internal/proxyserver/store"
	"github.com/leasectl/leasectl/internal/proxyserver/store/bolt"
	"github.com/leasectl/leasectl/leaseapi"
)

// crashData names, in the environment of a child process, the data directory
// to serve from.
const crashData = "PROXYSERVER_TEST_DATA"

func TestMain(m *testing.M) {
	if dir := os.Getenv(crashData); dir != "" {
		if err := serveChild(dir); err != nil {
			fmt.Fprintln(os.Stderr, err)
			os.Exit(1)
		}
		os.Exit(0)
	}
	if os.Getenv(childSocket) != "" {
		serveCampaign()
	}
	flag.Parse()
	os.Exit(m.Run())
}

// serveChild serves until it is killed; its first line says where.
func serveChild(dir string) error {
	st, err := bolt.Open(dir)
	if err != nil {
		return err
	}
	s, err := New(crashOptions(st))
	if err != nil {
		return err
	}
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		return err
	}
	fmt.Println(l.Addr())
	return s.Serve(context.Background(), l)
}

func crashOptions(st store.Store) Options {
	return Options{Pools: []pool.Config{{Type: "q", Names: []string{"a", "b", "c"}}}, Store: st, Hosts: []string{"pipe"}}
}

// A KILL at any moment takes back nothing that a client was told. A lease that was granted,
// and whose release was not asked for, is held; a released lease is not. No generation is
// given twice. A request that is sent again after the restart has the leases that it had.
func TestKill(t *testing.T) {
	dir := t.TempDir()
	generations := make(map[uint64]string)
	for round := range 5 {
		told, unanswered := killRound(t, dir, round, 5+50*round)

		p := start(t, crashOptions(openStore(t, dir)))
		held := make(map[string]leaseapi.PoolLease)
		for _, l := range p.pools()[0].Leases {
			held[l.Name] = l
		}
		for _, g := range told {
			if other, twice := generations[g.lease.Generation]; twice {
				t.Errorf("generation %d was given to %s and %s", g.lease.Generation, other, g.id)
			}
			generations[g.lease.Generation] = g.id
			isHeld := held[g.lease.Name].Lease == g.lease
			switch {
			case g.released && isHeld:
				t.Errorf("%s: %+v was released, and is held", g.id, g.lease)
			case !g.asked && !isHeld:
				t.Errorf("%s: %+v is lost", g.id, g.lease)
			case !g.asked:
				if again := p.granted("type=q&request_id=" + g.id); again.Leases[0] != g.lease {
					t.Errorf("%s had %+v, and has %+v", g.id, g.lease, again.Leases)
				}
			case g.released:
				if r := p.acquire("type=q&wait=0&request_id=" + g.id); r.status != 410 {
					t.Errorf("%s has ended, and got %d %s", g.id, r.status, r.body)
				}
			}
		}
		t.Logf("round %d: %d grants, %d held at the end", round, len(told), len(held))
		// The next round would wait behind requests that keep their places.
		for _, id := range unanswered {
			p.release(`{"request_ids":["` + id + `"]}`)
		}
		for name := range held {
			p.release(`{"names":["` + name + `"]}`)
		}
		if err := p.stop(); err != nil {
			t.Fatal(err)
		}
	}
}

// toldGrant is a grant whose answer a client read, and what the client did next.
type toldGrant struct {
	id              string
	lease           leaseapi.Lease
	asked, released bool // a release was sent; its answer was read
}

// killRound has clients acquire and release until their server is killed, after a number of
// grants. It returns the grants that they were told of, and the requests without an answer.
func killRound(t *testing.T, dir string, round, grants int) (told []*toldGrant, unanswered []string) {
	exe, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	cmd := exec.Command(exe)
	cmd.Env = append(os.Environ(), crashData+"="+dir)
	cmd.Stderr = os.Stderr
	out, err := cmd.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	defer cmd.Wait() // it was killed before
	defer cmd.Process.Kill()
	addr, err := bufio.NewReader(out).ReadString('\n')
	if err != nil {
		t.Fatal(err)
	}

	p := &peer{t: t, http: &http.Client{Transport: &http.Transport{
		DialContext: func(ctx context.Context, _, _ string) (net.Conn, error) {
			return new(net.Dialer).DialContext(ctx, "tcp", strings.TrimSpace(addr))
		},
	}}}
	defer p.http.CloseIdleConnections()
	var mu sync.Mutex
	var clients sync.WaitGroup
	enough := make(chan struct{})
	for client := range 6 {
		clients.Go(func() {
			for n := 0; ; n++ {
				g := &toldGrant{id: fmt.Sprintf("r%d-%d-%d", round, client, n)}
				r, err := p.try(t.Context(), "POST", "/lease/acquire?type=q&request_id="+g.id, "")
				if err != nil || r.status != 200 {
					mu.Lock()
					defer mu.Unlock()
					unanswered = append(unanswered, g.id)
					return
				}
				var granted leaseapi.AcquireReply
				if err := json.Unmarshal([]byte(r.body), &granted); err != nil || len(granted.Leases) != 1 {
					t.Errorf("answer %s, %v", r.body, err)
					return
				}
				g.lease = granted.Leases[0]
				mu.Lock()
				told = append(told, g)
				if len(told) == grants {
					close(enough)
				}
				mu.Unlock()
				if client == 0 && n == 2 {
					return // one lease is held all the time; the others come and go until the KILL
				}
				g.asked = true
				r, err = p.try(t.Context(), "POST", "/lease/release",
					withLeases(g.lease))
				if err != nil {
					return
				}
				g.released = r.status == 200
			}
		})
	}
	idle := make(chan struct{})
	go func() {
		clients.Wait()
		close(idle)
	}()
	select {
	case <-enough: // where the KILL hits the other clients is up to chance
	case <-idle:
		t.Errorf("no client goes on after %d grants", len(told))
	}
	if err := cmd.Process.Kill(); err != nil && !errors.Is(err, os.ErrProcessDone) {
		t.Fatal(err)
	}
	<-idle
	return told, unanswered
}
