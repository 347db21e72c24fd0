package bolt

import (
	"cmp"
	"reflect"
	"slices"
	"testing"
	"time"

	"github.com/leasectl/leasectl/internal/pool"
)

// A store that is opened again has waiters, lock delays, and the last grants of pools with a
// pace, with every field. It does not have those that are over.
func TestCommitAndLoadQueue(t *testing.T) {
	full := pool.Waiter{
		Request: pool.Request{ID: "full", Type: "t", Ask: pool.Ask{Count: 2, Items: 8, HasItems: true, Weighted: true, Key: "k", Coalesce: pool.Latest, Variant: "v", Priority: -4, Overcommit: true, Also: "b\nc=2"}, Owner: "red\x00me", TTL: time.Hour},
		Units:   3, Follows: "s",
		Arrival: 7, Arrived: 3, HoldsUntil: 5, KeptUntil: 6,
		PriorityNow: 9, Older: 2, Overtaken: 288, Passed: "1500000000 0 7", AlsoUnits: "b=4\nc=2",
	}
	waiter := func(id string, arrival uint64) *pool.Waiter {
		return &pool.Waiter{Request: pool.Request{ID: id, Type: "t", Ask: pool.Ask{Count: 1}, TTL: 1}, Units: 1, Arrival: arrival, Arrived: 2}
	}
	anonymous := waiter("\x001", 6)
	anonymous.Anonymous = true
	missed := waiter("back", 8)
	missed.HoldsUntil, missed.KeptUntil = 1, 2
	moved, overtaken := waiter("moved", 10), waiter("overtaken", 11)
	moved.PriorityNow, overtaken.Overtaken = -100, 12
	lock, over := pool.Locked{Name: "n", Type: "t", Units: 4, Key: "k", Until: 9}, pool.Locked{Name: "o", Type: "t", Units: 1, Until: 8}
	taken := pool.Reserved{Reservation: pool.Reservation{Name: "a", Type: "t", Owner: "red\x00me", Reason: "why", Since: 1, At: time.UnixMilli(5).UTC(), Until: 9}}
	again, back := taken, pool.Reserved{Reservation: pool.Reservation{Name: "b", Reason: "why"}}
	again.Until, again.Reason = 0, "why else"
	moved.Name = "n"
	pace := pool.Pacing{Type: "t", Generation: 5, Start: 4, Count: 3}
	extended := pool.Lease{Name: "e", Type: "t", Generation: 9, Ask: pool.Ask{Count: 1}, Units: 1, TTL: 7, Granted: 3, Expires: 6, Extended: true}
	small := pool.Lease{
		Name: "s", Type: "t", Generation: 8, TTL: 7, Granted: 2,
		Ask: pool.Ask{Items: 9, HasItems: true, Weighted: true, Key: "j", Coalesce: pool.Once, Variant: "v", Priority: 3, Overcommit: true, Also: "t"}, AskedType: "a", Units: 512,
	}
	resized := small
	resized.Units, resized.Resizes = 256, 3
	snap := kept(t,
		[]pool.Change{
			{Kind: pool.Queued, Waiter: waiter("granted", 1)}, {Kind: pool.Queued, Waiter: waiter("dropped", 2)},
			{Kind: pool.Queued, Waiter: anonymous}, {Kind: pool.Queued, Waiter: waiter("full", 7)}, {Kind: pool.Missed, Waiter: missed},
			{Kind: pool.LockBegun, Locked: &over}, {Kind: pool.LockBegun, Locked: &lock},
			{Kind: pool.NameReserved, Reserved: &taken}, {Kind: pool.NameReserved, Reserved: &back},
			{Kind: pool.Paced, Pacing: &pool.Pacing{Type: "t", Generation: 1, Start: 1, Count: 1}}, {Kind: pool.Paced, Pacing: &pool.Pacing{Type: "u", Count: 1}},
		},
		[]pool.Change{
			{Kind: pool.Missed, Waiter: &full}, {Kind: pool.Returned, Waiter: waiter("back", 8)},
			{Kind: pool.Granted, ID: "granted", WasQueued: true}, {Kind: pool.Dropped, ID: "dropped", WasQueued: true}, {Kind: pool.Dropped, ID: anonymous.ID},
			{Kind: pool.LockOver, Locked: &over}, {Kind: pool.Paced, Pacing: &pace}, {Kind: pool.Paced, Pacing: &pool.Pacing{Type: "u"}},
			{Kind: pool.Extended, Lease: extended},
			{Kind: pool.NameReserved, Reserved: &again}, {Kind: pool.NameGivenBack, Reserved: &back},
			{Kind: pool.Granted, ID: "s", Leases: []pool.Lease{small}}, {Kind: pool.Resized, Lease: resized, Before: 512},
			{Kind: pool.Joined, Waiter: waiter("joined", 9)}, {Kind: pool.Moved, Waiter: moved}, {Kind: pool.Overtaken, Waiter: overtaken},
			{Kind: pool.Remembered, Ended: pool.Ended{ID: "told", Until: 9, Result: pool.Exited(3)}},
			{Kind: pool.Remembered, Ended: pool.Ended{ID: "took", Until: 9, Result: pool.Superseded}},
			{Kind: pool.Named, Naming: &pool.Naming{Type: "t", Last: 6}}, {Kind: pool.Named, Naming: &pool.Naming{Type: "t", Last: 7}},
		},
	)
	slices.SortFunc(snap.Waiters, func(a, b pool.Waiter) int { return cmp.Compare(a.Arrival, b.Arrival) })
	want := pool.Snapshot{
		Clock: 4, Generation: 9, Leases: []pool.Lease{extended, resized}, Waiters: []pool.Waiter{full, *waiter("back", 8), *waiter("joined", 9), *moved, *overtaken},
		Ended:    []pool.Ended{{ID: "told", Until: 9, Result: pool.Exited(3)}, {ID: "took", Until: 9, Result: pool.Superseded}},
		Reserved: []pool.Reservation{again.Reservation},
		Locked:   []pool.Locked{lock}, Paced: []pool.Pacing{pace},
		Named: []pool.Naming{{Type: "t", Last: 7}},
	}
	if !reflect.DeepEqual(snap, want) {
		t.Errorf("loaded\n%+v, want\n%+v", snap, want)
	}
}
