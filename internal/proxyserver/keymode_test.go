package proxyserver

import (
	"context"
	"testing"
	"testing/synctest"

	"github.com/leasectl/leasectl/internal/pool"
	"github.com/leasectl/leasectl/leaseapi"
)

// A request that reads its key gets the key beside others that read it, and waits behind a writer; /pools
// says which do. A mode needs a key, and a reader merges with nobody.
func TestKeyMode(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		p := start(t, Options{Pools: []pool.Config{quota(5)}})
		for _, id := range []string{"a", "b"} {
			p.granted("type=q&key=k&key_mode=read&request_id=" + id)
		}
		ctx, cancel := context.WithCancel(t.Context())
		defer cancel()
		p.later(ctx, "type=q&key=k&key_mode=write&request_id=w&wait=1h")
		synctest.Wait()
		p.later(ctx, "type=q&key=k&key_mode=read&request_id=c&wait=1h")
		synctest.Wait()
		at := p.pools()[0]
		if l := at.Leases; len(l) != 2 || l[0].KeyMode != leaseapi.KeyRead || l[1].KeyMode != leaseapi.KeyRead {
			t.Errorf("leases %+v", l)
		}
		if w := at.Waiters; len(w) != 2 || w[0].KeyMode != "" || w[0].Reason.Kind != leaseapi.WaitKey ||
			w[1].KeyMode != leaseapi.KeyRead || w[1].Reason.Kind != leaseapi.WaitWriter {
			t.Errorf("waiters %+v", w)
		}
		for query, status := range map[string]int{
			"type=q&key=k&request_id=a":                                            409,
			"type=q&request_id=x&key_mode=read":                                    400,
			"type=q&key=k&request_id=x&key_mode=both":                              400,
			"type=q&key=k&request_id=x&key_mode=":                                  400,
			"type=q&key=k&request_id=x&key_mode=read&coalesce=join&variant=v":      400,
			"type=q&key=other&request_id=x&key_mode=write&coalesce=join&variant=v": 200,
		} {
			if r := p.acquire(query); r.status != status {
				t.Errorf("%s: %d %s", query, r.status, r.body)
			}
		}
		cancel()
		p.stop()
	})
}
