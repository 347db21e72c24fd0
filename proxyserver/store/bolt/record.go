package bolt

import (
	"encoding/binary"
	"encoding/json"
	"fmt"
	"strings"
	"time"

	bolt "go.etcd.io/bbolt"

	"github.com/leasectl/leasectl/pool"
	"github.com/leasectl/leasectl/proxyserver/store"
)

// The keys of records begin with what the records are of. A new kind of record
// needs a case in writeChange and one in reader.add.
//
//	e UNTIL ID   an ended request; UNTIL is 8 bytes, so the keys are in the order
//	             in which ids are remembered and forgotten. The payload says how
//	             it ended if that matters, and is mostly empty.
//	l NAME       a lease that is held: a leaseRecord, as JSON
//	s TYPE       a pool that an operator has stopped: a pauseRecord, as JSON
//	m            the metaRecord, as JSON
//	d, p, w      see queue.go
const (
	keyEnded = 'e'
	keyLease = 'l'
	keyPause = 's'
)

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
	Extended    bool          `json:"extended,omitempty"`
	Expires     time.Duration `json:"expires,omitempty"` // of a lease that is broken or extended; a restart gives any other its full TTL again
}

type pauseRecord struct {
	Reason string        `json:"reason"`
	Since  time.Duration `json:"since"`
}

// write writes what one commit changes.
func write(tx *bolt.Tx, batch store.Batch) error {
	t, err := openTable(tx)
	if err != nil {
		return err
	}
	for _, c := range batch.Changes {
		if err := writeChange(t, c); err != nil {
			return err
		}
	}
	t.meta.Clock, t.meta.Generation = batch.Clock, batch.Generation
	return t.finish(tx)
}

func writeChange(t *table, c pool.Change) error {
	switch c.Kind {
	case pool.Granted:
		for _, l := range c.Leases {
			if err := putLease(t, l); err != nil {
				return err
			}
		}
		return deleteWaiter(t, c)
	case pool.Renewed, pool.Extended, pool.Delayed, pool.Broken:
		return putLease(t, c.Lease)
	case pool.Done:
		return t.delete(leaseKey(c.Lease.Name))
	case pool.Remembered:
		return t.put(endedKey(c.Ended), endedValue(c.Ended))
	case pool.Forgotten:
		return t.delete(endedKey(c.Ended))
	case pool.Paused:
		return t.putJSON(pauseKey(c.Pause.Type), pauseRecord{Reason: c.Pause.Reason, Since: c.Pause.Since})
	case pool.Resumed:
		return t.delete(pauseKey(c.Pause.Type))
	}
	return writeQueue(t, c)
}

// reader takes up records, one after the other, and counts them.
type reader struct {
	meta     metaRecord // of the file
	snapshot pool.Snapshot
	records  int
	sum      uint64
}

// record takes up one record.
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
	if err := r.add(key, payload); err != nil {
		return fmt.Errorf("%s: %w", describe(key), err)
	}
	return nil
}

// add adds what a record says to the snapshot.
func (r *reader) add(key, payload []byte) error {
	switch kind, rest := key[0], key[1:]; {
	case kind == keyLease:
		var l leaseRecord
		if err := json.Unmarshal(payload, &l); err != nil {
			return err
		}
		r.snapshot.Leases = append(r.snapshot.Leases, l.lease(string(rest)))
	case kind == keyEnded && len(rest) > 8:
		removed, _ := strings.CutPrefix(string(payload), removedPrefix)
		if removed == string(payload) {
			removed = ""
		}
		r.snapshot.Ended = append(r.snapshot.Ended, pool.Ended{
			ID:    string(rest[8:]),
			Until: time.Duration(binary.BigEndian.Uint64(rest)),

			Unconfirmed: string(payload) == "unconfirmed",
			Removed:     removed,
		})
	case kind == keyPause:
		var p pauseRecord
		if err := json.Unmarshal(payload, &p); err != nil {
			return err
		}
		r.snapshot.Pauses = append(r.snapshot.Pauses, pool.Pause{Type: string(rest), Reason: p.Reason, Since: p.Since})
	default:
		return addQueue(&r.snapshot, key, payload)
	}
	return nil
}

// check reports records that were lost, or brought back.
func (r *reader) check() error {
	switch {
	case r.meta.Format == 1: // it did not count them
	case r.records != r.meta.Records:
		return fmt.Errorf("%w: bucket %q: it has %d records, and should have %d", store.ErrDamaged, bucket, r.records, r.meta.Records)
	case r.sum != r.meta.Sum:
		return fmt.Errorf("%w: bucket %q: some of its %d records are older ones", store.ErrDamaged, bucket, r.records)
	}
	return nil
}

func (r leaseRecord) lease(name string) pool.Lease {
	return pool.Lease{
		Name: name, Type: r.Type, Generation: r.Generation, Owner: r.Owner,
		RequestID: r.RequestID, Count: r.Count,
		TTL: r.TTL, Granted: r.Granted, ReleaseAt: r.ReleaseAt, Provisional: r.Provisional,
		Broken: r.Broken, Expires: r.Expires, Extended: r.Extended,
	}
}

func putLease(t *table, l pool.Lease) error {
	r := leaseRecord{
		Type: l.Type, Generation: l.Generation, Owner: l.Owner,
		RequestID: l.RequestID, Count: l.Count,
		TTL: l.TTL, Granted: l.Granted, ReleaseAt: l.ReleaseAt, Provisional: l.Provisional,
		Broken: l.Broken, Extended: l.Extended,
	}
	if l.Broken != "" || l.Extended {
		r.Expires = l.Expires
	}
	return t.putJSON(leaseKey(l.Name), r)
}

func leaseKey(name string) []byte { return append([]byte{keyLease}, name...) }

func pauseKey(typ string) []byte { return append([]byte{keyPause}, typ...) }

func endedKey(e pool.Ended) []byte {
	key := binary.BigEndian.AppendUint64([]byte{keyEnded}, uint64(e.Until))
	return append(key, e.ID...)
}

// endedValue is empty for most, as it always was in older stores.
func endedValue(e pool.Ended) []byte {
	switch {
	case e.Unconfirmed:
		return []byte("unconfirmed")
	case e.Removed != "":
		return []byte(removedPrefix + e.Removed)
	}
	return nil
}

// removedPrefix begins the value of a request that an operator removed; why
// follows.
const removedPrefix = "removed: "
