package lockfile

import (
	"bytes"
	"slices"
	"sync"
	"time"
)

// wrote is the record that this process wrote last into a handle. A process reads
// its own record again when it gives the lease back: then it need not decode it.
type wrote struct {
	mu   sync.Mutex
	data []byte
	r    Record
}

// note remembers r, which is encoded as data. One that owes something is not
// remembered: what it owes changes in place.
func (w *wrote) note(r Record, data []byte) {
	if w == nil || len(r.Owed) > 0 {
		return
	}
	w.mu.Lock()
	defer w.mu.Unlock()
	for _, at := range []*time.Time{&r.AcquiredAt, &r.ReleaseAt} {
		*at = at.UTC().Round(0)
	}
	w.r, w.data = r, data
}

// decode is [decode] of data, which may be what was noted.
func (w *wrote) decode(data []byte) (Record, error) {
	if w != nil {
		w.mu.Lock()
		defer w.mu.Unlock()
		if len(data) > 0 && bytes.Equal(data, w.data) {
			r := w.r
			r.Leases = slices.Clone(r.Leases)
			return r, nil
		}
	}
	return decode(data)
}
