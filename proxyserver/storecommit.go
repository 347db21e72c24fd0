package proxyserver

import (
	"encoding/binary"
	"encoding/json"
	"fmt"
	"time"

	bolt "go.etcd.io/bbolt"

	"github.com/leasectl/leasectl/pool"
)

// commit makes the changes and the clock durable, all or none of them. After an
// error nobody knows which.
func (s *store) commit(changes []pool.Change, clock time.Duration) error {
	err := s.db.Update(func(tx *bolt.Tx) error {
		b := tx.Bucket(bucket)
		for _, c := range changes {
			if c.Kind == pool.Granted {
				s.generation = c.Leases[len(c.Leases)-1].Generation
			}
			if err := save(b, c); err != nil {
				return err
			}
		}
		return put(b, []byte{keyMeta}, metaRecord{Format: format, Clock: clock, Generation: s.generation})
	})
	if err != nil {
		return fmt.Errorf("commit to %s: %w", s.db.Path(), err)
	}
	return nil
}

// save writes what one change says.
func save(b *bolt.Bucket, c pool.Change) error {
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
