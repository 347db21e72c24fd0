package bolt

import (
	"fmt"
	"slices"
	"strings"

	bolt "go.etcd.io/bbolt"

	"github.com/leasectl/leasectl/pool"
	"github.com/leasectl/leasectl/proxyserver/store"
	"github.com/leasectl/leasectl/proxyserver/store/record"
)

// write applies batch to the records. meta is the meta record of the previous commit; write
// returns the new one.
func write(tx *bolt.Tx, meta metaRecord, batch store.Batch) (metaRecord, error) {
	t := &table{bucket: tx.Bucket(bucket), meta: meta}
	for i := range batch.Changes {
		c := &batch.Changes[i]
		if !slices.IsSortedFunc(c.Leases, byName) {
			sorted := *c
			sorted.Leases = slices.SortedFunc(slices.Values(c.Leases), byName)
			c = &sorted
		}
		if err := record.Write(t, c); err != nil {
			return meta, err
		}
	}
	t.meta.Clock, t.meta.Generation = batch.Clock, batch.Generation
	err := t.finish(tx)
	return t.meta, err
}

// byName orders leases by their keys. bbolt splits pages only at the end of a transaction;
// until then each added key moves all keys after it. In another order 80,000 leases took
// half a minute.
func byName(a, b pool.Lease) int { return strings.Compare(a.Name, b.Name) }

// reader adds records to a snapshot, one after the other, and counts them.
type reader struct {
	meta     metaRecord // of the file
	snapshot pool.Snapshot
	records  int
	sum      uint64
}

// record adds one record.
func (r *reader) record(key, value []byte) error {
	if string(key) == string(metaKey) {
		r.snapshot.Clock, r.snapshot.Generation = r.meta.Clock, r.meta.Generation
		return nil
	}
	payload := value
	if r.meta.Format > 1 {
		var sum uint32
		var err error
		if payload, sum, err = unseal(key, value); err != nil {
			return fmt.Errorf("%s: %w", describe(key), err)
		}
		r.records++
		r.sum += uint64(sum)
	}
	if err := record.Add(&r.snapshot, key, payload); err != nil {
		return fmt.Errorf("%s: %w", describe(key), err)
	}
	return nil
}

// check returns an error if records were lost, or replaced by older versions.
func (r *reader) check() error {
	switch {
	case r.meta.Format == 1: // has no counts
	case r.records != r.meta.Records:
		return fmt.Errorf("%w: bucket %q: it has %d records, and should have %d", store.ErrDamaged, bucket, r.records, r.meta.Records)
	case r.sum != r.meta.Sum:
		return fmt.Errorf("%w: bucket %q: some of its %d records are older ones", store.ErrDamaged, bucket, r.records)
	}
	return nil
}
