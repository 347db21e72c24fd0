package record

import (
	"encoding/json"
	"time"

	"github.com/leasectl/leasectl/internal/pool"
)

// The first byte of a key is the kind of the record. A new kind needs a case in [Write]
// and one in [Add].
//
//	l NAME         a lease that is held: a leaseRecord, as JSON
//	s TYPE         a pool that an operator has stopped: a pauseRecord, as JSON
//	d, n, p, t, w  see queue.go
//	e, r           see ended.go
const (
	keyLease = 'l'
	keyPause = 's'
)

type leaseRecord struct {
	Type       string `json:"type"`
	Generation uint64 `json:"generation"`
	Owner      string `json:"owner,omitempty"`
	RequestID  string `json:"request_id,omitempty"`
	pool.Ask
	AskedType   string        `json:"asked_type,omitempty"`
	Units       int           `json:"units,omitempty"` // if more than 1
	Resizes     int           `json:"resizes,omitempty"`
	TTL         time.Duration `json:"ttl"`
	Granted     time.Duration `json:"granted"`
	ReleaseAt   time.Duration `json:"release_at,omitempty"`
	Provisional bool          `json:"provisional,omitempty"`
	Outcome     string        `json:"outcome,omitempty"`
	Broken      string        `json:"broken,omitempty"`
	Extended    bool          `json:"extended,omitempty"`
	OtherLost   bool          `json:"other_lost,omitempty"`
	At          int64         `json:"at,omitempty"`      // [pool.Lease.At], as milliseconds since 1970; zero: not known
	Expires     time.Duration `json:"expires,omitempty"` // only of a broken or extended lease; a restart gives any other its full TTL again
}

type pauseRecord struct {
	Reason string        `json:"reason"`
	Since  time.Duration `json:"since"`
}

// Write applies one change to the records of t. The caller must pass changes in the order
// in which they were made.
func Write(t Table, c *pool.Change) error {
	switch c.Kind {
	case pool.Granted:
		if err := putLeases(t, c.Leases); err != nil {
			return err
		}
		return deleteWaiter(t, c)
	case pool.Renewed, pool.Extended, pool.Delayed, pool.Resized, pool.Broken:
		return putLease(t, &c.Lease)
	case pool.LostOther:
		return putLeases(t, c.Leases)
	case pool.Done:
		return t.Delete(recordKey(keyLease, c.Lease.Name))
	case pool.Remembered:
		return putEnded(t, c.Ended)
	case pool.Forgotten:
		return t.Delete(EndedKey(c.Ended))
	case pool.Paused:
		return putJSON(t, recordKey(keyPause, c.Pause.Type), pauseRecord{Reason: c.Pause.Reason, Since: c.Pause.Since})
	case pool.Resumed:
		return t.Delete(recordKey(keyPause, c.Pause.Type))
	case pool.ReportCounted:
		return writeOutcome(t, c)
	case pool.Adapted:
		return writeReports(t, *c.Reports)
	}
	return writeQueue(t, c)
}

// writeOutcome writes the leases, or the ended request, of which an outcome was reported.
func writeOutcome(t Table, c *pool.Change) error {
	if len(c.Leases) == 0 {
		return putEnded(t, c.Ended)
	}
	return putLeases(t, c.Leases)
}

// Add adds the content of a record to snap. It does not retain key or payload. The key must
// not be empty; an unknown kind is an error.
func Add(snap *pool.Snapshot, key, payload []byte) error {
	switch kind, rest := key[0], key[1:]; {
	case kind == keyLease:
		var l leaseRecord
		if err := json.Unmarshal(payload, &l); err != nil {
			return err
		}
		snap.Leases = append(snap.Leases, l.lease(string(rest)))
	case kind == keyEnded && len(rest) > 8:
		e, err := ended(rest, payload)
		if err != nil {
			return err
		}
		snap.Ended = append(snap.Ended, e)
	case kind == keyReports:
		return addReports(snap, string(rest), payload)
	case kind == keyPause:
		var p pauseRecord
		if err := json.Unmarshal(payload, &p); err != nil {
			return err
		}
		snap.Pauses = append(snap.Pauses, pool.Pause{Type: string(rest), Reason: p.Reason, Since: p.Since})
	default:
		return addQueue(snap, key, payload)
	}
	return nil
}

func (r leaseRecord) lease(name string) pool.Lease {
	return pool.Lease{
		Name: name, Type: r.Type, Generation: r.Generation, Owner: r.Owner,
		RequestID: r.RequestID, Ask: r.Ask, AskedType: r.AskedType, Units: max(r.Units, 1), Resizes: r.Resizes,
		TTL: r.TTL, Granted: r.Granted, ReleaseAt: r.ReleaseAt, Provisional: r.Provisional,
		Outcome: pool.OutcomeOf(r.Outcome), Broken: r.Broken, Expires: r.Expires, Extended: r.Extended,
		OtherLost: r.OtherLost, At: fromMillis(r.At),
	}
}

// millis returns at as milliseconds since 1970, and fromMillis is its reverse; zero: not known.
func millis(at time.Time) int64 {
	if at.IsZero() {
		return 0
	}
	return at.UnixMilli()
}

func fromMillis(at int64) time.Time {
	if at == 0 {
		return time.Time{}
	}
	return time.UnixMilli(at).UTC()
}

func putLeases(t Table, leases []pool.Lease) error {
	for i := range leases {
		if err := putLease(t, &leases[i]); err != nil {
			return err
		}
	}
	return nil
}

func putLease(t Table, l *pool.Lease) error {
	r := leaseRecord{
		Type: l.Type, Generation: l.Generation, Owner: l.Owner,
		RequestID: l.RequestID, Ask: l.Ask, AskedType: l.AskedType, Resizes: l.Resizes,
		TTL: l.TTL, Granted: l.Granted, ReleaseAt: l.ReleaseAt, Provisional: l.Provisional,
		Outcome: l.Outcome.String(), Broken: l.Broken, Extended: l.Extended,
		OtherLost: l.OtherLost, At: millis(l.At),
	}
	if l.Broken != "" || l.Extended {
		r.Expires = l.Expires
	}
	if l.Units > 1 {
		r.Units = l.Units
	}
	return putJSON(t, recordKey(keyLease, l.Name), r)
}

// Table is where records are written.
type Table interface {
	// Put writes a record, and replaces an earlier one with the same key. The caller must
	// not change key or payload afterwards.
	Put(key, payload []byte) error
	// Delete deletes the record under key, if there is one.
	Delete(key []byte) error
}

// putJSON writes a record whose payload is JSON.
func putJSON(t Table, key []byte, record any) error {
	payload, err := json.Marshal(record)
	if err != nil {
		return err
	}
	return t.Put(key, payload)
}

// recordKey returns the key of the record of this kind and name.
func recordKey(kind byte, name string) []byte { return append([]byte{kind}, name...) }
