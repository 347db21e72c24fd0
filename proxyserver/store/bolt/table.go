package bolt

import (
	"bytes"
	"crypto/rand"
	"encoding/binary"
	"encoding/json"
	"errors"
	"fmt"
	"hash/crc32"
	"io/fs"
	"os"
	"path/filepath"
	"time"

	bolt "go.etcd.io/bbolt"

	"github.com/leasectl/leasectl/proxyserver/store"
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

// format is the number of this layout. A server refuses a file of a later format, since it
// would lose records that it cannot read. For earlier formats see [migrate].
const format = 3

// metaKey is the key of the metaRecord.
var metaKey = []byte{keyMeta}

const keyMeta = 'm'

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

// decodeMeta decodes the value of the metaRecord, of any known format.
func decodeMeta(value []byte) (meta metaRecord, err error) {
	payload, _, sealed := unseal(metaKey, value)
	if sealed != nil {
		payload = value // format 1
	}
	if json.Unmarshal(payload, &meta) != nil {
		return meta, fmt.Errorf("%w: bucket %q: %s is not there, or is changed", store.ErrDamaged, bucket, describe(metaKey))
	}
	switch {
	case meta.Format > format || meta.Format < 1:
		return meta, fmt.Errorf("it has format %d, and this program knows formats 1 to %d: use the program that made it", meta.Format, format)
	case meta.Format > 1 && sealed != nil:
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

// describe names a record for people.
func describe(key []byte) string {
	if len(key) == 0 {
		return "an empty key"
	}
	return fmt.Sprintf("key %q", key)
}

// create makes the directory, and in it a file without leases, if there is no file yet.
// The file gets its name only when it is complete. So an empty file is one that lost its
// content, and is never taken for a new store.
func create(dir, path string) error {
	if err := makeDir(dir, syncDir); err != nil {
		return err
	}
	if _, err := os.Lstat(path); !errors.Is(err, fs.ErrNotExist) {
		return err
	}
	f, err := os.CreateTemp(dir, filepath.Base(path)+".*.new") // mode 0600
	if err != nil {
		return err
	}
	defer os.Remove(f.Name())
	if err := f.Close(); err != nil {
		return err
	}
	db, _, err := open(f.Name(), false)
	if err != nil {
		return err
	}
	if err := errors.Join(db.Update(initialize), db.Close()); err != nil {
		return err
	}
	// Unlike a rename, a link does not replace the file of a server that was
	// faster.
	if err := os.Link(f.Name(), path); err != nil && !errors.Is(err, fs.ErrExist) {
		return err
	}
	return syncDir(dir)
}

// makeDir makes dir, and the directories above it that do not exist, like [os.MkdirAll]. It
// calls sync for the parent of each: until the parent is synced, a power cut may remove the new
// directory with all that was committed in it.
func makeDir(dir string, sync func(dir string) error) error {
	parent := filepath.Dir(dir)
	err := os.Mkdir(dir, 0o700)
	if errors.Is(err, fs.ErrNotExist) && parent != dir {
		if err := makeDir(parent, sync); err != nil {
			return err
		}
		err = os.Mkdir(dir, 0o700)
	}
	if err != nil {
		return os.MkdirAll(dir, 0o700) // an error, unless the directory is there
	}
	return sync(parent)
}

// initialize writes a state without leases.
func initialize(tx *bolt.Tx) error {
	b, err := tx.CreateBucket(bucket)
	if err != nil {
		return err
	}
	t := table{bucket: b, meta: metaRecord{Format: format, ID: rand.Text()}}
	return t.finish(tx)
}

func syncDir(dir string) error {
	d, err := os.Open(dir)
	if err != nil {
		return err
	}
	return errors.Join(d.Sync(), d.Close())
}
