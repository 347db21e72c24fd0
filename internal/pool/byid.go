package pool

import (
	"iter"
	"slices"
	"strconv"
	"strings"
	"time"
)

// BindID returns the id that a request has in the pools, if a caller with that id calls it id: ids
// belong to their callers, and another caller's request of the same id is another request. Without a
// caller it is the id itself.
func BindID(caller, id string) string { return BindOwner(caller, id) }

// PlainID returns a bound id as its caller calls it. That of an anonymous request stays as it is.
func PlainID(id string) string {
	if i := strings.Index(id, ownerSeparator); i > 0 {
		return id[i+len(ownerSeparator):]
	}
	return id
}

// byID finds things by request id. Those of several callers may have the same plain id: they are in a
// list, so that all of them are found, too.
type byID[T any] struct {
	first map[string]*T // by plain id
	id    func(*T) string
	next  func(*T) **T // the next one with the same plain id
}

func newByID[T any](id func(*T) string, next func(*T) **T) byID[T] {
	return byID[T]{make(map[string]*T), id, next}
}

// get returns the one with an id; nil if there is none.
func (m *byID[T]) get(id string) *T {
	x := m.first[PlainID(id)]
	for x != nil && m.id(x) != id {
		x = *m.next(x)
	}
	return x
}

// add adds x, whose id must be new.
func (m *byID[T]) add(x *T) {
	plain := PlainID(m.id(x))
	*m.next(x) = m.first[plain]
	m.first[plain] = x
}

// remove removes x, which must be there.
func (m *byID[T]) remove(x *T) {
	plain := PlainID(m.id(x))
	first := m.first[plain]
	at := &first
	for *at != x {
		at = m.next(*at)
	}
	*at = *m.next(x)
	*m.next(x) = nil
	if first == nil {
		delete(m.first, plain)
	} else {
		m.first[plain] = first
	}
}

// called yields those with a plain id.
func (m *byID[T]) called(plain string) iter.Seq[*T] {
	return func(yield func(*T) bool) {
		for x := m.first[plain]; x != nil && yield(x); {
			x = *m.next(x)
		}
	}
}

// all yields all of them, in no order.
func (m *byID[T]) all(yield func(*T) bool) {
	for _, x := range m.first {
		for ; x != nil; x = *m.next(x) {
			if !yield(x) {
				return
			}
		}
	}
}

// Called is one of the requests that their callers call by the same id.
type Called struct {
	ID    string   // bound to its caller: see [BindID]
	Owner string   // empty if it has ended without a lease
	Types []string // that it asks for; nil if it has ended without a lease
	Ended bool
}

// Known reports whether a request with a bound id waits, holds leases, or has ended and is remembered.
func (s *Set) Known(now time.Duration, id string) bool {
	s.Advance(now)
	return s.requests.get(id) != nil || s.ended.has(id)
}

// Called returns the requests of all callers with an id as these know it, in the order of their bound
// ids: first those that wait or hold leases, then those that have ended and are remembered.
func (s *Set) Called(now time.Duration, plain string) (all []Called) {
	s.Advance(now)
	for r := range s.requests.called(plain) {
		if !r.Anonymous {
			all = append(all, Called{ID: r.ID, Owner: r.Owner, Types: r.Types()})
		}
	}
	byID := func(a, b Called) int { return strings.Compare(a.ID, b.ID) }
	slices.SortFunc(all, byID)
	live := len(all)
	for t := range s.ended.ids.called(plain) {
		of := Called{ID: t.ID, Owner: t.Lease.Owner, Ended: true}
		if t.Lease.Type != "" {
			of.Types = []string{t.Lease.Type}
		}
		all = append(all, of)
	}
	slices.SortFunc(all[live:], byID)
	return all
}

// One returns the request that people mean by an id which all of called have: that of a caller with
// this name or id, or of any caller if it is empty. Of several, it is the only one that has not ended.
// It returns [ErrUnknownRequest] if there is none, or an error that names the callers if there are
// several.
func One(called []Called, caller string) (Called, error) {
	var of []Called
	for _, c := range called {
		id := CallerOf(c.ID)
		if name, _, _ := strings.Cut(id, issuerSeparator); caller == "" || caller == id || caller == name {
			of = append(of, c)
		}
	}
	if live := slices.IndexFunc(of, func(c Called) bool { return c.Ended }); live > 0 {
		of = of[:live]
	}
	switch len(of) {
	case 0:
		return Called{}, ErrUnknownRequest
	case 1:
		return of[0], nil
	}
	var names []string
	for _, c := range of {
		name, _, _ := strings.Cut(CallerOf(c.ID), issuerSeparator)
		names = append(names, strconv.Quote(name))
	}
	return Called{}, &SeveralError{strings.Join(slices.Compact(names), ", ")}
}

// SeveralError says which callers have a request of the same id.
type SeveralError struct{ Callers string }

func (e *SeveralError) Error() string {
	return "several callers have a request with this id: say of which one, with caller: " + e.Callers
}
