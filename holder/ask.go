package holder

import (
	"cmp"
	"context"
	"errors"
	"strconv"
	"strings"
	"time"

	"github.com/leasectl/leasectl/holder/failpoint"
	v1 "github.com/leasectl/leasectl/holder/v1"
	"github.com/leasectl/leasectl/leaseapi"
	"github.com/leasectl/leasectl/lockfile"
	"github.com/leasectl/leasectl/proxyclient"
)

// ask sends the request, and reports the wait to the user.
func (l *Lease) ask(ctx context.Context, r Request) (*v1.Grant, error) {
	wait := &Wait{Type: r.Type, Begun: time.Now()}
	defer l.h.report.Waiting(wait)()
	defer proxyclient.After(ctx, askForPlaceAfter, func(ctx context.Context) { l.askForPlace(ctx, wait) })()
	l.h.report.Debugf("asking %s for a lease of type %q for %s, request %s", proxyclient.Redacted(l.record.Proxy), r.Type, l.record.Owner, l.record.RequestID)
	failpoint.Here("acquire-unsent")
	grant, err := l.proxy.Acquire(ctx, proxyclient.Request{
		Type:       r.Type,
		Count:      r.Count,
		Items:      r.Items,
		Key:        r.Key,
		KeyMode:    r.KeyMode,
		Also:       r.Also,
		Name:       r.Name,
		Overcommit: r.Overcommit,
		Priority:   r.Priority,
		Coalesce:   r.Coalesce,
		Variant:    r.Variant,
		Owner:      l.record.Owner,
		RequestID:  l.record.RequestID,
		TTL:        r.TTL,
		Wait:       r.WaitTimeout,
		Tried:      r.tried,
		Replaces:   wireLeases(l.record.Replaces),
		OnTaken:    func() { l.taken = true },
		OnQueued:   func(q leaseapi.Queued) { wait.SetQueued(l.markOwn(q)) },
		OnTrouble:  wait.SetTrouble,
		OnRetry: func(err error) {
			if leaseapi.SaysExhausted(err.Error()) {
				wait.SetQueued(leaseapi.Queued{Reason: leaseapi.WaitFull})
			}
			l.h.report.Debugf("%v: trying again", err)
		},
	}, l.handle.Path())
	if exhausted, ok := errors.AsType[*proxyclient.ExhaustedError](err); ok {
		if exhausted.Last == nil {
			exhausted.Last = l.lastQueue(ctx, wait, r)
		} else {
			*exhausted.Last = l.markOwn(*exhausted.Last)
		}
	}
	return grant, err
}

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
	if err != nil || r.State != lockfile.StateHeld || !sameProxy(r.Proxy, l.record.Proxy) {
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
	q := queueOfAll(pools, r)
	if q != nil {
		*q = l.markOwn(*q)
	}
	return q
}

// queueOfAll is queueOf for the pool of r.Type, and says for which of its other pools r waited, and why,
// if that one had room. Nil: there is no such pool.
func queueOfAll(pools []leaseapi.Pool, r Request) *leaseapi.Queued {
	queue := func(r Request) *leaseapi.Queued {
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
		if other := queue(Request{Type: also.Type, Count: also.Count}); other != nil && other.Reason != "" {
			q.Reason = leaseapi.WaitsFor(also.Type, other.Reason)
			break
		}
	}
	return q
}

// queueOf describes the queue of pool p for request r, which waited in it until now.
func queueOf(p leaseapi.Pool, r Request) *leaseapi.Queued {
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
	case p.Waiting == 0 && r.Items == nil && r.Count > limit-p.InUse:
		q.Reason = leaseapi.WaitWants + " " + strconv.Itoa(r.Count)
	case p.NextGrantIn > 0 && !r.Overcommit:
		q.Reason = leaseapi.WaitPaced
	case p.Waiting > 0:
		q.Reason = leaseapi.WaitBehind
	}
	return q
}

// askForPlaceAfter is how long a request waits before it asks for its place: most waits are
// shorter. It is also the pause between two such questions.
const askForPlaceAfter = 2 * time.Second

// askForPlace asks for the place in the queue, since the proxy by itself tells it only after
// the first slice of the wait. It asks again while the proxy fails: an answer shows that the
// proxy is back, a slice earlier than the acquire does.
func (l *Lease) askForPlace(ctx context.Context, wait *Wait) {
	for ; ctx.Err() == nil; proxyclient.Sleep(ctx, askForPlaceAfter) {
		if _, at := wait.Queued(); !at.IsZero() && wait.Trouble().Err == nil {
			continue
		}
		asking, cancel := context.WithTimeout(ctx, askForPlaceAfter)
		state, err := l.proxy.RequestState(asking, l.record.RequestID)
		cancel()
		switch {
		case errors.Is(err, proxyclient.ErrUnreachable), errors.Is(err, context.DeadlineExceeded), errors.Is(err, proxyclient.ErrUnknownRequest):
		case err != nil:
			return // as from a version-1 proxy
		case state.State == leaseapi.StateQueued, state.State == leaseapi.StateJoined:
			wait.SetQueued(l.markOwn(state.Queued()))
		}
	}
}
