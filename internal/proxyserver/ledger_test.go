package proxyserver

import (
	"context"
	"encoding/json"
	"fmt"
	"maps"
	"math/rand/v2"
	"net/http"
	"net/url"
	"slices"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/leasectl/leasectl/leaseapi"
)

// ledger is what the clients know about who has which lease.
type ledger struct {
	t           *testing.T
	mu          sync.Mutex
	held        map[string]entry  // by name: from the answer to an acquire until its release is sent
	generations map[uint64]string // all generations ever seen, with their request
	died        int               // holders
}

type entry struct {
	leaseapi.Lease
	owner, id string
}

func (l *ledger) take(owner, id string, leases []leaseapi.Lease) {
	l.mu.Lock()
	defer l.mu.Unlock()
	for _, lease := range leases {
		if other, ok := l.held[lease.Name]; ok {
			l.t.Errorf("%s was granted %+v, which %s holds as %+v", id, lease, other.id, other.Lease)
		}
		if other, ok := l.generations[lease.Generation]; ok {
			l.t.Errorf("generation %d was given to %s and to %s", lease.Generation, other, id)
		}
		l.held[lease.Name] = entry{lease, owner, id}
		l.generations[lease.Generation] = id
	}
}

func (l *ledger) give(leases []leaseapi.Lease) {
	l.mu.Lock()
	defer l.mu.Unlock()
	for _, lease := range leases {
		delete(l.held, lease.Name)
	}
}

func (l *ledger) snapshot() map[string]entry {
	l.mu.Lock()
	defer l.mu.Unlock()
	return maps.Clone(l.held)
}

// job acquires and releases until stop, whatever happens to the server: every other lease is
// of a pool that has a queue.
func (l *ledger) job(ctx context.Context, c *http.Client, n int, r *rand.Rand, stop *atomic.Bool) {
	owner, typ := fmt.Sprintf("job-%d", n), "q"
	if n%2 == 1 {
		typ = "wide"
	}
	for i := 0; !stop.Load() && !l.t.Failed() && ctx.Err() == nil; i++ {
		id := fmt.Sprintf("%s-%d", owner, i)
		count := 1 + r.IntN(2)
		if r.IntN(20) == 0 {
			l.leave(ctx, c, owner, id)
		}
		target := fmt.Sprintf("/lease/acquire?type=%s&count=%d&owner=%s&request_id=%s", typ, count, owner, id)
		if r.IntN(8) == 0 { // a copy whose answer nobody reads
			short, cancel := context.WithTimeout(ctx, time.Duration(r.IntN(2000))*time.Microsecond)
			once(short, c, "POST", target, "")
			cancel()
		}
		got, err := insist(ctx, c, "POST", target, "")
		var grant leaseapi.AcquireReply
		if err != nil || got.status != 200 || json.Unmarshal([]byte(got.body), &grant) != nil || len(grant.Leases) != count {
			l.t.Errorf("%s: %d %s, %v", id, got.status, got.body, err)
			return
		}
		l.take(owner, id, grant.Leases)
		body, _ := json.Marshal(leaseapi.RenewRequest{Leases: grant.Leases})
		if got, err := insist(ctx, c, "POST", "/lease/renew", string(body)); err != nil || got.status != 200 {
			l.t.Errorf("%s: renew: %d %s, %v", id, got.status, got.body, err)
		}
		dies := r.IntN(40) == 0 || n == 1 && i == 0 // one job dies at any speed
		if typ == "wide" && dies {                  // and nobody releases its leases
			l.give(grant.Leases)
			l.die(ctx, c, grant.Leases)
			continue
		}
		time.Sleep(time.Duration(r.IntN(5000)) * time.Microsecond) // the job works
		if r.IntN(4) == 0 {
			again, err := insist(ctx, c, "POST", target, "")
			var same leaseapi.AcquireReply
			if json.Unmarshal([]byte(again.body), &same); err != nil || !slices.Equal(same.Leases, grant.Leases) {
				l.t.Errorf("%s had %+v, and has %d %s, %v", id, grant.Leases, again.status, again.body, err)
			}
		}
		l.give(grant.Leases)
		if r.IntN(4) == 0 {
			body = []byte(`{"request_ids":["` + id + `"]}`)
		} else {
			body, _ = json.Marshal(leaseapi.ReleaseRequest{Leases: grant.Leases})
		}
		if got, err := insist(ctx, c, "POST", "/lease/release", string(body)); err != nil || got.status != 200 {
			l.t.Errorf("%s: release: %d %s, %v", id, got.status, got.body, err)
		}
		if got, err := insist(ctx, c, "POST", target, ""); err != nil || got.status != 410 {
			l.t.Errorf("%s has ended, and got %d %s, %v", id, got.status, got.body, err)
		}
	}
}

// await returns after n more grants.
func (l *ledger) await(n int) {
	l.t.Helper()
	count := func() int {
		l.mu.Lock()
		defer l.mu.Unlock()
		return len(l.generations)
	}
	n += count()
	eventually(l.t, func() bool { return count() >= n || l.t.Failed() })
}

// leave queues for a name that is held all the time, and does not come back once it has a place.
func (l *ledger) leave(ctx context.Context, c *http.Client, owner, id string) {
	asking, cut := context.WithCancel(ctx)
	var cutOff sync.WaitGroup
	cutOff.Go(func() {
		insist(asking, c, "POST", fmt.Sprintf("/lease/acquire?type=clock&owner=%s&request_id=%s-left", owner, id), "")
	})
	for queued := false; !queued && ctx.Err() == nil; {
		got, _ := insist(ctx, c, "GET", leaseapi.PathRequests+id+"-left", "")
		queued = got.status == 200
	}
	cut()
	cutOff.Wait()
}

// deadTTL is the TTL of leases whose holder dies.
const deadTTL = time.Second

// die renews leases for the last time, with a short TTL.
func (l *ledger) die(ctx context.Context, c *http.Client, leases []leaseapi.Lease) {
	body, _ := json.Marshal(leaseapi.RenewRequest{Leases: leases, TTL: leaseapi.Duration(deadTTL)})
	if got, err := insist(ctx, c, "POST", "/lease/renew", string(body)); err != nil || got.status != 200 {
		l.t.Errorf("renew: %d %s, %v", got.status, got.body, err)
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	l.died++
}

// compare checks the server's leases against the clients': a lease that a client holds before
// and after the look must be there, with its owner.
func (l *ledger) compare(ctx context.Context, c *http.Client) (clock time.Duration) {
	before := l.snapshot()
	server := make(map[string]leaseapi.PoolLease)
	seen := make(map[string]bool) // types
	for after := ""; ; {
		got, err := insist(ctx, c, "GET", "/pools?after="+url.QueryEscape(after), "")
		var page leaseapi.PoolsReply
		if err != nil || got.status != 200 || json.Unmarshal([]byte(got.body), &page) != nil {
			l.t.Errorf("pools: %d %s, %v", got.status, got.body, err)
			return 0
		}
		for _, p := range page.Pools {
			seen[p.Type] = true
			if p.InUse > p.Capacity {
				l.t.Errorf("%d of %d are in use", p.InUse, p.Capacity)
			}
			for _, lease := range p.Leases {
				server[lease.Name] = lease
			}
		}
		if after = page.Next; after == "" { // those who left the queue may fill a page
			break
		}
	}
	if len(seen) != len(campaignPools()) {
		l.t.Errorf("the pools are %v", slices.Sorted(maps.Keys(seen)))
	}
	for name, e := range l.snapshot() {
		if before[name] == e && (server[name].Lease != e.Lease || server[name].Owner != e.owner) {
			l.t.Errorf("%s holds %+v, and the server says %+v", e.owner, e.Lease, server[name])
		}
	}
	return time.Duration(server["clock"].ExpiresIn)
}
