package replicated

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"sync/atomic"
	"time"

	"github.com/leasectl/leasectl/internal/proxyserver/store"
)

// format is the number of this layout. A server refuses a store of a later format, since it
// would lose records that it cannot read.
const format = 1

// metaRecord describes all records. Each commit writes it.
type metaRecord struct {
	Format     int           `json:"format"`
	ID         string        `json:"id"` // of the store, for its life
	Clock      time.Duration `json:"clock"`
	Generation uint64        `json:"generation"`
	Keys       int           `json:"keys"`   // how many records there are
	Commit     string        `json:"commit"` // names the commit that wrote it, uniquely
}

// lead is the store of the server that leads, and the time for which it leads. keep extends
// the time.
type lead struct {
	*client
	nonce string // no other lead has it
	value []byte // of the leader's entry, with the nonce

	validUntil atomic.Int64 // by SinceBoot
	ended      context.Context
	end        context.CancelCauseFunc
	running    sync.WaitGroup
	closed     bool

	// Only Load and Commit use these fields, and they never run at the same time.
	meta        metaRecord
	metaVersion int64 // of the last commit; 0: there is no meta
	commits     int
	table       *table
}

var _ store.Lead = (*lead)(nil)

// extend makes the lead valid for a full TTL from began. That is the time before the
// transaction that confirmed the lead was sent.
func (l *lead) extend(began time.Duration) {
	until := int64(began + l.TTL)
	for {
		old := l.validUntil.Load()
		if old >= until || l.validUntil.CompareAndSwap(old, until) {
			return
		}
	}
}

// remaining returns how long the lead is valid if it is not extended.
func (l *lead) remaining() time.Duration {
	return time.Duration(l.validUntil.Load()) - l.SinceBoot()
}

// over is the reason why a lead is over. It is [store.ErrNotLeader]. It is a string because
// variables from fmt.Errorf would be made at the start of every command.
type over string

const (
	errDeposed  over = "another server has taken the lead, or the leader's entry was deleted"
	errResigned over = "it has given up the lead"
)

// lapsed is the reason of a lead that no transaction has confirmed for a TTL.
func (c *client) lapsed() error {
	return over(c.Words.Database + " has not confirmed it for --leader-ttl")
}

func (e over) Error() string        { return store.ErrNotLeader.Error() + ": " + string(e) }
func (e over) Is(target error) bool { return target == store.ErrNotLeader }

// Holds implements [store.Lead]. Once Holds has failed, the lead is over for good.
func (l *lead) Holds() error {
	if l.ended.Err() != nil {
		return context.Cause(l.ended)
	}
	if l.remaining() <= 0 {
		l.end(l.lapsed())
		return context.Cause(l.ended)
	}
	return nil
}

// Over implements [store.Lead].
func (l *lead) Over() <-chan struct{} { return l.ended.Done() }

// keep rewrites the leader's entry every quarter of the TTL until the lead is over, and returns
// why it is over. An attempt that hangs does not hold up the next one, which may reach another
// member.
func (l *lead) keep() error {
	ctx, cancel := context.WithCancel(l.ended)
	attempts := make(chan error, 4) // an attempt takes a TTL at most, so about four are under way
	underWay := 0
	defer func() {
		cancel()
		for range underWay {
			<-attempts
		}
	}()
	ticker := time.NewTicker(l.TTL / 4)
	defer ticker.Stop()
	for {
		lapse := time.NewTimer(l.remaining())
		select {
		case <-l.ended.Done():
		case <-lapse.C:
		case <-ticker.C:
			underWay++
			go func() { attempts <- Within(ctx, l.TTL, l.rewrite) }()
		case err := <-attempts:
			underWay--
			if errors.Is(err, store.ErrNotLeader) {
				return err
			}
			if err != nil {
				l.logOutage(ctx, err)
			}
		}
		lapse.Stop()
		if err := l.Holds(); err != nil {
			return err
		}
	}
}

// rewrite writes the leader's entry again, which extends the lead.
func (l *lead) rewrite(ctx context.Context) error {
	known, began := l.newest.version.Load(), l.SinceBoot()
	version, kept, err := l.Database.Keep(ctx, l.value)
	if err != nil {
		return err
	}
	if !kept {
		return errDeposed
	}
	if err := l.Holds(); err != nil { // the lead has lapsed meanwhile, for good
		return err
	}
	if err := l.newest.see(l.client, known, version); err != nil {
		return fmt.Errorf("%w: %w", store.ErrNotLeader, err)
	}
	l.extend(began)
	return nil
}

// Check implements [store.Store].
func (l *lead) Check() error { return l.Holds() }

// Close implements [store.Store]. It gives the lead up, so that the next server need not wait
// for its end. A lead that is over it gives up only if that ended with [ErrRefused]; then Gain also
// leaves the lead to others for a while. If the database does not answer, Close blocks for about a
// quarter of the TTL.
func (l *lead) Close() error {
	if l.closed {
		return nil
	}
	l.closed = true
	why := l.Holds()
	l.end(errResigned)
	l.running.Wait()
	switch {
	case errors.Is(why, ErrRefused): // most likely nobody else has taken the lead
		l.leftUntil = l.SinceBoot() + l.TTL
	case why != nil:
		return nil
	}
	if err := l.resign(l.value); err != nil {
		return fmt.Errorf("give up the lead: %w", err)
	}
	return nil
}
