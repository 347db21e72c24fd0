package replicated

import (
	"fmt"
	"slices"

	"github.com/leasectl/leasectl/internal/pool"
	"github.com/leasectl/leasectl/internal/proxyserver/store/record"
)

// Bounds are those of one transaction. A single change may exceed Bytes and Record.
type Bounds struct {
	Writes int // beside that of meta
	Bytes  int // of all values together, about: they may exceed it by half of Record
	Record int // bytes of one value
}

// table has the records of package record as the leader knows them, and the bundle that each is
// in. It collects the changes for the next transaction.
type table struct {
	bounds Bounds
	places map[string]place
	keys   int    // bundles that were loaded
	next   uint64 // number of the next bundle

	ended endedIDs

	reported bool // the change is a report, so the record of an ended id is there already
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

func newTable(bounds Bounds) *table {
	return &table{bounds: bounds, places: make(map[string]place)}
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
		if t.reported { // on a lease that an earlier transaction ended
			text := string(payload)
			t.ended.change(key, &text)
			return nil
		}
		open = &t.ending
	}
	if *open == nil || (*open).size > t.bounds.Record {
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
		t.ended.change(key, nil)
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
	return len(t.changed)+len(t.ended.changes)+2*n+1 <= t.bounds.Writes && t.bytes < t.bounds.Bytes
}

// empty reports whether no change is collected.
func (t *table) empty() bool { return len(t.changed)+len(t.ended.changes) == 0 }

// write is one write of a transaction.
type write struct {
	Record
	keys int // change of the number of bundles in the database
}

// flush returns the writes that make the collected changes durable, and collects anew.
func (t *table) flush() []write {
	var writes []write
	for _, b := range t.ended.flush() {
		w := write{Record: Record{b.number, b.value}}
		if len(b.value) == 0 {
			w = write{Record: Record{Number: b.number}, keys: -1}
		}
		writes = append(writes, w)
	}
	for _, b := range t.changed {
		b.changed = false
		switch {
		case b.live() > 0:
			w := write{Record: Record{b.number, b.encode()}}
			if b.size = len(w.Value); !b.stored {
				w.keys = 1
			}
			b.stored = true
			writes = append(writes, w)
			if record.IsEnded([]byte(b.first())) {
				t.seal(b, w.Value)
			} else {
				t.shrink(b)
			}
		case b.stored:
			b.stored = false
			writes = append(writes, write{Record: Record{Number: b.number}, keys: -1})
		}
	}
	t.changed, t.bytes, t.request, t.ending = t.changed[:0], 0, nil, nil
	return writes
}

// seal moves a bundle of ended ids to t.ended, whose bundles get no further ids.
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

// load adds a bundle in the database to t, and its records to snap.
func (t *table) load(r Record, snap *pool.Snapshot) error {
	t.keys++
	t.next = max(t.next, r.Number+1)
	b := &bundle{number: r.Number, stored: true}
	ended := endedBundle{number: r.Number, value: r.Value}
	err := eachEntry(r.Value, func(key, payload []byte) error {
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
		ended.cover(string(key))
		return nil
	})
	if err != nil {
		return fmt.Errorf("number %d: %w", r.Number, err)
	}
	if ended.last != "" {
		t.ended.add(ended)
	}
	return nil
}
