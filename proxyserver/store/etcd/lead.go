package etcd

import (
	"bytes"
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"strconv"
	"sync"
	"sync/atomic"
	"time"

	"github.com/leasectl/leasectl/leaseapi/suspend"
	"github.com/leasectl/leasectl/pool"
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

// lead is the store of the server that leads. [Elector.keep] extends it.
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

// pageSize is how many keys Load asks for at a time.
const pageSize = 1000

// Load implements [store.Store]. No other server writes records while this server leads, so
// the pages fit together. If they do not, that is damage only if etcd confirms that this
// server still leads: otherwise the next leader may have written meanwhile.
func (l *lead) Load() (pool.Snapshot, error) {
	snap, err := l.load()
	if errors.Is(err, store.ErrDamaged) {
		err = cmp.Or(l.client.retry(l.ended, l.rewrite), err)
	}
	return snap, err
}

func (l *lead) load() (pool.Snapshot, error) {
	var snap pool.Snapshot
	if l.metaRevision == 0 {
		l.meta = metaRecord{Format: format, ID: newNonce()}
	}
	l.table = newTable(l.client.prefix + "/records/")
	snap.Clock, snap.Generation = l.meta.Clock, l.meta.Generation
	from, end := l.table.prefix, rangeEnd(l.table.prefix)
	for {
		var page rangeResponse
		err := l.client.retry(l.ended, func(ctx context.Context) error {
			page = rangeResponse{}
			return l.client.call(ctx, "/v3/kv/range", rangeRequest{Key: from, RangeEnd: end, Limit: pageSize}, &page)
		})
		if err != nil {
			return snap, fmt.Errorf("load the store %s: %w", l.client.prefix, err)
		}
		for _, kv := range page.KVs {
			if err := l.table.load(kv, &snap); err != nil {
				return snap, l.damaged(err)
			}
			from = append(bytes.Clone(kv.Key), 0)
		}
		if !page.More {
			break
		}
	}
	l.table.dropOlder(&snap)
	if l.table.keys != l.meta.Keys {
		return snap, l.damaged(fmt.Errorf("it has %d keys, and should have %d", l.table.keys, l.meta.Keys))
	}
	if l.metaRevision == 0 { // only now: a store that lost its meta stays as it is
		if err := l.write(nil); err != nil {
			return snap, fmt.Errorf("begin the store %s: %w", l.client.prefix, err)
		}
	}
	l.client.noteID(l.meta.ID)
	return snap, l.Holds()
}

func (l *lead) damaged(err error) error {
	return fmt.Errorf("store %s: %w: %w: restore etcd from a backup, or delete all keys under the prefix to start without leases", l.client.prefix, store.ErrDamaged, err)
}

// Commit implements [store.Store]. A batch that does not fit into one transaction becomes
// several, divided between its steps. A step that is too large itself is divided between its
// changes.
//
// Commit retries for as long as the lead holds. After an error the lead is over.
func (l *lead) Commit(b store.Batch) error {
	err := l.commit(b)
	if err != nil && !errors.Is(err, store.ErrNotLeader) {
		err = fmt.Errorf("%w: %w", store.ErrNotLeader, err)
	}
	if err != nil {
		l.end(err)
	}
	return err
}

func (l *lead) commit(b store.Batch) error {
	l.meta.Clock, l.meta.Generation = b.Clock, b.Generation
	from := 0
	for _, to := range append(slices.Clone(b.Steps), len(b.Changes)) {
		if err := l.collect(b.Changes[from:to]); err != nil {
			return err
		}
		from = to
	}
	return l.flush()
}

// collect adds a step to the table. If the step does not fit beside the changes that the table
// has, collect first writes those.
func (l *lead) collect(step []pool.Change) error {
	if !l.table.fits(len(step)) && !l.table.empty() {
		if err := l.flush(); err != nil {
			return err
		}
	}
	whole := l.table.fits(len(step))
	for i := range step {
		if !whole && !l.table.fits(1) {
			if err := l.flush(); err != nil {
				return err
			}
		}
		if err := l.table.add(&step[i]); err != nil {
			return err
		}
	}
	return nil
}

// flush writes the changes that the table has collected: in one transaction, unless the
// changes of a single step are too many for one.
func (l *lead) flush() error {
	writes := l.table.flush()
	for {
		var ops []operation
		size, keys := 0, 0
		for _, w := range writes {
			if size += w.bytes; len(ops) == maxChanges || len(ops) > 0 && size > maxBytes+maxBundle/2 {
				break
			}
			keys += w.keys
			ops = append(ops, w.operation)
		}
		writes = writes[len(ops):]
		l.meta.Keys += keys
		l.table.keys = l.meta.Keys
		if err := l.write(ops); err != nil || len(writes) == 0 {
			return err
		}
	}
}

// write does ops and writes meta in one transaction. The transaction is fenced: it does nothing
// unless this lead is the one in etcd, and meta is as the last commit left it. Without the
// condition on meta, a delayed copy of an earlier transaction would do its operations again.
//
// A transaction whose answer was lost is sent again. If the second copy does nothing, meta
// tells whether the first was applied.
func (l *lead) write(ops []operation) error {
	l.commits++
	l.meta.Commit = l.nonce + "." + strconv.Itoa(l.commits)
	meta, err := json.Marshal(l.meta)
	if err != nil {
		return err
	}
	key := l.client.metaKey()
	body, err := json.Marshal(txnRequest{
		Compare: []compare{l.leaderKept(), {Key: key, Target: compareMod, ModRevision: l.metaRevision}},
		Success: append(ops, put(key, meta)),
		Failure: []operation{get(l.client.leaderKey()), get(key)},
	})
	if err != nil {
		return err
	}
	var reply txnResponse
	err = l.client.retry(l.ended, func(ctx context.Context) error {
		if err := l.Holds(); err != nil {
			return err
		}
		reply = txnResponse{}
		return l.client.send(ctx, "/v3/kv/txn", body, &reply)
	})
	switch {
	case err != nil:
		return fmt.Errorf("commit to %s: %w", l.client.prefix, err)
	case reply.Succeeded:
		l.metaRevision = reply.Header.Revision
		return nil
	}
	leader, there := reply.read(0), reply.read(1)
	switch {
	case !bytes.Equal(leader.Value, l.value):
		return errDeposed
	case bytes.Equal(there.Value, meta):
		l.metaRevision = there.ModRevision
		return nil
	}
	return l.damaged(errors.New("its meta was changed by another than the leader"))
}

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
