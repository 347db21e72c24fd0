package proxyserver

import (
	"context"
	"strconv"
	"strings"
	"testing"
	"testing/synctest"

	"github.com/leasectl/leasectl/internal/pool"
	"github.com/leasectl/leasectl/internal/proxyserver/auth"
	"github.com/leasectl/leasectl/leaseapi"
)

// threePools are the pools a, of 3 names, b, of one, and u, of 10 units.
func threePools() []pool.Config {
	return []pool.Config{{Type: "a", Names: pool.Numbered("a", 3)}, {Type: "b", Names: pool.Numbered("b", 1)}, {Type: "u", Units: 10, Unknown: 4}}
}

// A request of several types is granted all leases or none, and each has its type. It waits in each of
// its pools, and is told for which.
func TestAlso(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		p := start(t, Options{Pools: threePools()})
		got := p.granted("type=a&count=2&also=u&also=b%3D1&request_id=r1")
		want := []leaseapi.Lease{{Name: "a-0", Type: "a"}, {Name: "a-1", Type: "a"}, {Name: "u-1", Type: "u", Units: 4}, {Name: "b-0", Type: "b"}}
		for i, l := range got.Leases {
			l.Generation = 0
			if i >= len(want) || l != want[i] || got.Names[i] != want[i].Name {
				t.Errorf("lease %d is %+v", i, l)
			}
		}
		if again := p.granted("type=a&count=2&also=u&also=b%3D1&request_id=r1"); len(again.Leases) != 4 || again.Leases[3].Generation != got.Leases[3].Generation {
			t.Errorf("again %+v", again)
		}
		state := decode[leaseapi.RequestReply](t, p.do("GET", "/lease/requests/r1", ""), 200)
		if l := state.Leases; len(l) != 4 || l[2].Type != "u" || l[2].Units != 4 || l[0].Units != 0 {
			t.Errorf("its state is %+v", state)
		}
		ctx, cancel := context.WithCancel(t.Context())
		defer cancel()
		p.later(ctx, "type=a&also=b&request_id=r2&wait=1h&key=k")
		synctest.Wait()
		pools := p.pools()
		if a, b := pools[0].Waiters, pools[1].Waiters; len(a) != 1 || len(b) != 1 || a[0].Reason.String() != "waits for b too: full" || a[0].Key != "k" ||
			b[0].Reason.Kind != leaseapi.WaitFull || b[0].Key != "" || b[0].RequestID != "r2" {
			t.Errorf("waiters %+v, %+v", a, b)
		}
		if page := p.do("GET", "/ui/pools/a", "").body; !strings.Contains(page, "waits for b too: full") {
			t.Errorf("the page of a does not say why:\n%s", page)
		}
		for target, want := range map[string]string{
			"/ui/requests/r2": `a</bdi></a> and of <a href="/ui/pools/b"><bdi>b</bdi></a>.`,
			"/ui/requests/r1": `<bdi>u</bdi></a> and of <a href="/ui/pools/b"><bdi>b</bdi></a>.`,
		} {
			if page := p.do("GET", target, "").body; !strings.Contains(page, want) {
				t.Errorf("%s does not name all pools:\n%s", target, page)
			}
		}
		for query, want := range map[string]struct {
			status int
			text   string
		}{
			"type=a&also=b":                                            {400, "goes with a request_id"},
			"type=a&request_id=x&also=":                                {400, "type is empty"},
			"type=a&request_id=x&also=b%3Dx":                           {400, "cannot unmarshal string"},
			"type=a&request_id=x&also=a":                               {400, "is there twice"},
			"type=a&request_id=x&also=b&also=b%3D2":                    {400, "is there twice"},
			"type=a&request_id=x&also=b&key=k&coalesce=join&variant=v": {400, "coalesce join does not go with also"},
			"type=u&request_id=x&also=b&overcommit=true":               {400, "overcommit does not go with also"},
			"type=a&request_id=x&also=y&also=z":                        {404, `there are no pools of type "y" "z"`},
			"type=a&request_id=x&also=b%3D2":                           {400, `"b": the pool can never give that many`},
			"type=a&count=2&request_id=r1&also=u":                      {409, ""},
		} {
			if r := p.acquire(query); r.status != want.status || !strings.Contains(r.body, want.text) && !strings.Contains(r.body, strings.ReplaceAll(want.text, `"`, `\"`)) {
				t.Errorf("%s: %d %s", query, r.status, r.body)
			}
		}
		cancel()
		p.stop()
	})
}

// A caller needs every one of the types.
func TestAlsoNeedsEachPool(t *testing.T) {
	c := callerOf(auth.Caller{Name: "job", Rights: auth.Rights{Pools: []string{"a", "b*"}}})
	for also, allowed := range map[string]bool{"": true, "b": true, "b=2\nbcd": true, "c": false, "b\nc=2": false} {
		p := new(acquireParams)
		p.Type, p.Also = "a", also
		if err := c.mayAcquire(p); (err == nil) != allowed {
			t.Errorf("also %q: %v", also, err)
		}
	}
	for _, tt := range []struct {
		reason leaseapi.WaitReason
		want   string
	}{
		{leaseapi.WaitReason{Kind: leaseapi.WaitFull}, "full"},
		{leaseapi.WaitReason{Kind: leaseapi.WaitElsewhere, Type: "bcd"}, "waits for bcd too"},
		{leaseapi.WaitReason{Kind: leaseapi.WaitFull, Type: "bcd"}, "waits for bcd too: full"},
		{leaseapi.WaitReason{Kind: leaseapi.WaitElsewhere, Type: "c"}, "waits for another pool too"},
		{leaseapi.WaitReason{Kind: leaseapi.WaitKey, Type: "c", By: "me"}, "waits for another pool too"},
		{leaseapi.WaitReason{Kind: leaseapi.WaitCircle, Type: "a", By: "me"}, "waits for me, which waits for you in a"},
		{leaseapi.WaitReason{Kind: leaseapi.WaitCircle, Type: "c", By: "me"}, "waits for me, which waits for you in another pool"},
	} {
		if got := c.reasonTo(tt.reason).String(); got != tt.want {
			t.Errorf("%+v is told as %q, want %q", tt.reason, got, tt.want)
		}
	}
}

// A request that was granted gets its answer again, although new names would make the answer too long.
func TestAlsoAgainAfterLongerNames(t *testing.T) {
	named := func(begin string) (all []pool.Config) {
		for _, typ := range []string{"a", "b"} {
			c := pool.Config{Type: typ}
			for i := range 1500 {
				c.Names = append(c.Names, typ+begin+strconv.Itoa(i))
			}
			all = append(all, c)
		}
		return all
	}
	p := start(t, Options{Pools: named("")})
	query := "type=a&count=1500&also=b%3D1500&request_id="
	p.granted(query + "r1")
	if err := p.server.SetPools(named(strings.Repeat("n", 240))); err != nil {
		t.Fatal(err)
	}
	if again := p.granted(query + "r1"); len(again.Leases) != 3000 {
		t.Errorf("again %d leases", len(again.Leases))
	}
	if r := p.acquire(query + "r2"); r.status != 400 || !strings.Contains(r.body, "in one answer") {
		t.Errorf("a new request: %d %.200s", r.status, r.body)
	}
}

// Of the requests from before a server asked for tokens, a caller means by an id only one all of whose
// types it may act on.
func TestReleaseOfSeveralNeedsEachPool(t *testing.T) {
	set, err := pool.New(threePools(), pool.Snapshot{}, 0)
	if err != nil {
		t.Fatal(err)
	}
	if _, err := set.Acquire(0, pool.Request{ID: "r", Type: "a", Owner: "o", Ask: pool.Ask{Also: "b"}}); err != nil {
		t.Fatal(err)
	}
	for pools, allowed := range map[string]bool{"a": false, "b": false, "a b": true} {
		c := callerOf(auth.Caller{Name: "job", Rights: auth.Rights{Pools: strings.Fields(pools)}})
		if id := c.ownRequest(set, 0, "r"); (id == "r") != allowed {
			t.Errorf("of %s: %q", pools, id)
		}
	}
}
