package proxyserver

import (
	"fmt"
	"io"
	"net"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/leasectl/leasectl/internal/pool"
	"github.com/leasectl/leasectl/internal/wiretest"
	"github.com/leasectl/leasectl/leaseapi"
)

// Large answers that nobody reads have bounded memory: of their caller, others wait for room, and those of
// other callers do not.
func TestMemoryOfAnswers(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var pools []pool.Config
		for i := range 100 {
			typ := fmt.Sprintf("%s-%d", strings.Repeat("q", 100), i)
			pools = append(pools, pool.Config{Type: typ, Names: pool.Numbered(typ, 100)})
		}
		p, red, blue, _ := startWithTokens(t, Options{Pools: pools})
		answers := &p.server.handler.answers
		granted := "type=" + pools[0].Type + "&count=100&request_id=R"
		red.granted(granted)
		var conns []net.Conn
		ask := func(path string) {
			conn, err := p.pipes.dial(t.Context(), "", "")
			if err != nil {
				t.Fatal(err)
			}
			conns = append(conns, conn)
			fmt.Fprintf(conn, "%s HTTP/1.1\r\nHost: pipe\r\nAuthorization: Bearer r-token-0123456789\r\n\r\n", path)
		}
		for range mostOfOne / bytesOfList {
			ask("GET " + leaseapi.PathPools)
		}
		synctest.Wait()
		if r := red.do("GET", leaseapi.PathPools, ""); r.status != 503 || r.header.Get("Retry-After") == "" || !strings.Contains(r.body, errAnswers.Error()) {
			t.Errorf("a list of the same caller: %d, %d bytes", r.status, len(r.body))
		}
		if r := red.acquire(granted); r.status != 503 {
			t.Errorf("a large grant: %d, %d bytes", r.status, len(r.body))
		}
		if r := red.do("GET", leaseapi.PathWhoami, ""); r.status != 200 {
			t.Errorf("a small answer: %d %s", r.status, r.body)
		}
		if r := blue.do("GET", leaseapi.PathPools, ""); r.status != 200 {
			t.Errorf("another caller: %d, %d bytes", r.status, len(r.body))
		}
		go func() {
			time.Sleep(listTime / 2)
			conns[0].Close()
		}()
		if r := red.do("GET", leaseapi.PathPools, ""); r.status != 200 {
			t.Errorf("after one was over: %d, %d bytes", r.status, len(r.body))
		}
		for range mostOfOne/bytesOfList - 1 {
			ask("POST " + wiretest.Target(leaseapi.PathAcquire+"?"+granted))
		}
		for _, conn := range conns {
			go io.Copy(io.Discard, conn)
		}
		synctest.Wait()
		if answers.all != 0 || len(answers.of) != 0 || len(answers.waiting) != 0 {
			t.Errorf("%d bytes count that are read", answers.all)
		}
		red.granted(granted)
		for _, conn := range conns {
			conn.Close()
		}
	})
}

// Four callers that have all of a budget keep nobody out; without tokens there is one caller, which has all of it.
func TestBudget(t *testing.T) {
	var b budget
	for i := range 4 {
		if caller := fmt.Sprint("c", i); !b.take(caller, mostOfOne) || b.take(caller, 1) {
			t.Errorf("%s has no quarter, or more", caller)
		}
	}
	if !b.take("d", mostOfOne) || b.take("d", 1) {
		t.Error("one that has nothing finds no room, or more than that")
	}
	b = budget{}
	if !b.take("", mostMemory) || b.take("", 1) {
		t.Error("without tokens there is less, or more")
	}
}
