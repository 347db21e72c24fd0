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

// presence tells the others that this server stands by, by a key of its own that
// it writes anew each TTL, and counts who does so. Nothing depends on it: it is for
// people.
type presence struct {
	client *client
	key    []byte
	value  []byte

	mu    sync.Mutex
	wrote time.Duration // by suspend.SinceBoot; 0: the key is not there
	seen  map[string]seen

	count atomic.Int64 // of servers that stood by when it was last looked
}

// seen is when a key was last found to have changed.
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

// stay tells that this server stands by, and counts the others, if it is time.
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
		p.client.noteTrouble(err)
	} else {
		p.client.noteNoTrouble()
	}
	p.wrote = suspend.SinceBoot()
	p.countThem(ctx)
}

// leave tells that this server does not stand by any longer.
func (p *presence) leave() {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.wrote == 0 {
		return
	}
	ctx, cancel := context.WithTimeout(context.Background(), p.client.ttl/4)
	defer cancel()
	// An error means that the others count this server for a few seconds more.
	_ = p.client.call(ctx, "/v3/kv/deleterange", deleteRequest{Key: p.key}, &struct{}{})
	p.wrote = 0
}

// keptTTLs is for how many TTLs a server counts that has not written its key.
const keptTTLs = 3

// look counts who stands by.
func (p *presence) look(ctx context.Context) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.countThem(ctx)
}

// countThem counts who stands by. A key that has not changed for long is deleted: its
// server was killed.
func (p *presence) countThem(ctx context.Context) {
	prefix := []byte(p.client.prefix + "/standby/")
	var all rangeResponse
	err := within(ctx, p.client.ttl/4, func(ctx context.Context) error {
		return p.client.call(ctx, "/v3/kv/range", rangeRequest{Key: prefix, RangeEnd: rangeEnd(prefix)}, &all)
	})
	if err != nil {
		return // whoever stands by is tried again
	}
	now := suspend.SinceBoot()
	there := make(map[string]seen, len(all.KVs))
	for _, kv := range all.KVs {
		s := p.seen[string(kv.Key)]
		if s.revision != kv.ModRevision {
			s = seen{kv.ModRevision, now}
		}
		if now-s.at > keptTTLs*p.client.ttl {
			_ = within(ctx, p.client.ttl/4, func(ctx context.Context) error {
				unchanged := compare{Key: kv.Key, Target: compareMod, ModRevision: kv.ModRevision}
				return p.client.call(ctx, "/v3/kv/txn", txnRequest{Compare: []compare{unchanged}, Success: []operation{remove(kv.Key)}}, &struct{}{})
			})
			continue
		}
		there[string(kv.Key)] = s
	}
	p.seen = there
	p.count.Store(int64(len(there)))
}
