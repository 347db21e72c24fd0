package replicated

import "slices"

// endedIDs are the ended request ids in the database. They stay in encoded bundles, because there
// may be a million ids, and no record changes until its id is forgotten or gets a new record.
type endedIDs struct {
	bundles   []endedBundle   // mostly in the order in which the ids ended, and will be forgotten
	forgotten map[string]bool // keys of ids to delete with the next transaction
}

// endedBundle is a bundle as the database has it.
type endedBundle struct {
	number      uint64
	value       []byte
	first, last string // the least and the greatest key that it has, or once had
}

// cover notes that b has a record with this key.
func (b *endedBundle) cover(key string) {
	if b.last == "" || key < b.first {
		b.first = key
	}
	b.last = max(b.last, key)
}

// mayHave reports whether b may have a record with any of keys.
func (b *endedBundle) mayHave(keys map[string]bool) bool {
	for key := range keys {
		if b.first <= key && key <= b.last {
			return true
		}
	}
	return false
}

func (e *endedIDs) add(b endedBundle) { e.bundles = append(e.bundles, b) }

func (e *endedIDs) forget(key []byte) {
	if e.forgotten == nil {
		e.forgotten = make(map[string]bool)
	}
	e.forgotten[string(key)] = true
}

// flush removes the forgotten ids, and returns the bundles that this changed. A bundle that is
// now empty has no value. Few bundles are decoded: most forgotten ids are in the first bundles,
// and each bundle knows the range of its keys.
func (e *endedIDs) flush() (changed []endedBundle) {
	for i := 0; i < len(e.bundles) && len(e.forgotten) > 0; i++ {
		b := &e.bundles[i]
		if !b.mayHave(e.forgotten) {
			continue
		}
		left, before := &bundle{}, len(e.forgotten)
		// An error is impossible: the value was encoded here, or read when it was loaded.
		_ = eachEntry(b.value, func(key, payload []byte) error {
			if e.forgotten[string(key)] {
				delete(e.forgotten, string(key))
			} else {
				left.add(entry{string(key), string(payload)})
			}
			return nil
		})
		if len(e.forgotten) < before {
			b.value = left.encode()
			changed = append(changed, *b)
		}
	}
	e.bundles = slices.DeleteFunc(e.bundles, func(b endedBundle) bool { return len(b.value) == 0 })
	clear(e.forgotten) // the ids left are in no bundle
	return changed
}
