package bolt

import (
	"reflect"
	"testing"
	"time"

	"github.com/leasectl/leasectl/internal/pool"
)

// A store that is opened again has limits, and the reports on held and on ended leases, with
// every field.
func TestCommitAndLoadReports(t *testing.T) {
	lease := pool.Lease{Name: "n", Type: "t", Generation: 3, RequestID: "r", Ask: pool.Ask{Count: 1}, Units: 1, TTL: time.Hour}
	told := lease
	told.Outcome = pool.OutcomeOK
	ended := pool.Ended{ID: "e", Until: 9, Unconfirmed: true, Lease: pool.EndedLease{Type: "t", Owner: "red\x00me", Generation: 2, Units: 4, Limit: 5, Full: true}}
	toldLate := ended
	toldLate.Lease.Outcome = pool.OutcomeThrottled
	cancelled, removed := pool.Ended{ID: "c", Until: 10}, pool.Ended{ID: "d", Until: 11, Removed: "{why}"}
	full := pool.Reports{
		Type: "t", Adaptation: pool.Adaptation{Limit: 1, Wall: 2, Gate: 3, OK: 4, Cut: 5, Risen: 6, Suspect: 7, SuspectAt: 8, Suspects: 9, UsualThrottled: 10, UsualOK: 11},
		Moved: pool.Move{At: 9, From: 10, To: 11, Owner: "me", Detail: "why"}, Tally: []pool.Tally{{Limit: 12, OK: 13, Throttled: 14}, {Limit: 15}},
	}
	small := pool.Reports{Type: "t", Tally: []pool.Tally{{Limit: 1, OK: 1}}}
	got := kept(t,
		[]pool.Change{
			{Kind: pool.Granted, ID: "r", Leases: []pool.Lease{lease}}, {Kind: pool.Remembered, Ended: ended},
			{Kind: pool.Remembered, Ended: cancelled}, {Kind: pool.Remembered, Ended: removed},
			{Kind: pool.Adapted, Reports: &small},
		},
		[]pool.Change{
			{Kind: pool.ReportCounted, Leases: []pool.Lease{told}, Reported: &pool.Reported{}}, {Kind: pool.ReportCounted, Ended: toldLate, Reported: &pool.Reported{}},
			{Kind: pool.Adapted, Reports: &full},
		},
	)
	want := pool.Snapshot{
		Clock: 4, Generation: 9, Leases: []pool.Lease{told}, Ended: []pool.Ended{toldLate, cancelled, removed}, Reports: []pool.Reports{full},
	}
	if !reflect.DeepEqual(got, want) {
		t.Errorf("loaded\n%+v\nwant\n%+v", got, want)
	}
}
