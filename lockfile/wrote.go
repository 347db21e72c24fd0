package lockfile

import (
	"bytes"
	"slices"
	"sync/atomic"
	"time"
)

// wrote remembers the record that this process last wrote into a handle. The process reads this
// record again when it gives the lease back, and then need not decode it.
type wrote struct{ last atomic.Pointer[written] }

type written struct {
	data []byte
	r    Record
}

// note remembers r, which is encoded as data. A record with Owed is not remembered, since
// callers change Owed in place.
func (w *wrote) note(r Record, data []byte) {
	if w == nil || len(r.Owed) > 0 {
		return
	}
	for _, at := range []*time.Time{&r.AcquiredAt, &r.ReleaseAt} {
		*at = at.UTC().Round(0)
	}
	w.last.Store(&written{data, r})
}

// find returns the remembered record, if data is its encoding.
func (w *wrote) find(data []byte) (r Record, found bool) {
	if w == nil {
		return Record{}, false
	}
	last := w.last.Load()
	if last == nil || len(data) == 0 || !bytes.Equal(data, last.data) {
		return Record{}, false
	}
	r = last.r
	r.Leases = slices.Clone(r.Leases)
	return r, true
}

// decode is [decode], but need not decode the data of the remembered record.
func (w *wrote) decode(data []byte) (Record, error) {
	if r, found := w.find(data); found {
		return r, nil
	}
	return decode(data)
}
