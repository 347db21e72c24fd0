package proxyserver

import (
	"log/slog"
	"time"

	"github.com/leasectl/leasectl/pool"
)

// A client of version 1 does not renew: its lease ends after the pool's v1_ttl,
// and another client gets the name, while the first may still work. Deployed
// servers keep such a lease for as long as the job lives. So an operator is told
// when one is about to end, and when it ends.
const (
	// version1Left is the part of the TTL that is left when the end is near: a
	// tenth.
	version1Left = 10
	// version1Every is how often the server looks. A look costs microseconds, or
	// a millisecond for 100,000 leases.
	version1Every = 10 * time.Second
)

// watchVersion1 warns of leases of version 1 that are about to end, once of each,
// until stop or until calls are refused.
func (t *term) watchVersion1(stop <-chan struct{}) {
	ticker := time.NewTicker(version1Every)
	defer ticker.Stop()
	warned := make(map[uint64]bool) // by generation
	for {
		select {
		case <-stop:
			return
		case <-ticker.C:
		}
		var ending []pool.Lease
		if t.do(func(set *pool.Set, now time.Duration) { ending = set.Unrenewed(now, version1Left) }) != nil {
			return
		}
		still := make(map[uint64]bool, len(ending))
		for _, l := range ending {
			still[l.Generation] = true
			if !warned[l.Generation] {
				t.metrics.version1Ending(l.Type)
				t.log.version1Ending(l)
			}
		}
		warned = still
	}
}

// version1Ending writes a line for a lease that ends soon.
func (l changeLog) version1Ending(lease pool.Lease) {
	l.leaseAt(slog.LevelWarn, "ending", lease,
		slog.Duration("ends_in", round(l.clock.until(lease.Ends()))),
		slog.String("reason", "a version-1 client does not renew: if it still works, another gets the name: v1_ttl of the pool is for how long"))
}

// ofVersion1 reports whether nobody could have renewed l.
func ofVersion1(l pool.Lease) bool { return l.RequestID == "" }
