package bolt

import (
	"encoding/binary"
	"encoding/json"
	"errors"
	"fmt"
	"time"

	bolt "go.etcd.io/bbolt"
	bolterrors "go.etcd.io/bbolt/errors"

	"github.com/leasectl/leasectl/pool"
	"github.com/leasectl/leasectl/proxyserver/store"
)

// All records are in one bucket, so that a commit writes few pages. Their keys
// begin with what they are of:
//
//	e UNTIL ID   an ended request; UNTIL is 8 bytes, so the keys are in the order
//	             in which ids are remembered and forgotten
//	l NAME       a lease that is held: a leaseRecord
//	m            a metaRecord
const (
	keyEnded = 'e'
	keyLease = 'l'
	keyMeta  = 'm'
)

var bucket = []byte("leasectl")

// format is the number of this layout. A server refuses a number that it does
// not know, since it would lose records that it cannot read.
const format = 1

type metaRecord struct {
	Format     int           `json:"format"`
	Clock      time.Duration `json:"clock"`
	Generation uint64        `json:"generation"`
}

type leaseRecord struct {
	Type        string        `json:"type"`
	Generation  uint64        `json:"generation"`
	Owner       string        `json:"owner,omitempty"`
	RequestID   string        `json:"request_id,omitempty"`
	Count       int           `json:"count"`
	TTL         time.Duration `json:"ttl"`
	Granted     time.Duration `json:"granted"`
	ReleaseAt   time.Duration `json:"release_at,omitempty"`
	Provisional bool          `json:"provisional,omitempty"`
	Broken      string        `json:"broken,omitempty"`
	Expires     time.Duration `json:"expires,omitempty"` // of a broken lease; a restart gives any other its full TTL again
}

// initialize writes a state without leases.
func initialize(tx *bolt.Tx) error {
	b, err := tx.CreateBucket(bucket)
	if err != nil {
		return err
	}
	return put(b, []byte{keyMeta}, metaRecord{Format: format})
}

// write writes what one commit changes.
func write(tx *bolt.Tx, batch store.Batch) error {
	b := tx.Bucket(bucket)
	for _, c := range batch.Changes {
		if err := writeChange(b, c); err != nil {
			return err
		}
	}
	return put(b, []byte{keyMeta}, metaRecord{Format: format, Clock: batch.Clock, Generation: batch.Generation})
}

func writeChange(b *bolt.Bucket, c pool.Change) error {
	switch c.Kind {
	case pool.Granted:
		for _, l := range c.Leases {
			if err := putLease(b, l); err != nil {
				return err
			}
		}
		return nil
	case pool.Renewed, pool.Delayed, pool.Broken:
		return putLease(b, c.Lease)
	case pool.Done:
		return b.Delete(leaseKey(c.Lease.Name))
	case pool.Remembered:
		return b.Put(endedKey(c.Ended), nil)
	case pool.Forgotten:
		return b.Delete(endedKey(c.Ended))
	}
	return nil // the queue is not durable
}

// read returns all that is in the store.
func read(tx *bolt.Tx) (snap pool.Snapshot, err error) {
	b := tx.Bucket(bucket)
	if b == nil {
		return snap, fmt.Errorf("it is another program's (%w)", bolterrors.ErrInvalid)
	}
	var meta metaRecord
	if err := json.Unmarshal(b.Get([]byte{keyMeta}), &meta); err != nil {
		return snap, fmt.Errorf("its format is not known (%w)", bolterrors.ErrInvalid)
	}
	if meta.Format != format {
		return snap, fmt.Errorf("it has format %d, and this program knows format %d: use the program that made it", meta.Format, format)
	}
	snap.Clock, snap.Generation = meta.Clock, meta.Generation
	err = b.ForEach(func(k, v []byte) error { return readRecord(&snap, k, v) })
	return snap, err
}

func readRecord(snap *pool.Snapshot, key, value []byte) error {
	if len(key) == 0 {
		return errors.New("a key is empty")
	}
	switch rest := key[1:]; {
	case key[0] == keyLease:
		var r leaseRecord
		if err := json.Unmarshal(value, &r); err != nil {
			return fmt.Errorf("lease %q: %w", rest, err)
		}
		snap.Leases = append(snap.Leases, r.lease(string(rest)))
	case key[0] == keyEnded && len(rest) > 8:
		snap.Ended = append(snap.Ended, pool.Ended{
			ID:    string(rest[8:]),
			Until: time.Duration(binary.BigEndian.Uint64(rest)),
		})
	case key[0] != keyMeta:
		return fmt.Errorf("key %q is not known", key)
	}
	return nil
}

func (r leaseRecord) lease(name string) pool.Lease {
	return pool.Lease{
		Name: name, Type: r.Type, Generation: r.Generation, Owner: r.Owner,
		RequestID: r.RequestID, Count: r.Count,
		TTL: r.TTL, Granted: r.Granted, ReleaseAt: r.ReleaseAt, Provisional: r.Provisional,
		Broken: r.Broken, Expires: r.Expires,
	}
}

func putLease(b *bolt.Bucket, l pool.Lease) error {
	r := leaseRecord{
		Type: l.Type, Generation: l.Generation, Owner: l.Owner,
		RequestID: l.RequestID, Count: l.Count,
		TTL: l.TTL, Granted: l.Granted, ReleaseAt: l.ReleaseAt, Provisional: l.Provisional,
		Broken: l.Broken,
	}
	if l.Broken != "" {
		r.Expires = l.Expires
	}
	return put(b, leaseKey(l.Name), r)
}

func leaseKey(name string) []byte { return append([]byte{keyLease}, name...) }

func endedKey(e pool.Ended) []byte {
	key := binary.BigEndian.AppendUint64([]byte{keyEnded}, uint64(e.Until))
	return append(key, e.ID...)
}

func put(b *bolt.Bucket, key []byte, record any) error {
	value, err := json.Marshal(record)
	if err != nil {
		return err
	}
	return b.Put(key, value)
}
