package bolt

import (
	"crypto/rand"
	"slices"

	bolt "go.etcd.io/bbolt"
)

// migrate converts a file of an earlier format to the current one, in one transaction.
//
// Format 1 had no checksums, no counts and no id. Format 2 had no units and no keys: its
// records stay as they are, and a lease without units is read as a lease of one unit.
func migrate(tx *bolt.Tx) error {
	b := tx.Bucket(bucket)
	meta, err := decodeMeta(b.Get(metaKey))
	if err != nil || meta.Format == format {
		return err
	}
	if meta.Format > 1 {
		t := table{bucket: b, meta: meta}
		t.meta.Format = format
		return t.finish(tx)
	}
	var keys, payloads [][]byte
	err = b.ForEach(func(k, v []byte) error {
		if k[0] != keyMeta {
			keys, payloads = append(keys, slices.Clone(k)), append(payloads, slices.Clone(v))
		}
		return nil
	})
	if err != nil {
		return err
	}
	t := table{bucket: b, meta: metaRecord{Format: format, ID: rand.Text(), Clock: meta.Clock, Generation: meta.Generation}}
	for i, key := range keys {
		if err := b.Delete(key); err != nil { // not through t, which has not counted this record
			return err
		}
		if err := t.Put(key, payloads[i]); err != nil {
			return err
		}
	}
	return t.finish(tx)
}
