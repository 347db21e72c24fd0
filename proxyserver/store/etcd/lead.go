package etcd

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"sync/atomic"
	"time"

	"github.com/leasectl/leasectl/leaseapi/suspend"
	"github.com/leasectl/leasectl/proxyserver/store"
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
	Keys       int           `json:"keys"`   // how many keys hold records
	Commit     string        `json:"commit"` // names the commit that wrote it, uniquely
}

// lead is the store of the server that leads, and the time for which it leads. keep extends
// the time.
type lead struct {
	client *client
	nonce  string // no other lead has it
	value  []byte // of the leader's key, with the nonce

	validUntil atomic.Int64 // by suspend.SinceBoot
	ended      context.Context
	end        context.CancelCauseFunc
	running    sync.WaitGroup
	closed     bool

	// Only Load and Commit use these fields, and they never run at the same time.
	meta         metaRecord
	metaRevision int64 // of meta's last change; 0: there is no meta
	commits      int
	table        *table
}

var _ store.Lead = (*lead)(nil)

// leaderKept is the condition that etcd still has this lead.
func (l *lead) leaderKept() compare {
	return compare{Key: l.client.leaderKey(), Target: compareValue, Value: l.value}
}

// extend makes the lead valid for a full TTL from began. That is the time before the
// transaction that confirmed the lead was sent.
func (l *lead) extend(began time.Duration) {
	until := int64(began + l.client.ttl)
	for {
		old := l.validUntil.Load()
		if old >= until || l.validUntil.CompareAndSwap(old, until) {
			return
		}
	}
}

// remaining returns how long the lead is valid if it is not extended.
func (l *lead) remaining() time.Duration {
	return time.Duration(l.validUntil.Load()) - suspend.SinceBoot()
}

// over is the reason why a lead is over. It is [store.ErrNotLeader]. It is a string because
// variables from fmt.Errorf would be made at the start of every command.
type over string

const (
	errLapsed   over = "etcd has not confirmed it for --leader-ttl" // no transaction for a TTL
	errDeposed  over = "another server has taken the lead, or the leader's key was deleted"
	errResigned over = "it has given up the lead"
)

func (e over) Error() string        { return store.ErrNotLeader.Error() + ": " + string(e) }
func (e over) Is(target error) bool { return target == store.ErrNotLeader }

// Holds implements [store.Lead]. Once Holds has failed, the lead is over for good.
func (l *lead) Holds() error {
	if l.ended.Err() != nil {
		return context.Cause(l.ended)
	}
	if l.remaining() <= 0 {
		l.end(errLapsed)
		return context.Cause(l.ended)
	}
	return nil
}

// Over implements [store.Lead].
func (l *lead) Over() <-chan struct{} { return l.ended.Done() }

// keep rewrites the leader's key every quarter of the TTL until the lead is over, and returns
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
	ticker := time.NewTicker(l.client.ttl / 4)
	defer ticker.Stop()
	for {
		lapse := time.NewTimer(l.remaining())
		select {
		case <-l.ended.Done():
		case <-lapse.C:
		case <-ticker.C:
			underWay++
			go func() { attempts <- within(ctx, l.client.ttl, l.rewrite) }()
		case err := <-attempts:
			underWay--
			if errors.Is(err, store.ErrNotLeader) {
				return err
			}
			if err != nil {
				l.client.noteTrouble(ctx, err)
			}
		}
		lapse.Stop()
		if err := l.Holds(); err != nil {
			return err
		}
	}
}

// rewrite writes the leader's key again, which extends the lead.
func (l *lead) rewrite(ctx context.Context) error {
	key := l.client.leaderKey()
	txn := txnRequest{Compare: []compare{l.leaderKept()}, Success: []operation{put(key, l.value)}}
	began := suspend.SinceBoot()
	var reply txnResponse
	if err := l.client.call(ctx, "/v3/kv/txn", txn, &reply); err != nil {
		return err
	}
	if !reply.Succeeded {
		return errDeposed
	}
	if err := l.Holds(); err != nil { // the lead has lapsed meanwhile, for good
		return err
	}
	l.extend(began)
	return nil
}

// ID implements [store.Store].
func (l *lead) ID() string { return l.client.ID() }

// Check implements [store.Store].
func (l *lead) Check() error { return l.Holds() }

// Close implements [store.Store]. It gives the lead up, so that the next server need not wait
// for its end. If etcd does not answer, Close blocks for about a quarter of the TTL.
func (l *lead) Close() error {
	if l.closed {
		return nil
	}
	l.closed = true
	held := l.Holds() == nil
	l.end(errResigned)
	l.running.Wait()
	if !held {
		return nil
	}
	if err := l.client.resign(l.value); err != nil {
		return fmt.Errorf("give up the lead: %w", err)
	}
	return nil
}
