package etcd

import (
	"context"
	"encoding/json"
	"fmt"
	"sync"
	"sync/atomic"
	"time"

	"github.com/leasectl/leasectl/leaseapi/suspend"
)

// presence shows other servers that this one stands by, with a key of its own that it rewrites
// each TTL. It also counts the servers that stand by. Only people need the count: nothing
// depends on it.
type presence struct {
	client *client
	key    []byte
	value  []byte

	mu    sync.Mutex
	wrote time.Duration // last attempt to write the key, by suspend.SinceBoot; 0: none
	seen  map[string]seen

	count atomic.Int64 // of servers that stood by at the last look
}

// seen is when a key was first found with its present revision.
type seen struct {
	revision int64
	at       time.Duration
}

func newPresence(c *client, url string) *presence {
	value, err := json.Marshal(map[string]string{"url": url})
	if err != nil {
		panic(err) // strings can be encoded
	}
	return &presence{client: c, key: fmt.Appendf(nil, "%s/standby/%s", c.prefix, newNonce()), value: value, seen: make(map[string]seen)}
}

// stay writes the key, and counts the servers that stand by. It does so once in a TTL.
func (p *presence) stay(ctx context.Context) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if now := suspend.SinceBoot(); p.wrote != 0 && now-p.wrote < p.client.ttl {
		return
	}
	err := within(ctx, p.client.ttl/4, func(ctx context.Context) error {
		return p.client.call(ctx, "/v3/kv/put", putRequest{Key: p.key, Value: p.value}, &struct{}{})
	})
	if err != nil {
		p.client.noteTrouble(ctx, err)
	} else {
		p.client.noteNoTrouble()
	}
	p.wrote = suspend.SinceBoot()
	p.countThem(ctx)
}

// leave deletes the key, since this server no longer stands by.
func (p *presence) leave() {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.wrote == 0 {
		return
	}
	ctx, cancel := context.WithTimeout(context.Background(), p.client.ttl/4)
	defer cancel()
	// After an error the others count this server for a few seconds more.
	_ = p.client.call(ctx, "/v3/kv/deleterange", deleteRequest{Key: p.key}, &struct{}{})
	p.wrote = 0
}

// keptTTLs is for how many TTLs a server still counts that does not rewrite its key.
const keptTTLs = 3

// look counts the servers that stand by.
func (p *presence) look(ctx context.Context) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.countThem(ctx)
}

// countThem is look with p.mu held. It deletes a key that has not changed for keptTTLs, whose
// server was killed.
func (p *presence) countThem(ctx context.Context) {
	prefix := []byte(p.client.prefix + "/standby/")
	var all rangeResponse
	err := within(ctx, p.client.ttl/4, func(ctx context.Context) error {
		return p.client.call(ctx, "/v3/kv/range", rangeRequest{Key: prefix, RangeEnd: rangeEnd(prefix)}, &all)
	})
	if err != nil {
		return // the next call counts again
	}
	now := suspend.SinceBoot()
	there, count := make(map[string]seen, len(all.KVs)), 0
	for _, kv := range all.KVs {
		s := p.seen[string(kv.Key)]
		if s.revision != kv.ModRevision {
			s = seen{kv.ModRevision, now}
		}
		there[string(kv.Key)] = s // also a key to delete: if that fails, the next look does it
		if now-s.at > keptTTLs*p.client.ttl {
			_ = within(ctx, p.client.ttl/4, func(ctx context.Context) error {
				unchanged := compare{Key: kv.Key, Target: compareMod, ModRevision: kv.ModRevision}
				return p.client.call(ctx, "/v3/kv/txn", txnRequest{Compare: []compare{unchanged}, Success: []operation{remove(kv.Key)}}, &struct{}{})
			})
			continue
		}
		count++
	}
	p.seen = there
	p.count.Store(int64(count))
}
