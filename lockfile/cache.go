package lockfile

import (
	"bytes"
	"slices"
	"sync/atomic"
	"time"
)

// recordCache remembers the record that this process last wrote into a handle. The process reads
// this record again when it gives the lease back, and then need not decode it.
type recordCache struct{ last atomic.Pointer[encodedRecord] }

type encodedRecord struct {
	data []byte
	r    Record
}

// note remembers r, which is encoded as data.
func (c *recordCache) note(r Record, data []byte) {
	if c == nil {
		return
	}
	for _, at := range []*time.Time{&r.AcquiredAt, &r.ReleaseAt} {
		*at = at.UTC().Round(0)
	}
	c.last.Store(&encodedRecord{data, r})
}

// find returns the remembered record, if data is its encoding.
func (c *recordCache) find(data []byte) (r Record, found bool) {
	if c == nil {
		return Record{}, false
	}
	last := c.last.Load()
	if last == nil || len(data) == 0 || !bytes.Equal(data, last.data) {
		return Record{}, false
	}
	r = last.r
	r.Leases, r.Replaces = slices.Clone(r.Leases), slices.Clone(r.Replaces)
	return r, true
}

// decode is [decode], but need not decode the data of the remembered record.
func (c *recordCache) decode(data []byte) (Record, error) {
	if r, found := c.find(data); found {
		return r, nil
	}
	return decode(data)
}
