package holder

import (
	"testing"

	"github.com/leasectl/leasectl/leaseapi"
)

// A request that has just left the queue is told the same reason as the server tells requests
// that still wait.
func TestQueueOf(t *testing.T) {
	keyed := []leaseapi.PoolLease{{Owner: "job-7", Key: "k"}}
	reading := []leaseapi.PoolLease{{Owner: "job-8", Key: "k", KeyMode: "read"}, {Owner: "job-9", Key: "k", KeyMode: "read"}}
	named := []leaseapi.PoolLease{{Lease: leaseapi.Lease{Name: "aws-3"}, Owner: "job-7"}}
	taken := []leaseapi.Reservation{{Name: "aws-3", Owner: "alice", Reason: "repair"}}
	for _, tt := range []struct {
		pool    leaseapi.Pool
		request leaseapi.Ask
		want    string
	}{
		{leaseapi.Pool{Capacity: 2, InUse: 2}, leaseapi.Ask{}, "full"},
		{leaseapi.Pool{Capacity: 9, Limit: 2, InUse: 2}, leaseapi.Ask{}, "full"},
		{leaseapi.Pool{Capacity: 2, InUse: 2, NextGrantIn: 1}, leaseapi.Ask{}, "full"},
		{leaseapi.Pool{Capacity: 2, InUse: 2, Paused: "drill", Leases: keyed}, leaseapi.Ask{Key: "k"}, "paused: drill"},
		{leaseapi.Pool{Capacity: 2, InUse: 2, Leases: keyed}, leaseapi.Ask{Key: "k"}, "key held by job-7"},
		{leaseapi.Pool{Capacity: 2, InUse: 1, Leases: keyed}, leaseapi.Ask{Key: "other"}, ""},
		{leaseapi.Pool{Capacity: 2, InUse: 1, Leases: keyed}, leaseapi.Ask{Key: "k", KeyMode: "read"}, "key held by job-7"},
		{leaseapi.Pool{Capacity: 2, InUse: 1, Leases: reading}, leaseapi.Ask{Key: "k"}, "key held by job-8"},
		{leaseapi.Pool{Capacity: 2, InUse: 1, Leases: reading}, leaseapi.Ask{Key: "k", KeyMode: "read"}, ""},
		{leaseapi.Pool{Capacity: 2, InUse: 1, Leases: named}, leaseapi.Ask{Name: "aws-3"}, "wants aws-3, held by job-7"},
		{leaseapi.Pool{Capacity: 2, InUse: 1, Leases: named}, leaseapi.Ask{Name: "aws-4"}, ""},
		{leaseapi.Pool{Capacity: 2, InUse: 2, Reservations: taken}, leaseapi.Ask{Name: "aws-3"}, "wants aws-3, reserved by alice: repair"},
		{leaseapi.Pool{Capacity: 2, InUse: 2, Reservations: taken}, leaseapi.Ask{Name: "aws-4"}, "full"},
		{leaseapi.Pool{Capacity: 3, InUse: 3, Reserved: 2}, leaseapi.Ask{Count: 2}, "wants 2, 2 of 3 reserved"},
		{leaseapi.Pool{Capacity: 3, InUse: 3, Reserved: 1}, leaseapi.Ask{Count: 2}, "full"},
		{leaseapi.Pool{Capacity: 2, InUse: 1, NextGrantIn: 1, Waiting: 1}, leaseapi.Ask{Count: 2}, "paced"},
		{leaseapi.Pool{Capacity: 9, InUse: 7, NextGrantIn: 1}, leaseapi.Ask{Count: 5}, "wants 5"},
		{leaseapi.Pool{Capacity: 2, InUse: 1, Waiting: 1}, leaseapi.Ask{}, "behind"},
		{leaseapi.Pool{Capacity: 2, InUse: 2, Overcommit: 1, Paused: "drill"}, leaseapi.Ask{Overcommit: true}, ""},
		{leaseapi.Pool{Capacity: 2, InUse: 3, Overcommit: 1, NextGrantIn: 1}, leaseapi.Ask{Overcommit: true}, "full"},
	} {
		if got := queueOf(tt.pool, tt.request).Reason; got != tt.want {
			t.Errorf("%+v to %+v: reason %q, want %q", tt.pool, tt.request, got, tt.want)
		}
	}
	held := []leaseapi.PoolLease{{Owner: "second", Age: 2}, {Owner: "first", Age: 3}, {Owner: "third", Age: 1}}
	if q := queueOf(leaseapi.Pool{Capacity: 3, InUse: 3, Leases: held}, leaseapi.Ask{}); q.Oldest == nil || q.Oldest.Owner != "first" {
		t.Errorf("%+v is said to have held longest", q.Oldest)
	}
}

// A request of several pools is told which other pool has no room, and why, if the first has room.
func TestQueueOfAll(t *testing.T) {
	pools := []leaseapi.Pool{
		{Type: "free", Capacity: 2, InUse: 1}, {Type: "free-2", Capacity: 2},
		{Type: "full", Capacity: 2, InUse: 2}, {Type: "full-2", Capacity: 1, InUse: 1},
	}
	for _, tt := range []struct {
		typ  string
		also []leaseapi.Also
		want string
	}{
		{"free", nil, ""},
		{"free", []leaseapi.Also{{Type: "free-2"}, {Type: "hidden"}}, ""},
		{"free", []leaseapi.Also{{Type: "free-2", Count: 2}, {Type: "full"}, {Type: "full-2"}}, "waits for full too: full"},
		{"free", []leaseapi.Also{{Type: "free-2", Count: 3}, {Type: "full"}}, "waits for free-2 too: wants 3"},
		{"full", []leaseapi.Also{{Type: "full-2"}}, "full"},
	} {
		q := queueOfAll(pools, leaseapi.Ask{Type: tt.typ, Also: tt.also})
		if q == nil || q.Reason != tt.want || q.Place != 1 {
			t.Errorf("%s and %v: %+v, want reason %q", tt.typ, tt.also, q, tt.want)
		}
	}
	if q := queueOfAll(pools, leaseapi.Ask{Type: "hidden"}); q != nil {
		t.Errorf("of a pool that is not there: %+v", q)
	}
}
