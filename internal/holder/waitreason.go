package holder

import (
	"cmp"
	"context"
	"strconv"
	"strings"
	"time"

	"github.com/leasectl/leasectl/internal/holder/dial"
	"github.com/leasectl/leasectl/leaseapi"
	"github.com/leasectl/leasectl/lockfile"
)

// markOwn says in the reason of a wait that the request waits for its own owner's key or name, or
// for a lease of the exec around this process. Such a wait may never end.
func (l *Lease) markOwn(q leaseapi.Queued) leaseapi.Queued {
	name := l.record.Name
	switch {
	case name != "" && l.record.Owner != "" && q.Reason == leaseapi.NameHeld(name, leaseapi.Printable(l.record.Owner)):
		q.Reason = leaseapi.NameHeld(name, "yourself")
	case name != "" && strings.HasPrefix(q.Reason, leaseapi.NameHeld(name, "")):
	case l.record.Owner != "" && q.Reason == leaseapi.WaitKey+leaseapi.HeldBy+leaseapi.Printable(l.record.Owner):
		q.Reason = leaseapi.WaitKey + leaseapi.HeldBy + "yourself"
	default:
		typ, why, elsewhere := leaseapi.WaitedFor(q.Reason)
		if !elsewhere {
			typ, why = l.record.Type, q.Reason
		}
		if why == leaseapi.WaitFull || strings.HasPrefix(why, leaseapi.WaitWants+" ") || elsewhere && why == "" {
			q.Reason += l.heldAround(typ)
		}
	}
	return q
}

// heldAround names the leases of a type that the exec around this process holds, to be appended to
// a reason; "" is none.
func (l *Lease) heldAround(typ string) string {
	names := l.namesAround(typ)
	if len(names) == 0 {
		return ""
	}
	return ", " + leaseapi.Clip(strings.Join(names, ", "), leaseapi.MaxName) + leaseapi.HeldBy + "the exec around this one"
}

func (l *Lease) namesAround(typ string) []string {
	handle, err := lockfile.OpenHandle(l.around)
	if err != nil {
		return nil // there is no such exec
	}
	r, err := handle.Read()
	if err != nil || r.State != lockfile.HandleHeld || !dial.Same(r.Proxy, l.record.Proxy) {
		return nil
	}
	var names []string
	for _, lease := range r.Leases {
		if cmp.Or(lease.Type, r.Type) == typ {
			names = append(names, lease.Name)
		}
	}
	return names
}

// lookBackTime bounds the query for the holders of the leases, after a wait that got none.
const lookBackTime = time.Second

// lastQueue returns how the queue stood at the end of a wait: as the proxy said last, else as
// its pools show now. Nil: the proxy does not say.
func (l *Lease) lastQueue(ctx context.Context, wait *Wait, r Request) *leaseapi.Queued {
	if q, at := wait.Queued(); q.Capacity > 0 {
		if q.Oldest != nil {
			oldest := *q.Oldest
			oldest.Age += leaseapi.Duration(time.Since(at))
			q.Oldest = &oldest
		}
		return &q
	}
	ctx, cancel := context.WithTimeout(ctx, lookBackTime)
	defer cancel()
	pools, err := l.proxy.Pools(ctx)
	if err != nil {
		return nil // as from a version-1 proxy
	}
	q := queueOfAll(pools, r.Ask)
	if q != nil {
		*q = l.markOwn(*q)
	}
	return q
}

// queueOfAll is queueOf for the pool of r.Type, and says for which of its other pools r waited, and why,
// if that one had room. Nil: there is no such pool.
func queueOfAll(pools []leaseapi.Pool, r leaseapi.Ask) *leaseapi.Queued {
	queue := func(r leaseapi.Ask) *leaseapi.Queued {
		for _, p := range pools {
			if p.Type == r.Type {
				return queueOf(p, r)
			}
		}
		return nil
	}
	q := queue(r)
	if q == nil || q.Reason != "" {
		return q
	}
	for _, also := range r.Also {
		if other := queue(leaseapi.Ask{Type: also.Type, Count: also.Count}); other != nil && other.Reason != "" {
			q.Reason = leaseapi.WaitsFor(also.Type, other.Reason)
			break
		}
	}
	return q
}

// queueOf describes the queue of pool p for request r, which waited in it until now.
func queueOf(p leaseapi.Pool, r leaseapi.Ask) *leaseapi.Queued {
	q := &leaseapi.Queued{Place: p.Waiting + 1, Length: p.Waiting + 1, InUse: p.InUse, Capacity: p.Capacity, Limit: p.Limit}
	var held string // the reason, if somebody has the key or name that r wants
	for _, lease := range p.Leases {
		if q.Oldest == nil || lease.Age > q.Oldest.Age {
			q.Oldest = &lease
		}
		if r.Key != "" && lease.Key == r.Key && held == "" && (r.KeyMode != leaseapi.KeyRead || lease.KeyMode != r.KeyMode) {
			held = leaseapi.WaitKey + leaseapi.HeldBy + holderOf(&lease)
		}
		if r.Name != "" && lease.Name == r.Name {
			held = leaseapi.NameHeld(r.Name, holderOf(&lease))
		}
	}
	for _, reserved := range p.Reservations {
		if r.Name != "" && reserved.Name == r.Name {
			held = leaseapi.NameReserved(r.Name, cmp.Or(reserved.Owner, reserved.Token), reserved.Reason)
		}
	}
	limit := cmp.Or(p.Limit, p.Capacity)
	if r.Overcommit {
		limit += p.Overcommit
	}
	switch { // in the order in which the server picks the reason for a waiter
	case p.Paused != "" && !r.Overcommit:
		q.Reason = leaseapi.WaitPaused + ": " + p.Paused
	case held != "":
		q.Reason = held
	case p.Reserved > 0 && r.Count > p.Capacity-p.Reserved:
		q.Reason = leaseapi.WantsMore(r.Count, p.Reserved, p.Capacity)
	case p.InUse >= limit:
		q.Reason = leaseapi.WaitFull
	case p.Waiting == 0 && !r.HasItems && r.Count > limit-p.InUse:
		q.Reason = leaseapi.WaitWants + " " + strconv.Itoa(r.Count)
	case p.NextGrantIn > 0 && !r.Overcommit:
		q.Reason = leaseapi.WaitPaced
	case p.Waiting > 0:
		q.Reason = leaseapi.WaitBehind
	}
	return q
}
