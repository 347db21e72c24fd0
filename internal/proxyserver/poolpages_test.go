package proxyserver

import (
	"fmt"
	"net/url"
	"strings"
	"testing"

	"github.com/leasectl/leasectl/internal/pool"
	"github.com/leasectl/leasectl/leaseapi"
)

// The pages together hold every pool, lease and waiter once and in order, and no page is
// longer than clients read.
func TestPoolPages(t *testing.T) {
	wide := pool.Config{Type: "wide.pool", Names: pool.Numbered("n", 1300)}
	p := start(t, Options{Pools: []pool.Config{quota(2), {Type: "empty", Names: []string{"e"}}, wide}})
	p.granted("type=q&count=2&owner=a") // firm at once, however slow the machine is
	owner := url.QueryEscape(strings.Repeat("<", leaseapi.MaxOwner))
	for i := range 12 {
		p.later(t.Context(), fmt.Sprintf("type=q&request_id=w%d&owner=%s", i, owner))
		p.waitingFor(i + 1)
	}
	p.granted("type=wide.pool&count=1000&owner=" + owner)
	p.granted("type=wide.pool&count=300&owner=c")
	for _, limit := range []string{"", "41", "100000"} {
		seen, pools, after, pages := map[string]int{}, []string{}, "", 0
		var last uint64
		for {
			r := p.do("GET", "/pools?"+url.Values{"limit": {limit}, "after": {after}}.Encode(), "")
			reply := decode[leaseapi.PoolsReply](t, r, 200)
			if pages++; len(r.body) > leaseapi.MaxBody || pages > 2000 {
				t.Fatalf("limit %q, page %d: %d bytes", limit, pages, len(r.body))
			}
			for _, pl := range reply.Pools {
				if len(pools) == 0 || pools[len(pools)-1] != pl.Type {
					pools, last = append(pools, pl.Type), 0
				}
				for _, l := range pl.Leases {
					if l.Generation <= last {
						t.Fatalf("generation %d after %d", l.Generation, last)
					}
					last = l.Generation
					seen["lease "+l.Name]++
				}
				for _, w := range pl.Waiters {
					seen["waiter "+w.RequestID]++
				}
			}
			if after = reply.Next; after == "" {
				break
			}
		}
		if fmt.Sprint(pools) != "[q empty wide.pool]" || len(seen) != 1302+12 {
			t.Errorf("limit %q: pools %v with %d leases and waiters in %d pages", limit, pools, len(seen), pages)
		}
		for what, n := range seen {
			if n != 1 {
				t.Errorf("limit %q: %s came %d times", limit, what, n)
			}
		}
		if pages < 3 {
			t.Errorf("limit %q: %d pages", limit, pages)
		}
	}
	for _, query := range []string{"limit=0", "limit=x", "after=x", "after=1.2.x.q", "after=-1.2.3.q"} {
		if r := p.do("GET", "/pools?"+query, ""); r.status != 400 {
			t.Errorf("%s: %d %s", query, r.status, r.body)
		}
	}
	// From a place in a pool that has gone, the page begins with the next pool.
	if got := decode[leaseapi.PoolsReply](t, p.do("GET", "/pools?after=1.5.5.gone", ""), 200); len(got.Pools) == 0 || got.Pools[0].Type != "empty" {
		t.Errorf("after a pool that is gone: %+v", got.Pools)
	}
}

// Pools without leases fill a page, too: the text of each may be long.
func TestPagesOfPoolsThatSayMuch(t *testing.T) {
	var configs []pool.Config
	for i := range leaseapi.PageSize {
		configs = append(configs, pool.Config{Type: fmt.Sprintf("%03d%s", i, strings.Repeat("<", 240)), Names: []string{fmt.Sprint(i)}})
	}
	p := start(t, Options{Pools: configs})
	for _, c := range configs {
		if r := p.do("POST", leaseapi.PathPause, fmt.Sprintf(`{"type":%q,"reason":%q}`, c.Type, strings.Repeat("&", leaseapi.MaxReason))); r.status != 200 {
			t.Fatalf("%d %s", r.status, r.body)
		}
	}
	after, seen := "", 0
	for {
		r := p.do("GET", "/pools?"+url.Values{"after": {after}}.Encode(), "")
		reply := decode[leaseapi.PoolsReply](t, r, 200)
		if len(r.body) > leaseapi.MaxBody {
			t.Errorf("a page of %d bytes", len(r.body))
		}
		for _, pool := range reply.Pools {
			if pool.Type != configs[seen].Type {
				t.Fatalf("%s, want %s", pool.Type, configs[seen].Type)
			}
			seen++
		}
		if after = reply.Next; after == "" {
			break
		}
	}
	if seen != len(configs) {
		t.Errorf("%d of %d pools", seen, len(configs))
	}
}

// The pages end even if they are the smallest.
func TestSmallestPages(t *testing.T) {
	all := []leaseapi.Pool{{Type: "a"}, {Type: "b", Leases: make([]leaseapi.PoolLease, 3), Waiters: []leaseapi.Waiter{{Place: 1}, {Place: 2}}}, {Type: "c"}}
	for i := range all[1].Leases {
		all[1].Leases[i].Generation = uint64(i + 1)
	}
	var from position
	for pages, entries := 1, 0; ; pages++ {
		p, next := pageOf(all, from, 1)
		if entries += p.entries; len(p.pools) != 1 || p.entries > 1 || pages > 7 {
			t.Fatalf("page %d: %+v", pages, p)
		}
		if next == "" {
			if entries != 5 {
				t.Errorf("%d leases and waiters in %d pages", entries, pages)
			}
			return
		}
		var err error
		if from, err = parsePosition(next); err != nil {
			t.Fatal(err)
		}
	}
}

// A page goes on in its pool although a pool before it has gone, or come, since the page before.
func TestPagesGoOnInTheirPool(t *testing.T) {
	b := leaseapi.Pool{Type: "b", Leases: make([]leaseapi.PoolLease, 3)}
	for i := range b.Leases {
		b.Leases[i].Generation = uint64(i + 1)
	}
	_, next := pageOf([]leaseapi.Pool{{Type: "a"}, b, {Type: "c"}}, position{}, 2)
	from, err := parsePosition(next)
	if err != nil || from.typ != "b" {
		t.Fatalf("the next page begins at %q, %v", next, err)
	}
	for _, now := range [][]leaseapi.Pool{{b, {Type: "c"}}, {{Type: "0"}, {Type: "a"}, b}} {
		if p, _ := pageOf(now, from, 10); len(p.pools) == 0 || p.pools[0].Type != "b" || p.pools[0].Leases[0].Generation != from.lease+1 {
			t.Errorf("after %q: %+v", next, p.pools)
		}
	}
}
