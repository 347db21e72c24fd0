package pool

import (
	"cmp"
	"fmt"
)

// Share is how much one caller may have, over all pools and owners. Zero: as much as one pool has at most, however
// many pools there are.
type Share struct {
	Leases  int // that its requests hold or wait for, and names that a lock delay keeps after them
	Waiters int // of its requests that wait
}

// ShareError refuses a request whose caller has its [Share].
type ShareError struct {
	Leases      bool // it has too many leases; else too many of its requests wait
	Memory      bool // the numbers are bytes of memory, which all callers together have used up
	Have, Asked int
	Most        int
}

func (e *ShareError) Error() string {
	switch {
	case e.Memory:
		return fmt.Sprintf("the leases and waiting requests of all callers take the memory that the server has for them, and those of the caller %d MiB of it: its share is %d", e.Have>>20, e.Most>>20)
	case e.Leases:
		return fmt.Sprintf("max_leases: the caller holds %d leases or waits for them, asks for %d more, and may have %d", e.Have, e.Asked, e.Most)
	}
	return fmt.Sprintf("max_waiters: %d requests of the caller wait, and %d may", e.Have, e.Most)
}

// usage is what a caller has. A caller that has nothing has none.
type usage struct{ held, wanted, waiting, bytes int }

// About what a lease and a request that waits take in memory, beside their texts, each of which is there up to three
// times: in the pools, in the batch that is committed, and in the pages of the store.
const (
	bytesOfLease  = 1 << 10
	bytesOfWaiter = 8 << 10
	timesOfText   = 3
)

// texts returns how many bytes the texts of r take in memory.
func (r *Request) texts() int {
	return timesOfText * (len(r.ID) + len(r.Owner) + len(r.Key) + len(r.Variant) + len(r.Name) + len(r.Also))
}

// bytes returns about what l takes in memory.
func (l *Lease) bytes() int {
	return bytesOfLease + timesOfText*(len(l.Name)+len(l.Owner)+len(l.Key)+len(l.Variant))
}

// checkMemory returns a [ShareError] if there is no room for so many more bytes of a caller. When the callers have all,
// each has its share of it.
func (g *ledger) checkMemory(caller string, more int) error {
	u, has := g.usage[caller]
	if caller == "" || g.usedBytes+more <= g.limitBytes {
		return nil
	}
	callers := len(g.usage)
	if !has {
		callers++
	}
	if most := g.limitBytes / callers; u.bytes+more > most {
		return &ShareError{Memory: true, Have: u.bytes, Asked: more, Most: most}
	}
	return nil
}

// use adds to what the caller of an owner has.
func (g *ledger) use(owner string, more usage) {
	caller := CallerOf(owner)
	if caller == "" {
		return
	}
	u := g.usage[caller]
	u.held += more.held
	u.wanted += more.wanted
	u.waiting += more.waiting
	u.bytes += more.bytes
	g.usedBytes += more.bytes
	if u == (usage{}) {
		delete(g.usage, caller)
		return
	}
	g.usage[caller] = u
}

// leasesWanted returns how many leases r gets, of all its pools.
func (r *request) leasesWanted() (n int) {
	for seat := range r.allSeats {
		n += seat.pool.leasesFor(seat)
	}
	return n
}

// countWanted counts the leases that r, which waits, wants. Of a request and its followers one at a time has
// leases, so a follower counts what it wants beyond its leader.
func (g *ledger) countWanted(r *request) {
	wants := r.leasesWanted()
	if r.leader != nil {
		wants = max(0, wants-r.leader.leasesWanted())
	}
	g.use(r.Owner, usage{wanted: wants - r.wants})
	r.wants = wants
}

// countedLeases returns how many leases count for r, with which a new request merges; zero if r is nil.
func (r *request) countedLeases() int {
	switch {
	case r == nil:
		return 0
	case r.queued():
		return r.wants
	}
	return len(r.leases)
}

// checkLeases returns a [ShareError] if r, a new request, asks for more leases than its caller may have.
// So many of them end when it is taken, or are those of the request that it merges with.
func (g *ledger) checkLeases(r *request, replaced int) error {
	u, asked, most := g.usage[CallerOf(r.Owner)], r.leasesWanted(), cmp.Or(r.Share.Leases, MaxCapacity)
	if r.Share.Leases == 0 && asked > most {
		return nil // it is refused, since no pool has so many
	}
	if have := u.held + u.wanted - replaced; have+asked > most {
		return &ShareError{Leases: true, Have: have, Asked: asked, Most: most}
	}
	return g.checkMemory(CallerOf(r.Owner), asked*bytesOfLease+r.texts())
}

// checkWaiters returns a [ShareError] if r, which is about to wait, is one more than its caller may have.
func (g *ledger) checkWaiters(r *request) error {
	most := cmp.Or(r.Share.Waiters, max(DefaultMaxWaiters, r.pool.MaxWaiters))
	if have := g.usage[CallerOf(r.Owner)].waiting; have >= most {
		return &ShareError{Have: have, Asked: 1, Most: most}
	}
	return g.checkMemory(CallerOf(r.Owner), bytesOfWaiter+r.texts())
}
