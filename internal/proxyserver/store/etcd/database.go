package etcd

import (
	"context"
	"fmt"
	"time"

	"github.com/leasectl/leasectl/internal/proxyserver/store/replicated"
)

// database is a [replicated.Database] in etcd. The version of an entry is the revision of etcd in
// which its key was written last.
type database struct {
	*gateway
	prefix string
	upkeep *upkeep
}

var _ replicated.Database = (*database)(nil)

func (d *database) leaderKey() []byte { return []byte(d.prefix + "/leader") }
func (d *database) metaKey() []byte   { return []byte(d.prefix + "/meta") }

// recordKey returns the key of the record with that number. Keys sort in the order of their
// numbers.
func (d *database) recordKey(number uint64) []byte {
	return fmt.Appendf(nil, "%s/records/%016x", d.prefix, number)
}

func (d *database) standbyKey(name string) []byte {
	return fmt.Appendf(nil, "%s/standby/%s", d.prefix, name)
}

// txn carries out one transaction.
func (d *database) txn(ctx context.Context, t txnRequest) (reply txnResponse, err error) {
	err = d.call(ctx, "/v3/kv/txn", t, &reply)
	if refused(err) {
		err = fmt.Errorf("%w: %w", replicated.ErrRefused, err)
	}
	return reply, err
}

// kept is the condition that a key still has a value.
func kept(key, value []byte) compare { return compare{Key: key, Target: compareValue, Value: value} }

// unchanged is the condition that a key still has a revision; 0: that there is no such key.
func unchanged(key []byte, revision int64) compare {
	if revision == 0 {
		return compare{Key: key, Target: compareCreate}
	}
	return compare{Key: key, Target: compareMod, ModRevision: revision}
}

func entry(kv keyValue) replicated.Entry {
	return replicated.Entry{Value: kv.Value, Version: kv.ModRevision}
}

// Look implements [replicated.Database]. It reads both keys at once, as a majority of etcd's
// members has them.
func (d *database) Look(ctx context.Context) (replicated.State, error) {
	reply, err := d.txn(ctx, txnRequest{Success: []operation{get(d.leaderKey()), get(d.metaKey())}})
	return replicated.State{Leader: entry(reply.read(0)), Meta: entry(reply.read(1))}, err
}

// Take implements [replicated.Database].
func (d *database) Take(ctx context.Context, leader []byte, seen int64) (meta replicated.Entry, taken bool, err error) {
	key := d.leaderKey()
	reply, err := d.txn(ctx, txnRequest{Compare: []compare{unchanged(key, seen)}, Success: []operation{put(key, leader), get(d.metaKey())}})
	if err != nil || !reply.Succeeded {
		return meta, false, err
	}
	return entry(reply.read(1)), true, nil
}

// Keep implements [replicated.Database].
func (d *database) Keep(ctx context.Context, leader []byte) (meta int64, isKept bool, err error) {
	key := d.leaderKey()
	reply, err := d.txn(ctx, txnRequest{Compare: []compare{kept(key, leader)}, Success: []operation{put(key, leader), get(d.metaKey())}})
	return reply.read(1).ModRevision, reply.Succeeded, err
}

// Resign implements [replicated.Database].
func (d *database) Resign(ctx context.Context, leader []byte) error {
	key := d.leaderKey()
	_, err := d.txn(ctx, txnRequest{Compare: []compare{kept(key, leader)}, Success: []operation{remove(key)}})
	return err
}

// Commit implements [replicated.Database].
func (d *database) Commit(ctx context.Context, c *replicated.Commit) (version int64, done bool, err error) {
	ops := make([]operation, 0, len(c.Writes)+1)
	for _, w := range c.Writes {
		if key := d.recordKey(w.Number); w.Value == nil {
			ops = append(ops, remove(key))
		} else {
			ops = append(ops, put(key, w.Value))
		}
	}
	reply, err := d.txn(ctx, txnRequest{
		Compare: []compare{kept(d.leaderKey(), c.Leader), unchanged(d.metaKey(), c.Version)},
		Success: append(ops, put(d.metaKey(), c.Meta)),
	})
	return reply.Header.Revision, reply.Succeeded, err
}

// pageSize is how many keys Read asks for at a time.
const pageSize = 1000

// Read implements [replicated.Database].
func (d *database) Read(ctx context.Context, from uint64) (page []replicated.Record, more bool, err error) {
	var reply rangeResponse
	all := []byte(d.prefix + "/records/")
	err = d.call(ctx, "/v3/kv/range", rangeRequest{Key: d.recordKey(from), RangeEnd: rangeEnd(all), Limit: pageSize}, &reply)
	if err != nil {
		return nil, false, err
	}
	for _, kv := range reply.KVs {
		var number uint64
		if _, err := fmt.Sscanf(string(kv.Key[len(all):]), "%016x", &number); err != nil {
			return nil, false, fmt.Errorf("%w: key %q: %w", replicated.ErrRefused, kv.Key, err)
		}
		page = append(page, replicated.Record{Number: number, Value: kv.Value})
	}
	return page, reply.More, nil
}

// Standbys implements [replicated.Database].
func (d *database) Standbys(ctx context.Context, own *replicated.Standby) (all []replicated.Standby, err error) {
	if own != nil {
		err := d.call(ctx, "/v3/kv/put", putRequest{Key: d.standbyKey(own.Name), Value: own.Value}, &struct{}{})
		if err != nil {
			return nil, err
		}
	}
	prefix := d.standbyKey("")
	var reply rangeResponse
	err = d.call(ctx, "/v3/kv/range", rangeRequest{Key: prefix, RangeEnd: rangeEnd(prefix)}, &reply)
	for _, kv := range reply.KVs {
		all = append(all, replicated.Standby{Name: string(kv.Key[len(prefix):]), Value: kv.Value, Version: kv.ModRevision})
	}
	return all, err
}

// Leave implements [replicated.Database].
func (d *database) Leave(ctx context.Context, name string, version int64) error {
	key := d.standbyKey(name)
	t := txnRequest{Success: []operation{remove(key)}}
	if version != 0 {
		t.Compare = []compare{unchanged(key, version)}
	}
	_, err := d.txn(ctx, t)
	return err
}

// Wait implements [replicated.Database]. Servers that stand by look so often that none needs to
// be told of the end of a lead.
func (d *database) Wait(ctx context.Context, wait time.Duration) error {
	return replicated.Sleep(ctx, wait)
}

// Maintain implements [replicated.Database].
func (d *database) Maintain(ctx context.Context) { d.upkeep.run(ctx) }

// Advice implements [replicated.Database].
func (d *database) Advice(err error) string {
	switch {
	case noSpace(err):
		return "no space: etcd takes no writes, so that nothing is granted or released: compact and defragment it, raise --quota-backend-bytes of etcd, and disarm its alarm"
	case forbidden(err):
		return fmt.Sprintf("our user of etcd may not read and write below %[1]s/, so that nothing is granted or released: "+
			"grant that to a role of the user: etcdctl role grant-permission ROLE --prefix=true readwrite %[1]s/", d.prefix)
	}
	return ""
}

// rangeEnd returns the key after all keys that begin with prefix.
func rangeEnd(prefix []byte) []byte {
	end := append([]byte{}, prefix...)
	end[len(end)-1]++ // cannot overflow: it is a slash
	return end
}
