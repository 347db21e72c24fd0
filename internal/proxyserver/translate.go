package proxyserver

import (
	"slices"
	"time"

	"github.com/leasectl/leasectl/internal/pool"
	"github.com/leasectl/leasectl/leaseapi"
)

// leasesOf translates leases of one request to the wire, with their units if their pool is among
// counted, or was counted when they were granted. Of a request of several types each has its type.
func leasesOf(leases []pool.Lease, counted countedTypes) []leaseapi.Lease {
	wire := make([]leaseapi.Lease, len(leases))
	for i, l := range leases {
		wire[i] = leaseOf(l, counted.has(l.Type))
		if l.Also != "" {
			wire[i].Type = l.Type
		}
	}
	return wire
}

// countedTypes are those of the types of a request whose pools are counted.
type countedTypes []string

func (c countedTypes) has(typ string) bool { return slices.Contains(c, typ) }

// countedOf returns those of the types whose pools are counted.
func countedOf(set *pool.Set, types []string) (counted countedTypes) {
	for _, typ := range types {
		if set.Counted(typ) {
			counted = append(counted, typ)
		}
	}
	return counted
}

func leaseOf(l pool.Lease, counted bool) leaseapi.Lease {
	wire := leaseapi.Lease{Name: l.Name, Generation: l.Generation}
	if counted || l.Units > 1 {
		wire.Units = l.Units
	}
	return wire
}

// lostOf translates leases that had ended before a call; nil: there are none.
func lostOf(stale []pool.Stale) []leaseapi.Lost {
	var wire []leaseapi.Lost
	for _, s := range stale {
		wire = append(wire, leaseapi.Lost{Lease: leaseapi.Lease{Name: s.Name, Generation: s.Generation}, Reason: string(s.Reason)})
	}
	return wire
}

// limitOf returns the limit of a pool; zero if the limit is the capacity.
func limitOf(limit, capacity int) int {
	if limit == capacity {
		return 0
	}
	return limit
}

// keyMode returns the key mode of a lease or waiter; empty if it is the usual one.
func keyMode(reads bool) string {
	if reads {
		return leaseapi.KeyRead
	}
	return ""
}

func namesOf(leases []pool.Lease) []string {
	names := make([]string, len(leases))
	for i, l := range leases {
		names[i] = l.Name
	}
	return names
}

// poolOf translates the state of a pool, for people.
func poolOf(clock clock, p pool.PoolStatus) leaseapi.Pool {
	wire := leaseapi.Pool{
		Type: p.Type, Capacity: p.Capacity, InUse: p.InUse, LockDelayed: p.LockDelayed, Waiting: p.Waiting, Following: p.Following,
		OldestWaiting: leaseapi.Duration(round(p.OldestWaiting)),
		NextGrantIn:   leaseapi.Duration(round(p.NextGrantIn)),
		Limit:         limitOf(p.Limit, p.Capacity),
		Counted:       p.Counted,
		Unit:          p.Unit,
		Overcommit:    p.Overcommit,
		MayOvertake:   p.MayOvertake,
		Leases:        make([]leaseapi.PoolLease, len(p.Leases)),
	}
	if p.LockedFor > 0 {
		wire.LockedFor, wire.LockedUntil = leaseapi.Duration(round(p.LockedFor)), clock.wall(clock.now()+p.LockedFor)
	}
	if p.NextGrantIn > 0 {
		wire.NextGrantAt = clock.wall(clock.now() + p.NextGrantIn)
	}
	if p.Paused != nil {
		wire.Paused, wire.PausedSince = p.Paused.Reason, clock.wall(p.Paused.Since)
		wire.PausedFor = leaseapi.Duration(round(clock.since(p.Paused.Since)))
	}
	wire.Reserved = len(p.Reserved)
	for _, r := range p.Reserved[:min(len(p.Reserved), leaseapi.ListedReservations)] {
		wire.Reservations = append(wire.Reservations, reservationOf(clock, r))
	}
	for i, l := range p.Leases {
		wire.Leases[i] = poolLease(clock, l, p.Counted)
	}
	for _, w := range p.Waiters {
		wire.Waiters = append(wire.Waiters, poolWaiter(clock, w))
	}
	return wire
}

// nameStatusesOf translates the names of a pool.
func nameStatusesOf(clock clock, names []pool.NameStatus) []leaseapi.Name {
	all := make([]leaseapi.Name, len(names))
	for i, n := range names {
		all[i] = leaseapi.Name{Name: n.Name, State: n.State}
		if n.Until > 0 {
			all[i].FreeIn = leaseapi.Duration(round(max(0, clock.until(n.Until))))
		}
	}
	return all
}

// reservationOf translates a reservation for people, with times by the wall clock.
func reservationOf(clock clock, r pool.Reserved) leaseapi.Reservation {
	wire := leaseapi.Reservation{Name: r.Name, Reason: r.Reason, Age: leaseapi.Duration(round(clock.since(r.Since))), Since: clock.wall(r.Since)}
	wire.Token, wire.Owner = pool.SplitOwner(r.Owner)
	_, wire.HeldBy = pool.SplitOwner(r.Holder)
	if r.Until > 0 {
		wire.EndsIn, wire.EndsAt = leaseapi.Duration(round(max(0, clock.until(r.Until)))), clock.wall(r.Until)
	}
	return wire
}

// poolLease translates a lease for people, with times by the wall clock.
func poolLease(clock clock, l pool.Lease, counted bool) leaseapi.PoolLease {
	token, owner := pool.SplitOwner(l.Owner)
	wire := leaseapi.PoolLease{
		Lease:       leaseOf(l, counted),
		Key:         l.HeldKey(),
		KeyMode:     keyMode(l.ReadsKey && l.HeldKey() != ""),
		Overcommit:  l.Overcommit,
		Priority:    l.Priority,
		Owner:       owner,
		Token:       token,
		Age:         leaseapi.Duration(round(clock.since(l.Granted))),
		Since:       l.At,
		ExpiresIn:   leaseapi.Duration(round(max(0, clock.until(l.Ends())))),
		ExpiresAt:   clock.wall(l.Ends()),
		Provisional: l.Provisional,
		Broken:      l.Broken,
		Draining:    l.Draining,
	}
	if l.ReleaseAt > 0 {
		wire.ReleaseAt = clock.wall(l.ReleaseAt)
	}
	return wire
}

// poolWaiter translates a waiter for people, with times by the wall clock.
func poolWaiter(clock clock, w pool.WaiterStatus) leaseapi.Waiter {
	token, owner := pool.SplitOwner(w.Owner)
	wire := leaseapi.Waiter{
		Place:   w.Place,
		Owner:   owner,
		Token:   token,
		Count:   w.Units,
		Key:     w.Key,
		KeyMode: keyMode(w.ReadsKey),
		Name:    w.Name,
		Follows: pool.PlainID(w.Follows),
		Age:     leaseapi.Duration(round(clock.since(w.Arrived))),
		Since:   clock.wall(w.Arrived),
		Reason:  w.Reason,
		Away:    w.Away,
		Order:   orderOf(w.Order),
	}
	if !w.Anonymous {
		wire.RequestID = pool.PlainID(w.ID)
	}
	wire.Estimate, wire.EstimateMax = estimates(w.Estimate, w.EstimateMax)
	return wire
}

// orderOf translates where the order puts a waiter.
func orderOf(o pool.Order) leaseapi.Order {
	if o.Overtaken == 0 {
		o.MayOvertake = 0
	}
	return leaseapi.Order(o)
}

// estimates rounds a range to seconds: its end up, and its beginning down. If both are the
// same the time is known, and both are rounded up, so that it stays known.
func estimates(likely, most time.Duration) (wireLikely, wireMost leaseapi.Duration) {
	wireMost = leaseapi.Duration((most + time.Second - 1).Truncate(time.Second))
	if likely == most {
		return wireMost, wireMost
	}
	return leaseapi.Duration(likely.Truncate(time.Second)), wireMost
}

// oldestLease translates the lease of the pool that is held longest; nil if none is held.
func oldestLease(clock clock, st pool.Status) *leaseapi.PoolLease {
	if st.Oldest == nil {
		return nil
	}
	l := poolLease(clock, *st.Oldest, false)
	return &l
}

// renewEvery makes two renewals fit before the end of a lease, so that one may fail.
func renewEvery(ttl time.Duration) leaseapi.Duration {
	return leaseapi.Duration(min(ttl/3, leaseapi.MaxRenewEvery))
}

// round drops the digits that people do not read.
func round(d time.Duration) time.Duration { return d.Round(time.Millisecond) }
