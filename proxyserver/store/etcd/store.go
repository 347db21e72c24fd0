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

	"github.com/leasectl/leasectl/pool"
	"github.com/leasectl/leasectl/proxyserver/store"
)

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
