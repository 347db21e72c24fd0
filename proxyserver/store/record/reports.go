package record

import (
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
