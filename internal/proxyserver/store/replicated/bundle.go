package replicated

import (
	"encoding/binary"
	"errors"
)

// entry is a record of package record.
type entry struct{ key, payload string }

// bundle is the content of a [Record]: the records of package record of one request, however
// many names it has, or the ids that one commit ended.
type bundle struct {
	number  uint64 // of the [Record]
	entries []entry
	dead    int  // entries without a key: they were deleted
	size    int  // encoded, in bytes; an estimate while the bundle is changed
	stored  bool // it is in the database
	changed bool // it differs from the one in the database
}

// add appends an entry, and returns its index.
func (b *bundle) add(e entry) int {
	var before entry
	if n := len(b.entries); n > 0 {
		before = b.entries[n-1]
	}
	b.entries = append(b.entries, e)
	b.size += len(appendEntry(nil, before, e))
	return len(b.entries) - 1
}

// live returns how many entries were not deleted.
func (b *bundle) live() int { return len(b.entries) - b.dead }

// first returns the key of the first entry that was not deleted; "" if there is none.
func (b *bundle) first() string {
	for _, e := range b.entries {
		if e.key != "" {
			return e.key
		}
	}
	return ""
}

// shared returns the length of the common prefix of a and b.
func shared(a, b string) int {
	n := 0
	for n < len(a) && n < len(b) && a[n] == b[n] {
		n++
	}
	return n
}

// sharedEnd returns the length of the common suffix of a and b.
func sharedEnd(a, b string) int {
	n := 0
	for n < len(a) && n < len(b) && a[len(a)-1-n] == b[len(b)-1-n] {
		n++
	}
	return n
}

// encode returns the value of the [Record].
func (b *bundle) encode() []byte {
	value := make([]byte, 0, b.size)
	var before entry
	for _, e := range b.entries {
		if e.key != "" {
			value, before = appendEntry(value, before, e), e
		}
	}
	return value
}

// appendEntry encodes e, which follows the entry before. Entries of one request hardly
// differ, so only the differences are written: five lengths as uvarints, then two texts. The
// lengths are those of the common prefix of the keys, of the rest of e's key, of the common
// prefix and the common suffix of the payloads, and of the middle of e's payload. The texts
// are the rest of the key and the middle of the payload.
func appendEntry(value []byte, before, e entry) []byte {
	key := shared(before.key, e.key)
	head := shared(before.payload, e.payload)
	end := sharedEnd(before.payload[head:], e.payload[head:])
	middle := e.payload[head : len(e.payload)-end]
	for _, n := range []int{key, len(e.key) - key, head, end, len(middle)} {
		value = binary.AppendUvarint(value, uint64(n))
	}
	value = append(value, e.key[key:]...)
	return append(value, middle...)
}

var errBundle = errors.New("its value breaks off, or is no bundle of records")

// eachEntry calls f with each entry of a value that encode made. f must not retain key or
// payload.
func eachEntry(value []byte, f func(key, payload []byte) error) error {
	var key, payload, before []byte
	for len(value) > 0 {
		var lengths [5]int
		for i := range lengths {
			n, size := binary.Uvarint(value)
			if size <= 0 || n > 1<<30 {
				return errBundle
			}
			lengths[i], value = int(n), value[size:]
		}
		same, rest, head, end, middle := lengths[0], lengths[1], lengths[2], lengths[3], lengths[4]
		if same > len(key) || head+end > len(payload) || rest+middle > len(value) || same+rest == 0 {
			return errBundle
		}
		before, payload = payload, append(before[:0], payload[:head]...)
		key = append(key[:same], value[:rest]...)
		payload = append(payload, value[rest:rest+middle]...)
		payload = append(payload, before[len(before)-end:]...)
		value = value[rest+middle:]
		if err := f(key, payload); err != nil {
			return err
		}
	}
	return nil
}
