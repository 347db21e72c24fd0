package record

import (
	"encoding/json"
	"errors"
	"fmt"
	"time"

	"github.com/leasectl/leasectl/internal/pool"
)

// The keys of the records in this file:
//
//	d NAME       a name that has a lock delay: a lockRecord, as JSON
//	n TYPE       the last name that a counted pool made up: a nameRecord, as JSON
//	p TYPE       the last grant of a pool with a pace: a paceRecord, as JSON
//	t NAME       a name that a person has taken out of its pool: a reservationRecord, as JSON
//	w ID         a request that waits: a waiterRecord, as JSON
const (
	keyLock   = 'd'
	keyName   = 'n'
	keyPace   = 'p'
	keyTaken  = 't'
	keyWaiter = 'w'
)

// waiterRecord is a request that waits. HoldsUntil and KeptUntil are set if its client
// has not come back after a restart or a stall.
type waiterRecord struct {
	Type string `json:"type"`
	pool.Ask
	Units      int           `json:"units,omitempty"`
	Owner      string        `json:"owner,omitempty"`
	TTL        time.Duration `json:"ttl"`
	Arrival    uint64        `json:"arrival"`
	Arrived    time.Duration `json:"arrived"`
	Follows    string        `json:"follows,omitempty"` // the id of the request that it has joined
	HoldsUntil time.Duration `json:"holds_until,omitempty"`
	KeptUntil  time.Duration `json:"kept_until,omitempty"`

	PriorityNow int           `json:"priority_now,omitempty"`
	Older       time.Duration `json:"older,omitempty"`
	Overtaken   int           `json:"overtaken,omitempty"`
	Passed      string        `json:"passed,omitempty"`
	AlsoUnits   string        `json:"also_units,omitempty"` // a type a line
}

type lockRecord struct {
	Type     string        `json:"type"`
	Units    int           `json:"units,omitempty"`
	Key      string        `json:"key,omitempty"`
	ReadsKey bool          `json:"reads_key,omitempty"`
	Until    time.Duration `json:"until"`
}

type reservationRecord struct {
	Type   string        `json:"type"`
	Owner  string        `json:"owner,omitempty"`
	Reason string        `json:"reason"`
	Since  time.Duration `json:"since"`
	At     int64         `json:"at,omitempty"`    // [pool.Reservation.At], as milliseconds since 1970
	Until  time.Duration `json:"until,omitempty"` // zero: until it is given back
}

type nameRecord struct {
	Last int `json:"last"`
}

type paceRecord struct {
	Generation uint64        `json:"generation"`
	Start      time.Duration `json:"start"`
	Count      int           `json:"count"`
}

// writeQueue writes a change of a waiter, or of what makes waiters wait: a lock delay, a
// reservation, a pace, or the last name that a counted pool made up.
func writeQueue(t Table, c *pool.Change) error {
	switch c.Kind {
	case pool.Queued, pool.Joined, pool.Missed, pool.Returned, pool.Overtaken, pool.Recounted, pool.Moved:
		if c.Waiter.Anonymous { // its wait ends with its connection
			return nil
		}
		w := c.Waiter
		return putJSON(t, recordKey(keyWaiter, w.ID), waiterRecord{
			Type: w.Type, Ask: w.Ask, Units: w.Units, Follows: w.Follows,
			Owner: w.Owner, TTL: w.TTL,
			Arrival: w.Arrival, Arrived: w.Arrived, HoldsUntil: w.HoldsUntil, KeptUntil: w.KeptUntil,
			PriorityNow: w.PriorityNow, Older: w.Older, Overtaken: w.Overtaken,
			Passed: w.Passed, AlsoUnits: w.AlsoUnits,
		})
	case pool.Dropped:
		return deleteWaiter(t, c)
	case pool.LockBegun:
		return putJSON(t, recordKey(keyLock, c.Locked.Name), lockRecord{
			Type: c.Locked.Type, Units: c.Locked.Units, Key: c.Locked.Key, ReadsKey: c.Locked.ReadsKey, Until: c.Locked.Until,
		})
	case pool.LockOver:
		return t.Delete(recordKey(keyLock, c.Locked.Name))
	case pool.NameReserved:
		r := c.Reserved
		return putJSON(t, recordKey(keyTaken, r.Name), reservationRecord{
			Type: r.Type, Owner: r.Owner, Reason: r.Reason, Since: r.Since, At: millis(r.At), Until: r.Until,
		})
	case pool.NameGivenBack:
		return t.Delete(recordKey(keyTaken, c.Reserved.Name))
	case pool.Named:
		return putJSON(t, recordKey(keyName, c.Naming.Type), nameRecord{Last: c.Naming.Last})
	case pool.Paced:
		p := c.Pacing
		if p.Count == 0 {
			return t.Delete(recordKey(keyPace, p.Type))
		}
		return putJSON(t, recordKey(keyPace, p.Type), paceRecord{Generation: p.Generation, Start: p.Start, Count: p.Count})
	}
	return fmt.Errorf("a change of kind %d has no record", c.Kind)
}

// deleteWaiter deletes the waiter that c takes off the queue, if the waiter has a record.
func deleteWaiter(t Table, c *pool.Change) error {
	if !c.WasQueued {
		return nil
	}
	return t.Delete(recordKey(keyWaiter, c.ID))
}

// addQueue adds a record of writeQueue to snap.
func addQueue(snap *pool.Snapshot, key, payload []byte) error {
	name := string(key[1:])
	switch key[0] {
	case keyWaiter:
		var w waiterRecord
		if err := json.Unmarshal(payload, &w); err != nil {
			return err
		}
		snap.Waiters = append(snap.Waiters, pool.Waiter{
			Request: pool.Request{
				ID: name, Type: w.Type, Owner: w.Owner, TTL: w.TTL, Ask: w.Ask,
			},
			Units:   w.Units,
			Follows: w.Follows,
			Arrival: w.Arrival, Arrived: w.Arrived, HoldsUntil: w.HoldsUntil, KeptUntil: w.KeptUntil,
			PriorityNow: w.PriorityNow, Older: w.Older, Overtaken: w.Overtaken,
			Passed: w.Passed, AlsoUnits: w.AlsoUnits,
		})
	case keyLock:
		var l lockRecord
		if err := json.Unmarshal(payload, &l); err != nil {
			return err
		}
		snap.Locked = append(snap.Locked, pool.Locked{Name: name, Type: l.Type, Units: l.Units, Key: l.Key, ReadsKey: l.ReadsKey, Until: l.Until})
	case keyTaken:
		var r reservationRecord
		if err := json.Unmarshal(payload, &r); err != nil {
			return err
		}
		snap.Reserved = append(snap.Reserved, pool.Reservation{
			Name: name, Type: r.Type, Owner: r.Owner, Reason: r.Reason, Since: r.Since, At: fromMillis(r.At), Until: r.Until,
		})
	case keyName:
		var n nameRecord
		if err := json.Unmarshal(payload, &n); err != nil {
			return err
		}
		snap.Named = append(snap.Named, pool.Naming{Type: name, Last: n.Last})
	case keyPace:
		var p paceRecord
		if err := json.Unmarshal(payload, &p); err != nil {
			return err
		}
		snap.Paced = append(snap.Paced, pool.Pacing{Type: name, Generation: p.Generation, Start: p.Start, Count: p.Count})
	default:
		return errors.New("it is not known")
	}
	return nil
}
