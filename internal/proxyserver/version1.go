package proxyserver

import (
	"time"

	"github.com/leasectl/leasectl/internal/pool"
	"github.com/leasectl/leasectl/internal/proxyserver/eventlog"
	"github.com/leasectl/leasectl/internal/proxyserver/metrics"
)

// A client of version 1 does not renew: its lease ends after the pool's v1_ttl,
// and another client gets the name, while the first may still work. Deployed
// servers keep such a lease for as long as the job lives. So the log warns operators
// when such a lease is about to end, and when it ends.
const (
	// version1Left says when the end is near: when a tenth of the TTL is left.
	version1Left = 10
	// version1Every is how often the server looks. A look costs microseconds, or
	// a millisecond for 100,000 leases.
	version1Every = 10 * time.Second
)

// version1Watch knows which leases of version 1 were warned of.
type version1Watch struct {
	looked time.Duration   // on the lease clock
	warned map[uint64]bool // by generation
}

// look returns the leases that are about to end, if it is time to look.
func (v *version1Watch) look(set *pool.Set, now time.Duration) []pool.Lease {
	if held, _ := set.Busy(); held == 0 || now < v.looked+version1Every {
		return nil
	}
	v.looked = now
	return set.Unrenewed(now, version1Left)
}

// warn logs and counts the leases that look returned, each of them once.
func (v *version1Watch) warn(ending []pool.Lease, m *metrics.Counts, events *eventlog.Log) {
	if ending == nil {
		return
	}
	still := make(map[uint64]bool, len(ending))
	for _, l := range ending {
		still[l.Generation] = true
		if !v.warned[l.Generation] {
			m.Version1Ending(l.Type)
			events.Ending(l)
		}
	}
	v.warned = still
}
