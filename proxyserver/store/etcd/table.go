package etcd

import (
	"fmt"
	"slices"

	"github.com/leasectl/leasectl/pool"
	"github.com/leasectl/leasectl/proxyserver/store/record"
)

// Bounds of one transaction, sizes in bytes. etcd takes 128 operations and 1.5 MiB, unless
// its operator set other bounds.
const (
	maxOperations = 128
	maxChanges    = maxOperations - 1 // beside the one that writes meta
	maxBundle     = 512 << 10
	maxBytes      = 1 << 20
)

// table has the records as the leader knows them, and the key of etcd that each is under. It
// collects the changes for the next transaction.
type table struct {
	prefix []byte // of the keys
	places map[string]place
	keys   int    // the number of bundles in etcd; [lead.flush] keeps it up to date
	next   uint64 // number of the next bundle

	ended endedIDs

	// Used while the table is loaded. lastEnded is the greatest key of an ended id in the
	// bundles so far. again has the ids that may have an older record, each with the index
	// of its last record in the snapshot.
	lastEnded string
	again     map[string]int

	reported bool // the change is a report, so a record of an ended id replaces an earlier one
	changed  []*bundle
	bytes    int     // about the size of changed, encoded
	request  *bundle // collects the records of one change; nil: none yet
	ending   *bundle // collects the ids that one transaction ends; nil: none yet
}

// place is where a record is.
type place struct {
	bundle *bundle
	index  int
}

func newTable(prefix string) *table {
	return &table{prefix: []byte(prefix), places: make(map[string]place), again: make(map[string]int)}
}

// add applies one change to the records.
func (t *table) add(c *pool.Change) error {
	t.request, t.reported = nil, c.Kind == pool.ReportCounted
	return record.Write(t, c)
}

// Put implements [record.Table].
func (t *table) Put(key, payload []byte) error {
	if p, ok := t.places[string(key)]; ok {
		p.bundle.entries[p.index].payload = string(payload)
		p.bundle.size += len(payload)
		t.mark(p.bundle, len(payload))
		return nil
	}
	open := &t.request
	if record.IsEnded(key) {
		open = &t.ending
		if t.reported {
			t.ended.forget(key)
		}
	}
	if *open == nil || (*open).size > maxBundle {
		*open = &bundle{number: t.next}
		t.next++
	}
	b := *open
	before := b.size
	index := b.add(entry{string(key), string(payload)})
	t.places[string(key)] = place{b, index}
	t.mark(b, b.size-before)
	return nil
}

// Delete implements [record.Table].
func (t *table) Delete(key []byte) error {
	p, ok := t.places[string(key)]
	if !ok && record.IsEnded(key) {
		t.ended.forget(key)
	}
	if !ok {
		return nil
	}
	delete(t.places, string(key))
	b := p.bundle
	b.entries[p.index] = entry{}
	b.dead++
	t.mark(b, 0)
	return nil
}

// mark notes that b has changed, and has grown by more bytes.
func (t *table) mark(b *bundle, more int) {
	if !b.changed {
		b.changed = true
		t.changed = append(t.changed, b)
		more = b.size
	}
	t.bytes += more
}

// fits reports whether n more changes of the usual size fit into the transaction. Each change
// writes at most a bundle of its own, and that of one waiter that it removes; one more bundle
// is for the ended ids.
func (t *table) fits(n int) bool {
	return len(t.changed)+len(t.ended.forgotten)+2*n+1 <= maxChanges && t.bytes < maxBytes
}

// empty reports whether no change is collected.
func (t *table) empty() bool { return len(t.changed)+len(t.ended.forgotten) == 0 }

// write is one operation of a transaction.
type write struct {
	operation
	bytes int // size of the value
	keys  int // change of the number of keys
}

// flush returns the writes that make the collected changes durable, and collects anew.
func (t *table) flush() []write {
	var writes []write
	for _, b := range t.ended.flush() {
		key := t.keyOf(b.number)
		if len(b.value) == 0 {
			writes = append(writes, write{operation: remove(key), keys: -1})
		} else {
			writes = append(writes, write{operation: put(key, b.value), bytes: len(b.value)})
		}
	}
	for _, b := range t.changed {
		b.changed = false
		key := t.keyOf(b.number)
		switch {
		case b.live() > 0:
			w := write{operation: put(key, b.encode())}
			if b.size = len(w.Put.Value); !b.stored {
				w.keys = 1
			}
			w.bytes, b.stored = b.size, true
			writes = append(writes, w)
			if record.IsEnded([]byte(b.first())) {
				t.seal(b, w.Put.Value)
			} else {
				t.shrink(b)
			}
		case b.stored:
			b.stored = false
			writes = append(writes, write{operation: remove(key), keys: -1})
		}
	}
	t.changed, t.bytes, t.request, t.ending = t.changed[:0], 0, nil, nil
	return writes
}

// seal moves a bundle of ended ids to t.ended, whose bundles get no more records.
func (t *table) seal(b *bundle, value []byte) {
	sealed := endedBundle{number: b.number, value: value}
	for _, e := range b.entries {
		if e.key != "" {
			delete(t.places, e.key)
			sealed.cover(e.key)
		}
	}
	t.ended.add(sealed)
}

// shrink drops the deleted entries of b, if they are more than half of all.
func (t *table) shrink(b *bundle) {
	if 2*b.dead <= len(b.entries) {
		return
	}
	b.entries = slices.DeleteFunc(b.entries, func(e entry) bool { return e.key == "" })
	b.dead = 0
	for i, e := range b.entries {
		t.places[e.key] = place{b, i}
	}
}

// keyOf returns the key of the bundle with that number. Keys sort in the order of their
// numbers.
func (t *table) keyOf(number uint64) []byte {
	return fmt.Appendf(slices.Clip(t.prefix), "%016x", number)
}

// load adds the records of a key in etcd to t and to snap. After the last key the caller must
// call dropOlder.
func (t *table) load(kv keyValue, snap *pool.Snapshot) error {
	var number uint64
	if _, err := fmt.Sscanf(string(kv.Key[len(t.prefix):]), "%016x", &number); err != nil {
		return fmt.Errorf("key %q: %w", kv.Key, err)
	}
	t.keys++
	t.next = max(t.next, number+1)
	b := &bundle{number: number, stored: true}
	ended := endedBundle{number: number, value: kv.Value}
	err := eachEntry(kv.Value, func(key, payload []byte) error {
		if _, twice := t.places[string(key)]; twice {
			return fmt.Errorf("record %q is there twice", key)
		}
		if err := record.Add(snap, key, payload); err != nil {
			return fmt.Errorf("record %q: %w", key, err)
		}
		if !record.IsEnded(key) {
			t.places[string(key)] = place{b, b.add(entry{string(key), string(payload)})}
			return nil
		}
		// A key begins with the time until which its id is remembered, so nearly every key
		// is greater than all keys before it. If an outcome was reported late, the key of
		// that id is not, and an older record of the id may have come before.
		if string(key) <= t.lastEnded {
			i := len(snap.Ended) - 1
			t.again[snap.Ended[i].ID] = i
		}
		ended.cover(string(key))
		return nil
	})
	if err != nil {
		return fmt.Errorf("key %q: %w", kv.Key, err)
	}
	if ended.last != "" {
		t.ended.add(ended)
		t.lastEnded = max(t.lastEnded, ended.last)
	}
	return nil
}

// dropOlder drops all but the last record of each ended request from snap. Earlier
// programs left older ones in etcd when a report came after the lease had ended.
func (t *table) dropOlder(snap *pool.Snapshot) {
	if len(t.again) == 0 {
		return
	}
	at := -1
	snap.Ended = slices.DeleteFunc(snap.Ended, func(e pool.Ended) bool {
		at++
		last, again := t.again[e.ID]
		older := again && at < last
		if older {
			t.ended.forget(record.EndedKey(e))
		}
		return older
	})
	t.again = nil
}
