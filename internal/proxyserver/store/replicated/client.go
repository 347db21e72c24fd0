package replicated

import (
	"context"
	"crypto/rand"
	"errors"
	"sync"
	"sync/atomic"
	"time"

	"github.com/leasectl/leasectl/internal/proxyserver/store"
)

// client is shared by all parts. It has the database, and knows which store is there.
type client struct {
	Options
	id atomic.Pointer[string] // of the store; nil: not known yet

	outage struct {
		sync.Mutex
		logged map[string]time.Duration // when each advice was logged; empty: there is no outage
	}
	newest newest

	// leftUntil is until when Gain leaves the lead to others, by SinceBoot: the database refused a
	// commit of the last lead, and may take that of another server. Only Gain and Close of a lead
	// use it, which never run at the same time.
	leftUntil time.Duration
}

// outageEvery is how often a failure that lasts is logged.
const outageEvery = 30 * time.Second

// logOutage logs that the database does not answer as it should, but not more often than
// outageEvery for each advice. An error after the end of ctx is no outage: nobody waits for the
// answer.
func (c *client) logOutage(ctx context.Context, err error) {
	if ctx.Err() != nil {
		return
	}
	advice, now := c.Database.Advice(err), c.SinceBoot()
	c.outage.Lock()
	defer c.outage.Unlock()
	if logged, before := c.outage.logged[advice]; before && now-logged < outageEvery {
		return
	}
	if c.outage.logged == nil {
		c.outage.logged = make(map[string]time.Duration)
	}
	c.outage.logged[advice] = now
	if advice != "" {
		c.Log.Error(advice, "error", err)
		return
	}
	c.Log.Warn(c.Words.Database+" does not answer as it should", "error", err)
}

// logRecovery logs that the database answers again, if it had not. It is called after a write,
// or after a read of a leader, but not after a read of a server that stands by: a database
// without space answers reads.
func (c *client) logRecovery() {
	c.outage.Lock()
	defer c.outage.Unlock()
	if len(c.outage.logged) > 0 {
		c.Log.Info(c.Words.Database + " answers again")
	}
	clear(c.outage.logged)
}

// resign deletes the leader's entry if it has this value. If the database does not answer,
// resign blocks for a quarter of the TTL.
func (c *client) resign(value []byte) error {
	return Within(context.Background(), c.TTL/4, func(ctx context.Context) error { return c.Database.Resign(ctx, value) })
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

// retryPause is how long retry waits between two attempts. It is short because another member
// of the database may answer at once.
const retryPause = 20 * time.Millisecond

// retry runs attempt until it succeeds, is [ErrRefused], finds the lead over, or ctx ends. After
// the end of ctx the error has its cause. An attempt that hangs is given up after a quarter of
// the TTL, so that another member is asked while the lead still holds. Later attempts get
// more time, because the database may be slow.
func (c *client) retry(ctx context.Context, attempt func(context.Context) error) error {
	for limit := c.TTL / 4; ; limit = min(2*limit, c.TTL) {
		err := Within(ctx, limit, attempt)
		if err == nil {
			c.logRecovery()
			return nil
		}
		if errors.Is(err, ErrRefused) || errors.Is(err, store.ErrNotLeader) {
			return err
		}
		c.logOutage(ctx, err)
		if Sleep(ctx, retryPause) != nil {
			return errors.Join(context.Cause(ctx), err)
		}
	}
}

// Within calls attempt with a context that ends after limit, or with ctx, and returns its error.
func Within(ctx context.Context, limit time.Duration, attempt func(context.Context) error) error {
	ctx, cancel := context.WithTimeout(ctx, limit)
	defer cancel()
	return attempt(ctx)
}

// Sleep waits for d. If ctx ends first, Sleep returns the cause.
func Sleep(ctx context.Context, d time.Duration) error {
	t := time.NewTimer(d)
	defer t.Stop()
	select {
	case <-t.C:
		return nil
	case <-ctx.Done():
		return context.Cause(ctx)
	}
}
