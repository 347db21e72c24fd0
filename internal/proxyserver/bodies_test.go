package proxyserver

import (
	"fmt"
	"io"
	"net"
	"strings"
	"testing"
	"testing/synctest"

	"github.com/leasectl/leasectl/internal/pool"
	"github.com/leasectl/leasectl/leaseapi"
)

// A body with more in it than a handle has is refused before it is decoded.
func TestBodiesWithTooMuch(t *testing.T) {
	p := start(t, Options{Pools: []pool.Config{quota(1)}})
	many := func(what string, n int) string { return strings.TrimSuffix(strings.Repeat(what+",", n), ",") }
	for name, c := range map[string]struct{ path, body, want string }{
		"leases of a renewal": {leaseapi.PathRenew, `{"leases":[` + many(`{}`, 300_000) + `]}`, "objects"},
		"leases of a release": {leaseapi.PathRelease, `{"leases":[` + many(`{}`, 300_000) + `]}`, "objects"},
		"names":               {leaseapi.PathRelease, `{"names":[` + many(`"x"`, 200_000) + `]}`, "values"},
		"names of an owner":   {leaseapi.PathRelease, `{"owner":"o","names":[` + many(`"x"`, mostObjects+1) + `]}`, "names"},
		"request ids":         {leaseapi.PathRelease, `{"request_ids":[` + many(`"x"`, mostIDs+1) + `]}`, "request ids"},
		"lists":               {leaseapi.PathReport, `[` + many(`[]`, 300_000) + `]`, "objects"},
	} {
		if r := p.do("POST", c.path, c.body); r.status != 400 || !strings.Contains(r.body, c.want) {
			t.Errorf("%s: %d %.200s", name, r.status, r.body)
		}
	}
	// As many names as a pool may have go into one release: clients of version 1 do that.
	all := pool.Config{Type: "all", Names: pool.Numbered("all", pool.MaxCapacity/4)}
	p = start(t, Options{Pools: []pool.Config{all}})
	if r := p.do("POST", leaseapi.PathRelease, `{"names":["`+strings.Join(all.Names, `","`)+`"]}`); r.status != 204 {
		t.Errorf("all names: %d %.200s", r.status, r.body)
	}
}

// Strings are not mistaken for structure.
func TestCheckSize(t *testing.T) {
	for text, ok := range map[string]bool{
		`{"reason":"` + strings.Repeat(`,:{[\"`, mostValues) + `"}`: true,
		`["\\",` + strings.Repeat(`[`, mostObjects+1):               false,
		strings.Repeat(`"`, usualBody+1):                            true,
		strings.Repeat(`"\`, usualBody+1):                           true,
	} {
		if err := checkSize([]byte(text)); (err == nil) != ok {
			t.Errorf("%.40s: %v", text, err)
		}
	}
}

// What a release asks for twice is done, logged and answered once.
func TestReleaseOfTheSameTwice(t *testing.T) {
	p := start(t, Options{Pools: []pool.Config{quota(2)}})
	l := p.granted("type=q&request_id=R").Leases[0]
	one := fmt.Sprintf(`{"name":%q,"generation":%d}`, l.Name, l.Generation)
	reply := decode[leaseapi.ReleaseReply](t, p.release(`{"leases":[`+one+","+one+`],"request_ids":["R","R"],"names":["q-1","q-1"]}`), 200)
	if got := strings.Join(reply.Released, " "); got != "q-0 q-0 q-1" { // by its request, by its generation, and the free name
		t.Errorf("released %q", got)
	}
}

// Bodies that come at once have bounded memory, and one caller does not take all of it, whether it sends
// what it announces or not.
func TestMemoryOfBodies(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		p, red, blue, _ := startWithTokens(t, Options{Pools: []pool.Config{quota(1)}})
		const size = leaseapi.MaxBody
		head := fmt.Sprintf("POST %s HTTP/1.1\r\nHost: pipe\r\nAuthorization: Bearer r-token-0123456789\r\nContent-Length: %d\r\n\r\n", leaseapi.PathRenew, size)
		bodies := &p.server.handler.bodies
		var conns []net.Conn
		say := func(text string) {
			conn, err := p.pipes.dial(t.Context(), "", "")
			if err != nil {
				t.Fatal(err)
			}
			conns = append(conns, conn)
			go io.WriteString(conn, text)
		}
		for i := range mostOfOne / size {
			say(head + strings.Repeat(" ", i*(size-1)/(mostOfOne/size-1)))
		}
		synctest.Wait()
		large := `{"leases":[` + strings.Repeat(" ", size/2) + `]}`
		if r := red.do("POST", leaseapi.PathRenew, large); r.status != 503 || r.header.Get("Retry-After") == "" || bodies.all != mostOfOne {
			t.Errorf("the caller of all these: %d %s; %d bytes count", r.status, r.body, bodies.all)
		}
		if r := red.do("POST", leaseapi.PathRenew, `{"leases":[]}`); r.status != 400 {
			t.Errorf("a small body: %d %s", r.status, r.body)
		}
		if r := blue.do("POST", leaseapi.PathRenew, large); r.status != 400 {
			t.Errorf("another caller: %d %s", r.status, r.body)
		}
		for _, conn := range conns {
			conn.Close()
		}
		synctest.Wait()
		if bodies.all != 0 || len(bodies.of) != 0 {
			t.Errorf("%d bytes count that are gone", bodies.all)
		}
	})
}

// One large body is decoded at a time, and small ones meanwhile. Who does not read the answer keeps no turn.
func TestLargeBodiesTakeTurns(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		p, red, blue, _ := startWithTokens(t, Options{Pools: []pool.Config{quota(1)}})
		large := &p.server.handler.large
		body := `{"leases":[` + strings.Repeat(" ", usualBody) + `]}`
		end := large.take("another")
		done := make(chan int, 1)
		go func() { done <- red.do("POST", leaseapi.PathRelease, body).status }()
		synctest.Wait()
		select {
		case status := <-done:
			t.Fatalf("it has no turn, and was answered: %d", status)
		default:
		}
		if r := blue.do("POST", leaseapi.PathRelease, `{"leases":[]}`); r.status != 200 {
			t.Errorf("a small body: %d %s", r.status, r.body)
		}
		end()
		if status := <-done; status != 200 {
			t.Errorf("in its turn: %d", status)
		}
		unread, err := p.pipes.dial(t.Context(), "", "")
		if err != nil {
			t.Fatal(err)
		}
		fmt.Fprintf(unread, "POST %s HTTP/1.1\r\nHost: pipe\r\nAuthorization: Bearer r-token-0123456789\r\nContent-Length: %d\r\n\r\n%s", leaseapi.PathRelease, len(body), body)
		synctest.Wait()
		if r := blue.do("POST", leaseapi.PathRelease, body); r.status != 200 {
			t.Errorf("while an answer is not read: %d %s", r.status, r.body)
		}
		unread.Close()
		synctest.Wait()
		if large.taken {
			t.Error("somebody has a turn, and no call is under way")
		}
	})
}

// A request for many leases takes part of the memory for large bodies while it is decided, and not while it
// waits: of a counted pool there are always more.
func TestMemoryOfManyLeases(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		p, red, _, _ := startWithTokens(t, Options{Pools: []pool.Config{{Type: "m", Units: 1000}}})
		bodies := &p.server.handler.bodies
		red.acquire("type=m&count=900")
		waits := red.later(t.Context(), "type=m&count=900&wait=1s&request_id=waits")
		synctest.Wait()
		if bodies.all != 0 {
			t.Errorf("%d bytes count, and a call waits", bodies.all)
		}
		if r := <-waits; r.status != 503 {
			t.Errorf("it waited: %d %s", r.status, r.body)
		}
		bodies.take(pool.CallerID("red", ""), mostOfOne)
		if r := red.acquire("type=m&count=90"); r.status != 503 || !strings.Contains(r.body, leaseapi.TextExhausted) {
			t.Errorf("for many: %d %s", r.status, r.body)
		}
		if r := red.acquire("type=m&count=4"); r.status != 200 {
			t.Errorf("for few: %d %s", r.status, r.body)
		}
	})
}
