package replicated

import (
	"maps"
	"slices"
	"sort"
)

// endedIDs are the ended request ids in the database. They stay in encoded bundles, because there
// may be a million ids, and few records change before their id is forgotten.
type endedIDs struct {
	bundles []endedBundle      // mostly in the order in which the ids ended, and will be forgotten
	changes map[string]*string // payloads by key, for the next transaction; nil: the id is forgotten
	looked  int                // how many bundles flush has looked at, ever; tests bound it
}

// endedBundle is a bundle as the database has it.
type endedBundle struct {
	number      uint64
	value       []byte // empty: all its ids are forgotten
	first, last string // the least and the greatest key that it has, or once had
	reach       string // the greatest key of this bundle and those before it
}

// cover notes that b has a record with this key.
func (b *endedBundle) cover(key string) {
	if b.last == "" || key < b.first {
		b.first = key
	}
	b.last = max(b.last, key)
}

func (e *endedIDs) add(b endedBundle) {
	b.reach = b.last
	if n := len(e.bundles); n > 0 {
		b.reach = max(b.reach, e.bundles[n-1].reach)
	}
	e.bundles = append(e.bundles, b)
}

// change gives the record with this key another payload, or deletes it if payload is nil.
func (e *endedIDs) change(key []byte, payload *string) {
	if e.changes == nil {
		e.changes = make(map[string]*string)
	}
	e.changes[string(key)] = payload
}

// flush makes the changes, and returns the bundles that they changed. A bundle that is now empty has
// no value. The cost does not depend on the number of bundles: keys grow with the time of the end, so
// the bundle of a key is found by its reach.
func (e *endedIDs) flush() (changed []endedBundle) {
	if len(e.changes) == 0 {
		return nil
	}
	for _, key := range slices.Sorted(maps.Keys(e.changes)) {
		i := sort.Search(len(e.bundles), func(i int) bool { return e.bundles[i].reach >= key })
		for ; i < len(e.bundles) && e.pending(key); i++ {
			e.looked++
			if b := &e.bundles[i]; e.concern(b) && e.apply(b) {
				changed = append(changed, *b)
			}
		}
	}
	clear(e.changes) // those left are of ids in no bundle
	e.dropEmpty()
	return changed
}

// pending reports whether the change of key is still to be made.
func (e *endedIDs) pending(key string) bool {
	_, ok := e.changes[key]
	return ok
}

// concern reports whether b may have a record with the key of a change.
func (e *endedIDs) concern(b *endedBundle) bool {
	for key := range e.changes {
		if b.first <= key && key <= b.last {
			return true
		}
	}
	return false
}

// apply makes those changes whose records b has, and reports whether there were any.
func (e *endedIDs) apply(b *endedBundle) bool {
	left, before := &bundle{}, len(e.changes)
	// An error is impossible: the value was encoded here, or read when it was loaded.
	_ = eachEntry(b.value, func(key, payload []byte) error {
		to, ok := e.changes[string(key)]
		switch {
		case !ok:
			left.add(entry{string(key), string(payload)})
		case to != nil:
			left.add(entry{string(key), *to})
		}
		if ok {
			delete(e.changes, string(key))
		}
		return nil
	})
	if len(e.changes) == before {
		return false
	}
	b.value = left.encode()
	return true
}

// dropEmpty cuts off the empty bundles at the front: the first ids are forgotten first. One in the
// middle goes when those before it are gone.
func (e *endedIDs) dropEmpty() {
	n := 0
	for n < len(e.bundles) && len(e.bundles[n].value) == 0 {
		e.bundles[n] = endedBundle{} // let go of its keys
		n++
	}
	e.bundles = e.bundles[n:]
}
