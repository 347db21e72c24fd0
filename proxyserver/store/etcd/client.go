package etcd

import (
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"log/slog"
	"sync"
	"sync/atomic"
	"time"

	"github.com/leasectl/leasectl/leaseapi/suspend"
	"github.com/leasectl/leasectl/proxyserver/store"
)

// client is shared by all parts. It knows where the store is, and speaks to etcd.
type client struct {
	*gateway
	prefix string
	ttl    time.Duration
	log    *slog.Logger
	id     atomic.Pointer[string] // of the store; nil: not known yet

	trouble struct {
		sync.Mutex
		text   string // of the last failure; empty: there is none
		logged time.Duration
	}
}

// troubleEvery is how often a failure that lasts is logged.
const troubleEvery = 30 * time.Second

// noteTrouble logs that etcd does not answer as it should, but not more often than
// troubleEvery. An error after the end of ctx is no trouble with etcd: nobody waits for the
// answer.
func (c *client) noteTrouble(ctx context.Context, err error) {
	if ctx.Err() != nil {
		return
	}
	c.trouble.Lock()
	defer c.trouble.Unlock()
	first := c.trouble.text == ""
	c.trouble.text = err.Error()
	if !first && suspend.SinceBoot()-c.trouble.logged < troubleEvery {
		return
	}
	c.trouble.logged = suspend.SinceBoot()
	switch {
	case noSpace(err):
		c.log.Error("no space: etcd takes no writes, so that nothing is granted or released: compact and defragment it, raise --quota-backend-bytes of etcd, and disarm its alarm", "error", err)
	case forbidden(err):
		c.log.Error(fmt.Sprintf("our user of etcd may not read and write below %[1]s/, so that nothing is granted or released: "+
			"grant that to a role of the user: etcdctl role grant-permission ROLE --prefix=true readwrite %[1]s/", c.prefix), "error", err)
	default:
		c.log.Warn("etcd does not answer as it should", "error", err)
	}
}

// noteNoTrouble logs that etcd answers again, if it had not. It is called after a write, or
// after a read of a leader, but not after a read of a server that stands by: an etcd without
// space answers reads.
func (c *client) noteNoTrouble() {
	c.trouble.Lock()
	defer c.trouble.Unlock()
	if c.trouble.text != "" {
		c.log.Info("etcd answers again")
	}
	c.trouble.text = ""
}

func (c *client) leaderKey() []byte { return []byte(c.prefix + "/leader") }
func (c *client) metaKey() []byte   { return []byte(c.prefix + "/meta") }

// resign deletes the leader's key if it has this value. If etcd does not answer, resign blocks
// for a quarter of the TTL.
func (c *client) resign(value []byte) error {
	ctx, cancel := context.WithTimeout(context.Background(), c.ttl/4)
	defer cancel()
	key := c.leaderKey()
	txn := txnRequest{Compare: []compare{{Key: key, Target: compareValue, Value: value}}, Success: []operation{remove(key)}}
	return c.call(ctx, "/v3/kv/txn", txn, &txnResponse{})
}

// ID returns the id of the store; "" until it is known.
func (c *client) ID() string {
	if id := c.id.Load(); id != nil {
		return *id
	}
	return ""
}

func (c *client) noteID(id string) { c.id.Store(&id) }

func newNonce() string { return rand.Text() }

// rangeEnd returns the key after all keys that begin with prefix.
func rangeEnd(prefix []byte) []byte {
	end := append([]byte{}, prefix...)
	end[len(end)-1]++ // cannot overflow: it is a slash
	return end
}

// retryPause is how long retry waits between two attempts. It is short because another
// member may answer at once.
const retryPause = 20 * time.Millisecond

// retry runs attempt until it succeeds, is [refused], finds the lead over, or ctx ends. After
// the end of ctx the error has its cause. An attempt that hangs is given up after a quarter of
// the TTL, so that another member is asked while the lead still holds. Later attempts get
// more time, because etcd may be slow.
func (c *client) retry(ctx context.Context, attempt func(context.Context) error) error {
	for limit := c.ttl / 4; ; limit = min(2*limit, c.ttl) {
		err := within(ctx, limit, attempt)
		if err == nil {
			c.noteNoTrouble()
			return nil
		}
		if refused(err) || errors.Is(err, store.ErrNotLeader) {
			return err
		}
		c.noteTrouble(ctx, err)
		if sleep(ctx, retryPause) != nil {
			return errors.Join(context.Cause(ctx), err)
		}
	}
}

// within runs attempt for at most limit.
func within(ctx context.Context, limit time.Duration, attempt func(context.Context) error) error {
	ctx, cancel := context.WithTimeout(ctx, limit)
	defer cancel()
	return attempt(ctx)
}

// sleep waits for d. If ctx ends first, sleep returns the cause.
func sleep(ctx context.Context, d time.Duration) error {
	t := time.NewTimer(d)
	defer t.Stop()
	select {
	case <-t.C:
		return nil
	case <-ctx.Done():
		return context.Cause(ctx)
	}
}
