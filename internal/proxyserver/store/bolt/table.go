package bolt

import (
	"bytes"
	"encoding/binary"
	"encoding/json"
	"fmt"
	"hash/crc32"
	"slices"
	"strings"
	"time"

	bolt "go.etcd.io/bbolt"

	"github.com/leasectl/leasectl/internal/pool"
	"github.com/leasectl/leasectl/internal/proxyserver/store"
	"github.com/leasectl/leasectl/internal/proxyserver/store/record"
)

// All records are in one bucket, so that a commit writes few pages.
var bucket = []byte("leasectl")

// The value of a record is a checksum of 4 bytes, then its payload. The checksum is CRC-32C
// over the bucket, the key and the payload. So a payload under the key of another record is
// noticed, too.
const sumSize = 4

func checksum(key, payload []byte) uint32 {
	table := crc32.MakeTable(crc32.Castagnoli) // returns the same table each time
	sum := crc32.Update(0, table, bucket)
	sum = crc32.Update(sum, table, binary.BigEndian.AppendUint32(nil, uint32(len(key))))
	sum = crc32.Update(sum, table, key)
	return crc32.Update(sum, table, payload)
}

func seal(key, payload []byte) []byte {
	value := binary.BigEndian.AppendUint32(make([]byte, 0, sumSize+len(payload)), checksum(key, payload))
	return append(value, payload...)
}

// unseal returns the payload of a value, and its checksum.
func unseal(key, value []byte) (payload []byte, sum uint32, err error) {
	if len(value) < sumSize {
		return nil, 0, fmt.Errorf("%d bytes, which is less than a checksum", len(value))
	}
	sum, payload = binary.BigEndian.Uint32(value), value[sumSize:]
	if want := checksum(key, payload); sum != want {
		return nil, 0, fmt.Errorf("its checksum is %08x, and should be %08x", want, sum)
	}
	return payload, sum, nil
}

// format is the number of this layout. A server refuses a file of another one, since it would
// lose records that it cannot read.
const format = 1

// metaKey is the key of the metaRecord.
var metaKey = []byte{'m'}

// metaRecord describes the file, and all other records. Each transaction writes it.
type metaRecord struct {
	Format     int           `json:"format"`
	ID         string        `json:"id"` // of the store, for its life
	Clock      time.Duration `json:"clock"`
	Generation uint64        `json:"generation"`

	Transaction int    `json:"transaction"` // bbolt's number of the transaction that wrote this record
	Records     int    `json:"records"`     // the number of other records
	Sum         uint64 `json:"sum"`         // the sum of their checksums, modulo 2^64
}

// decodeMeta decodes the value of the metaRecord. Another format may have no checksum.
func decodeMeta(value []byte) (meta metaRecord, err error) {
	payload, _, sealed := unseal(metaKey, value)
	if sealed != nil {
		payload = value
	}
	if json.Unmarshal(payload, &meta) != nil {
		return meta, fmt.Errorf("%w: bucket %q: %s is not there, or is changed", store.ErrDamaged, bucket, describe(metaKey))
	}
	switch {
	case meta.Format != format:
		return meta, fmt.Errorf("it has format %d, and this program knows format %d: use the program that made it", meta.Format, format)
	case sealed != nil:
		return meta, fmt.Errorf("%w: bucket %q: %s: %w", store.ErrDamaged, bucket, describe(metaKey), sealed)
	}
	return meta, nil
}

// table has the records while one transaction changes them. The caller ends with finish.
type table struct {
	bucket *bolt.Bucket
	meta   metaRecord
}

// Put implements [record.Table].
func (t *table) Put(key, payload []byte) error {
	if old := t.bucket.Get(key); old != nil {
		if err := t.uncount(key, old); err != nil {
			return err
		}
	}
	value := seal(key, payload)
	t.meta.Records++
	t.meta.Sum += uint64(binary.BigEndian.Uint32(value))
	return t.bucket.Put(key, value)
}

// Delete implements [record.Table].
func (t *table) Delete(key []byte) error {
	c := t.bucket.Cursor() // so that bbolt searches once
	found, old := c.Seek(key)
	if !bytes.Equal(found, key) {
		return nil
	}
	if err := t.uncount(key, old); err != nil {
		return err
	}
	return c.Delete()
}

// uncount takes the record with the key and the value old out of the counts.
func (t *table) uncount(key, old []byte) error {
	_, sum, err := unseal(key, old)
	if err != nil {
		return fmt.Errorf("%w: bucket %q: %s: %w", store.ErrDamaged, bucket, describe(key), err)
	}
	t.meta.Records--
	t.meta.Sum -= uint64(sum)
	return nil
}

// finish writes the meta record.
func (t *table) finish(tx *bolt.Tx) error {
	t.meta.Transaction = tx.ID()
	payload, err := json.Marshal(t.meta)
	if err != nil {
		return err
	}
	return t.bucket.Put(metaKey, seal(metaKey, payload))
}

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

// describe names a record for people.
func describe(key []byte) string {
	if len(key) == 0 {
		return "an empty key"
	}
	return fmt.Sprintf("key %q", key)
}
