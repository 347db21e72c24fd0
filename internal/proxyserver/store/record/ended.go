package record

import (
	"bytes"
	"encoding/binary"
	"encoding/json"
	"strconv"
	"strings"
	"time"

	"github.com/leasectl/leasectl/internal/pool"
)

// The key of the records in this file:
//
//	e UNTIL ID   an ended request; UNTIL is 8 bytes, big-endian, so the keys are in
//	             the order in which ids are forgotten. The payload says how the
//	             request ended, and which lease it held.
const keyEnded = 'e'

// endedRecord is the value of an ended request that held a lease. All other values
// of ended requests begin with a letter, or are empty.
type endedRecord struct {
	Unconfirmed bool   `json:"unconfirmed,omitempty"`
	Type        string `json:"type"`
	Owner       string `json:"owner,omitempty"`
	Generation  uint64 `json:"generation"`
	Units       int    `json:"units"`
	Limit       int    `json:"limit"`
	Full        bool   `json:"full,omitempty"`
	Outcome     string `json:"outcome,omitempty"`
}

// unconfirmedValue is the value of a request whose lease nobody confirmed in time.
const unconfirmedValue = "unconfirmed"

// unseenValue is the value of a request that was cancelled before it came.
const unseenValue = "unseen"

// removedPrefix begins the value of a request that an operator removed; the operator's
// reason follows.
const removedPrefix = "removed: "

// resultPrefix begins the value of a request that merged with another; the number of its
// [pool.Result] follows.
const resultPrefix = "result: "

// EndedKey returns the key of the record of e.
func EndedKey(e pool.Ended) []byte {
	key := binary.BigEndian.AppendUint64([]byte{keyEnded}, uint64(e.Until))
	return append(key, e.ID...)
}

func putEnded(t Table, e pool.Ended) error {
	value, err := endedValue(e)
	if err != nil {
		return err
	}
	return t.Put(EndedKey(e), value)
}

// endedValue returns the payload for e. It is empty if e has nothing but an id and a time.
func endedValue(e pool.Ended) ([]byte, error) {
	switch {
	case e.Lease.Type != "":
		return endedLease(e)
	case e.Unconfirmed:
		return []byte(unconfirmedValue), nil
	case e.Unseen:
		return []byte(unseenValue), nil
	case e.Removed != "":
		return []byte(removedPrefix + e.Removed), nil
	case e.Result != 0:
		return []byte(resultPrefix + strconv.Itoa(int(e.Result))), nil
	}
	return nil, nil
}

// endedLease returns the value of an ended request that held a lease.
func endedLease(e pool.Ended) ([]byte, error) {
	l := e.Lease
	return json.Marshal(endedRecord{
		Unconfirmed: e.Unconfirmed, Type: l.Type, Owner: l.Owner, Generation: l.Generation,
		Units: l.Units, Limit: l.Limit, Full: l.Full, Outcome: l.Outcome.String(),
	})
}

// addEndedLease decodes a value of endedLease into e. It returns false if payload is a value
// of another form.
func addEndedLease(e *pool.Ended, payload []byte) (bool, error) {
	if !bytes.HasPrefix(payload, []byte("{")) {
		return false, nil
	}
	var rec endedRecord
	if err := json.Unmarshal(payload, &rec); err != nil {
		return true, err
	}
	e.Unconfirmed = rec.Unconfirmed
	e.Lease = pool.EndedLease{
		Type: rec.Type, Owner: rec.Owner, Generation: rec.Generation,
		Units: rec.Units, Limit: rec.Limit, Full: rec.Full, Outcome: pool.OutcomeOf(rec.Outcome),
	}
	return true, nil
}

// IsEnded reports whether the record under key is an ended request. A server has many of
// these records, and rarely changes one: only when an outcome is reported of a lease that
// has ended. The key must not be empty.
func IsEnded(key []byte) bool { return key[0] == keyEnded }

// ended decodes the record of an ended request. key is without its first byte, the kind.
func ended(key, payload []byte) (pool.Ended, error) {
	e := pool.Ended{ID: string(key[8:]), Until: time.Duration(binary.BigEndian.Uint64(key))}
	if held, err := addEndedLease(&e, payload); held {
		return e, err
	}
	e.Unconfirmed = string(payload) == unconfirmedValue
	e.Unseen = string(payload) == unseenValue
	if why, removed := strings.CutPrefix(string(payload), removedPrefix); removed {
		e.Removed = why
	}
	if text, ok := strings.CutPrefix(string(payload), resultPrefix); ok {
		n, err := strconv.ParseInt(text, 10, 32)
		if err != nil {
			return e, err
		}
		e.Result = pool.Result(n)
	}
	return e, nil
}

// The key of the records in this file:
//
//	r TYPE       the limit of a pool, and the reports on its leases: a
//	             reportsRecord, as JSON
const keyReports = 'r'

type reportsRecord struct {
	Limit     int           `json:"limit,omitempty"`
	Wall      int           `json:"wall,omitempty"`
	Gate      int           `json:"gate,omitempty"`
	OK        int           `json:"ok,omitempty"`
	Cut       uint64        `json:"cut,omitempty"`
	Risen     uint64        `json:"risen,omitempty"`
	Suspect   uint64        `json:"suspect,omitempty"`
	SuspectAt time.Duration `json:"suspect_at,omitempty"`
	Suspects  int           `json:"suspects,omitempty"`
	// What is usual below the wall.
	UsualThrottled int           `json:"usual_throttled,omitempty"`
	UsualOK        int           `json:"usual_ok,omitempty"`
	Moved          *moveRecord   `json:"moved,omitempty"`
	Tally          []tallyRecord `json:"tally"`
}

type moveRecord struct {
	At     time.Duration `json:"at"`
	From   int           `json:"from"`
	To     int           `json:"to"`
	Owner  string        `json:"owner,omitempty"`
	Detail string        `json:"detail,omitempty"`
}

type tallyRecord struct {
	Limit     int `json:"limit"`
	OK        int `json:"ok,omitempty"`
	Throttled int `json:"throttled,omitempty"`
}

// writeReports writes the limit of a pool, and the reports on its leases.
func writeReports(t Table, r pool.Reports) error {
	return putJSON(t, recordKey(keyReports, r.Type), reportsOf(r))
}

func reportsOf(r pool.Reports) reportsRecord {
	rec := reportsRecord{
		Limit: r.Limit, Wall: r.Wall, Gate: r.Gate, OK: r.OK, Cut: r.Cut, Risen: r.Risen,
		Suspect: r.Suspect, SuspectAt: r.SuspectAt, Suspects: r.Suspects,
		UsualThrottled: r.UsualThrottled, UsualOK: r.UsualOK,
	}
	if r.Moved != (pool.Move{}) {
		m := moveRecord(r.Moved)
		rec.Moved = &m
	}
	for _, t := range r.Tally {
		rec.Tally = append(rec.Tally, tallyRecord(t))
	}
	return rec
}

// addReports adds the content of a reportsRecord to snap.
func addReports(snap *pool.Snapshot, typ string, payload []byte) error {
	var rec reportsRecord
	if err := json.Unmarshal(payload, &rec); err != nil {
		return err
	}
	r := pool.Reports{Type: typ, Adaptation: pool.Adaptation{
		Limit: rec.Limit, Wall: rec.Wall, Gate: rec.Gate, OK: rec.OK, Cut: rec.Cut, Risen: rec.Risen,
		Suspect: rec.Suspect, SuspectAt: rec.SuspectAt, Suspects: rec.Suspects,
		UsualThrottled: rec.UsualThrottled, UsualOK: rec.UsualOK,
	}}
	if rec.Moved != nil {
		r.Moved = pool.Move(*rec.Moved)
	}
	for _, t := range rec.Tally {
		r.Tally = append(r.Tally, pool.Tally(t))
	}
	snap.Reports = append(snap.Reports, r)
	return nil
}
