package pool

import (
	"runtime/debug"
	"time"
)

// Ended is a request id that never gets a lease again.
type Ended struct {
	ID    string
	Until time.Duration // on the lease clock: when it is forgotten
	// Unconfirmed: its grant expired before a renewal confirmed it. Nobody gave the grant back
	// or cancelled it.
	Unconfirmed bool
	Unseen      bool       // it was cancelled before it came: see [MaxUnseen] and [MaxAllUnseen]
	Result      Result     // of the request that it had merged with; zero: it ended otherwise
	Removed     string     // why an operator took it off the queue; empty: no operator did
	Lease       EndedLease // the last lease that it held; zero: none
}

// remember adds e, which ends now, and forgets the oldest if there are too many: afterwards, since
// nothing may come between the end of a request and the change that its id is remembered.
func (g *ledger) remember(e Ended) {
	e.Until = later(g.now, EndedKept)
	g.ended.push(e)
	g.note(Remembered).Ended = e
	for t := g.ended.surplus(e.ID); t != nil; t = g.ended.surplus(e.ID) {
		g.forget(t)
	}
	if e.Unseen {
		for t := g.ended.surplusUnseen(e.ID); t != nil; t = g.ended.surplusUnseen(e.ID) {
			g.forget(t)
		}
	}
}

// forget forgets an id that has ended.
func (g *ledger) forget(t *tombstone) {
	g.ended.remove(t)
	g.note(Forgotten).Ended = t.Ended
}

// tombstones are the ended request ids, in the order in which they are
// forgotten, which is the order in which they ended.
type tombstones struct {
	ids         byID[tombstone]
	first, last *tombstone
	count       int
	bytes       int
	of          map[string]endedOf      // by caller, without those that were unseen
	unseen      map[string][]*tombstone // by caller, in the same order
	countUnseen int

	limit, limitUnseen, limitAllUnseen int // MaxEnded, MaxUnseen, MaxAllUnseen; tests have fewer
	limitBytes                         int // MaxEndedBytes, or less
}

// endedOf are those of one caller, in the order in which they ended.
type endedOf struct {
	first, last *tombstone
	bytes       int
}

// tombstone is one of them.
type tombstone struct {
	Ended
	older, newer *tombstone
	newerOwn     *tombstone // of the same caller
	sameID       *tombstone // of another caller
}

func newTombstones() tombstones {
	return tombstones{
		ids: newByID(
			func(t *tombstone) string { return t.ID },
			func(t *tombstone) **tombstone { return &t.sameID }),
		of: make(map[string]endedOf), unseen: make(map[string][]*tombstone),
		limit: MaxEnded, limitUnseen: MaxUnseen, limitAllUnseen: MaxAllUnseen,
		limitBytes: int(min(MaxEndedBytes, debug.SetMemoryLimit(-1)/5)),
	}
}

// surplus returns the first one if there are too many; or, if there are too many of the caller of an id, the first of these.
// Without tokens there is one caller, which may have all.
func (t *tombstones) surplus(id string) *tombstone {
	if caller := CallerOf(id); caller != "" && t.of[caller].bytes > t.limitBytes/4 {
		return t.of[caller].first
	}
	if t.count <= t.limit && t.bytes <= t.limitBytes {
		return nil
	}
	return t.first
}

// size is about how many bytes of memory t takes.
func (t *tombstone) size() int {
	return 200 + len(t.ID) + len(t.Lease.Owner) + len(t.Removed)
}

// surplusUnseen returns the first one that the caller of an id cancelled before it came, if it
// cancelled too many; or, if all callers together did, the first of the caller that has most.
func (t *tombstones) surplusUnseen(id string) *tombstone {
	own := t.unseen[CallerOf(id)]
	if len(own) > t.limitUnseen {
		return own[0]
	}
	if t.countUnseen <= t.limitAllUnseen {
		return nil
	}
	for _, other := range t.unseen {
		if len(other) > len(own) {
			own = other
		}
	}
	return own[0]
}

// due returns the first one if it must be forgotten at now.
func (t *tombstones) due(now time.Duration) *tombstone {
	if t.first == nil || t.first.Until > now {
		return nil
	}
	return t.first
}

func (t *tombstones) has(id string) bool { return t.get(id) != nil }

// get returns the entry of an id; nil if there is none.
func (t *tombstones) get(id string) *tombstone { return t.ids.get(id) }

// all returns a copy of all entries.
func (t *tombstones) all() []Ended {
	all := make([]Ended, 0, t.count)
	for e := t.first; e != nil; e = e.newer {
		all = append(all, e.Ended)
	}
	return all
}

// why returns the error of an acquire with an id that has ended.
func (t *tombstone) why() error {
	if t.Removed != "" {
		return &RemovedError{t.Removed}
	}
	if t.Result != 0 {
		return &CoalescedError{t.Result}
	}
	if t.Unconfirmed {
		return ErrUnconfirmed
	}
	return ErrEnded
}

func (t *tombstones) push(e Ended) {
	added := &tombstone{Ended: e, older: t.last}
	if t.last == nil {
		t.first = added
	} else {
		t.last.newer = added
	}
	t.last = added
	t.count++
	t.bytes += added.size()
	t.ids.add(added)
	caller := CallerOf(e.ID)
	if e.Unseen {
		t.unseen[caller] = append(t.unseen[caller], added)
		t.countUnseen++
		return
	}
	own := t.of[caller]
	if own.last == nil {
		own.first = added
	} else {
		own.last.newerOwn = added
	}
	own.last = added
	own.bytes += added.size()
	t.of[caller] = own
}

// remove takes e out, which must be the first of those of its caller that were unseen, or of the others.
func (t *tombstones) remove(e *tombstone) {
	if e.older == nil {
		t.first = e.newer
	} else {
		e.older.newer = e.newer
	}
	if e.newer == nil {
		t.last = e.older
	} else {
		e.newer.older = e.older
	}
	e.older, e.newer = nil, nil
	t.count--
	t.bytes -= e.size()
	t.ids.remove(e)
	caller := CallerOf(e.ID)
	if !e.Unseen {
		own := t.of[caller]
		if own.first == own.last {
			delete(t.of, caller)
			return
		}
		own.first, e.newerOwn = e.newerOwn, nil
		own.bytes -= e.size()
		t.of[caller] = own
		return
	}
	t.countUnseen--
	if own := t.unseen[caller]; len(own) == 1 {
		delete(t.unseen, caller)
	} else {
		own[0] = nil // let go of it
		t.unseen[caller] = own[1:]
	}
}
