package pool

import (
	"slices"
	"time"

	"github.com/leasectl/leasectl/leaseapi"
)

// Held returns the lease of name; false if nobody holds it.
func (s *Set) Held(now time.Duration, name string) (Lease, bool) {
	s.Advance(now)
	sl := s.slots[name]
	if sl == nil || sl.lease == nil {
		return Lease{}, false
	}
	return sl.lease.Lease, true
}

// Lost returns why the lease that ref means is not held; false if it is.
func (s *Set) Lost(now time.Duration, ref Ref) (Reason, bool) {
	s.Advance(now)
	l, why := s.meant(ref)
	return why, l == nil
}

// meant returns the lease that ref means; nil, and why, if it is not held.
func (g *ledger) meant(ref Ref) (*lease, Reason) {
	sl := g.slots[ref.Name]
	if sl == nil {
		return nil, Unknown
	}
	if sl.lease == nil || !ref.matches(&sl.lease.Lease) {
		return nil, sl.lost(ref)
	}
	return sl.lease, ""
}

// lost says why the lease that ref means is not held.
func (sl *slot) lost(ref Ref) Reason {
	switch {
	case ref.Hidden:
		return Unknown
	case sl.lease != nil:
		if ref.KnownAt = (time.Time{}); ref.matches(&sl.lease.Lease) {
			return Later
		}
		return Other
	case ref.Generation == 0 || ref.Generation == sl.lastGeneration:
		if sl.lastReason == "" {
			return Unknown
		}
		return sl.lastReason
	case ref.Generation < sl.lastGeneration:
		return Other // it ended before the last one began
	}
	return Unknown // it ended before a restart: its end is not known
}

// Unrenewed returns the leases that have at most 1/parts of their TTL left and belong to clients
// of version 1, which cannot renew. Such a client may still work, and would lose its lease.
// Broken leases and those with a pending release are left out.
func (s *Set) Unrenewed(now, parts time.Duration) []Lease {
	s.Advance(now)
	var ending []*lease
	for _, p := range s.pools {
		for _, l := range p.held.items {
			if l.OfVersion1() && l.ReleaseAt == 0 && l.Broken == "" && l.Expires-s.now <= l.TTL/parts {
				ending = append(ending, l)
			}
		}
	}
	slices.SortFunc(ending, compareGrants)
	return valuesOf(ending)
}

// Place is where a request waits.
type Place struct {
	Place, Length int // 1 is next, 0: it joined a run under way; waiters of the pool, this one included
	Waited        time.Duration
	Follows       string // the id of the request that it has joined, and whose place this is; empty: none
}

// Place returns where a request waits; false if it does not. Unlike [Set.Status] it
// does not say why, or for how long.
func (s *Set) Place(now time.Duration, id string) (Place, bool) {
	s.Advance(now)
	r := s.requests.get(id)
	if r == nil || !r.queued() {
		return Place{}, false
	}
	at := Place{Length: len(r.pool.queue), Waited: s.now - r.arrived}
	lead := r.lead()
	if lead != r {
		at.Follows = lead.ID
	}
	if lead.queued() {
		at.Place = r.pool.queue.index(lead) + 1
	}
	return at, true
}

// Request returns a request that waits or holds leases, and when it arrived; false if there is
// no such request, or it has ended. After a restart the arrival of a request with leases is zero.
func (s *Set) Request(now time.Duration, id string) (r Request, arrived time.Duration, ok bool) {
	s.Advance(now)
	if req := s.requests.get(id); req != nil {
		return req.Request, req.arrived, true
	}
	return Request{}, 0, false
}

// PoolOf returns the type of the pool that lists a name or makes it up, or else of its lease, lock delay
// or reservation; false if there is none of these.
func (s *Set) PoolOf(name string) (typ string, ok bool) {
	switch sl := s.slots[name]; {
	case sl != nil && sl.pool != nil:
		return sl.pool.Type, true
	case sl != nil && sl.lease != nil:
		return sl.lease.Type, true
	case sl != nil && sl.lock != nil:
		return sl.lock.Type, true
	case sl != nil && sl.reserved != nil:
		return sl.reserved.Type, true
	case s.wasMadeUp(name):
		return MadeUpFor(name), true
	}
	return "", false
}

// Names returns the first names that the pool of a type lists, no more than most, and how many there
// are.
func (s *Set) Names(typ string, most int) (first []string, all int) {
	p := s.types[typ]
	if p == nil {
		return nil, 0
	}
	return slices.Clone(p.Config.Names[:min(most, len(p.Config.Names))]), len(p.Config.Names)
}

// NameStatus is a name that a pool lists, for people.
type NameStatus struct {
	Name  string
	State string        // as [leaseapi.Name] has it
	Until time.Duration // with a lock delay: when it is over; else zero
}

// NameStatuses returns the first names that the pool of a type lists, no more than most, with their states.
func (s *Set) NameStatuses(now time.Duration, typ string, most int) []NameStatus {
	s.Advance(now)
	p := s.types[typ]
	if p == nil {
		return nil
	}
	all := make([]NameStatus, min(most, len(p.Names)))
	for i := range all {
		all[i] = s.slots[p.Names[i]].status()
	}
	return all
}

// status returns the state of the name, as far as it keeps others out now.
func (sl *slot) status() NameStatus {
	st := NameStatus{Name: sl.name}
	switch {
	case sl.lease != nil:
		st.State = leaseapi.NameIsHeld
	case sl.lock != nil:
		st.State, st.Until = leaseapi.NameIsLocked, sl.lock.Until
	case sl.reserved != nil:
		st.State = leaseapi.NameIsReserved
	default:
		st.State = leaseapi.NameIsFree
	}
	return st
}

// Counted reports whether the pool of a type makes up a name for each lease.
func (s *Set) Counted(typ string) bool {
	p := s.types[typ]
	return p != nil && p.counted()
}

// Unit returns what a unit of the pool of a type is, for people; empty if the pool does not
// say.
func (s *Set) Unit(typ string) string {
	if p := s.types[typ]; p != nil {
		return p.Unit
	}
	return ""
}

// Extent returns the capacity of the pool of a type, and the greatest size of its names;
// zeros if there is no such pool.
func (s *Set) Extent(typ string, size func(name string) int) (capacity, greatest int) {
	p := s.types[typ]
	if p == nil {
		return 0, 0
	}
	if p.counted() {
		return p.Capacity(), size(madeUp(typ, lastMadeUp))
	}
	for _, name := range p.Names {
		greatest = max(greatest, size(name))
	}
	return p.Capacity(), greatest
}
