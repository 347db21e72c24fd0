package proxyserver

import (
	"time"

	"github.com/leasectl/leasectl/leaseapi"
	"github.com/leasectl/leasectl/pool"
)

// leasesOf translates leases to the wire.
func leasesOf(leases []pool.Lease) []leaseapi.Lease {
	wire := make([]leaseapi.Lease, len(leases))
	for i, l := range leases {
		wire[i] = leaseapi.Lease{Name: l.Name, Generation: l.Generation}
	}
	return wire
}

func namesOf(leases []pool.Lease) []string {
	names := make([]string, len(leases))
	for i, l := range leases {
		names[i] = l.Name
	}
	return names
}

// poolLease translates a lease for people, with times by the wall clock.
func poolLease(clock clock, l pool.Lease) leaseapi.PoolLease {
	token, owner := splitHolder(l.Owner)
	wire := leaseapi.PoolLease{
		Lease:       leaseapi.Lease{Name: l.Name, Generation: l.Generation},
		Owner:       owner,
		Token:       token,
		Age:         leaseapi.Duration(round(-clock.until(l.Granted))),
		Since:       clock.wall(l.Granted),
		ExpiresIn:   leaseapi.Duration(round(max(0, clock.until(l.Ends())))),
		ExpiresAt:   clock.wall(l.Ends()),
		Provisional: l.Provisional,
		Broken:      l.Broken,
	}
	if l.ReleaseAt > 0 {
		wire.ReleaseAt = clock.wall(l.ReleaseAt)
	}
	return wire
}

// poolWaiter translates a waiter for people, with times by the wall clock.
func poolWaiter(clock clock, w pool.WaiterStatus) leaseapi.Waiter {
	token, owner := splitHolder(w.Owner)
	wire := leaseapi.Waiter{
		Place:  w.Place,
		Owner:  owner,
		Token:  token,
		Count:  w.Count,
		Age:    leaseapi.Duration(round(-clock.until(w.Arrived))),
		Since:  clock.wall(w.Arrived),
		Reason: w.Reason,
		Away:   w.Away,
	}
	if !w.Anonymous {
		wire.RequestID = w.ID
	}
	wire.Estimate, wire.EstimateMax = estimates(w.Estimate, w.EstimateMax)
	return wire
}

// estimates rounds to seconds. What is known stays so: its end is rounded up.
func estimates(likely, most time.Duration) (wireLikely, wireMost leaseapi.Duration) {
	return leaseapi.Duration(likely.Truncate(time.Second)), leaseapi.Duration((most + time.Second - 1).Truncate(time.Second))
}

// oldestLease translates the lease that a waiter waits for longest; nil if none
// is held.
func oldestLease(clock clock, st pool.Status) *leaseapi.PoolLease {
	if st.Oldest == nil {
		return nil
	}
	l := poolLease(clock, *st.Oldest)
	return &l
}

// renewEvery makes two renewals fit before the end, so that one may fail.
func renewEvery(ttl time.Duration) leaseapi.Duration {
	return leaseapi.Duration(min(ttl/3, leaseapi.MaxRenewEvery))
}

// round drops the digits that people do not read.
func round(d time.Duration) time.Duration { return d.Round(time.Millisecond) }
