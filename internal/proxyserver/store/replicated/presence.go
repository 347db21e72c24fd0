package replicated

import (
	"context"
	"encoding/json"
	"sync"
	"sync/atomic"
	"time"
)

// presence shows other servers that this one stands by, with an entry of its own that it rewrites
// each TTL. It also counts the servers that stand by. Only people need the count: nothing
// depends on it.
type presence struct {
	*client
	own Standby

	mu    sync.Mutex
	wrote time.Duration // last attempt to write the entry, by SinceBoot; 0: none
	seen  map[string]seen

	count atomic.Int64 // of servers that stood by at the last look
}

// seen is when an entry was first found with its present version.
type seen struct {
	version int64
	at      time.Duration
}

func newPresence(c *client) *presence {
	value, err := json.Marshal(map[string]string{"url": c.Advertise})
	if err != nil {
		panic(err) // strings can be encoded
	}
	return &presence{client: c, own: Standby{Name: newNonce(), Value: value}, seen: make(map[string]seen)}
}

// renewEntry writes the entry, and counts the servers that stand by. It does so once in a TTL, and
// reports whether it did.
func (p *presence) renewEntry(ctx context.Context) bool {
	p.mu.Lock()
	defer p.mu.Unlock()
	if now := p.SinceBoot(); p.wrote != 0 && now-p.wrote < p.TTL {
		return false
	}
	err := p.look(ctx, &p.own)
	if err != nil {
		p.logOutage(ctx, err)
	} else {
		p.logRecovery()
	}
	p.wrote = p.SinceBoot()
	return err == nil
}

// watch counts the servers that stand by until ctx ends. This server leads meanwhile.
func (p *presence) watch(ctx context.Context) {
	p.leave()
	for {
		p.mu.Lock()
		_ = p.look(ctx, nil) // the next look counts again
		p.mu.Unlock()
		if Sleep(ctx, p.TTL/4) != nil {
			return
		}
	}
}

// leave deletes the entry, since this server no longer stands by.
func (p *presence) leave() {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.wrote == 0 {
		return
	}
	// Others delete the entry if this fails.
	_ = Within(context.Background(), p.TTL/4, func(ctx context.Context) error { return p.Database.Leave(ctx, p.own.Name, 0) })
	p.wrote = 0
}

// keptTTLs is for how many TTLs a server still counts that does not rewrite its entry.
const keptTTLs = 3

// look writes own unless it is nil, and counts the servers that stand by. It deletes an entry that
// has not changed for keptTTLs, whose server was killed. The caller holds p.mu.
func (p *presence) look(ctx context.Context, own *Standby) error {
	var all []Standby
	err := Within(ctx, p.TTL/4, func(ctx context.Context) (err error) {
		all, err = p.Database.Standbys(ctx, own)
		return err
	})
	if err != nil {
		return err
	}
	now := p.SinceBoot()
	there, count := make(map[string]seen, len(all)), 0
	for _, other := range all {
		s := p.seen[other.Name]
		if s.version != other.Version {
			s = seen{other.Version, now}
		}
		there[other.Name] = s // also an entry to delete: if that fails, the next look does it
		if now-s.at > keptTTLs*p.TTL {
			_ = Within(ctx, p.TTL/4, func(ctx context.Context) error { return p.Database.Leave(ctx, other.Name, other.Version) })
			continue
		}
		count++
	}
	p.seen = there
	p.count.Store(int64(count))
	return nil
}
