package record

import (
	"bytes"
	"encoding/json"
	"time"

	"github.com/leasectl/leasectl/pool"
)

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
	Moved     *moveRecord   `json:"moved,omitempty"`
	Tally     []tallyRecord `json:"tally"`
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

// writeReports writes the limit of a pool, and the reports on its leases.
func writeReports(t Table, r pool.Reports) error {
	return putJSON(t, recordKey(keyReports, r.Type), reportsOf(r))
}

func reportsOf(r pool.Reports) reportsRecord {
	rec := reportsRecord{
		Limit: r.Limit, Wall: r.Wall, Gate: r.Gate, OK: r.OK, Cut: r.Cut, Risen: r.Risen,
		Suspect: r.Suspect, SuspectAt: r.SuspectAt,
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
		Suspect: rec.Suspect, SuspectAt: rec.SuspectAt,
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
