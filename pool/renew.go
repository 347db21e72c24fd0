package pool

import "time"

// Renew makes the lease that ref means end ttl from now, and keeps ttl for later renewals
// without one; a zero ttl keeps the present TTL. The pool's maximum bounds it. The first
// renewal makes a grant firm. A lease with a pending release can be renewed, but still ends at
// its release. A broken lease cannot be renewed, although it may still be held for a while.
//
// The Reason is empty, or says why the lease is no longer the caller's.
func (s *Set) Renew(now time.Duration, ref Ref, ttl time.Duration) (Lease, Reason) {
	s.Advance(now)
	l, why := s.meant(ref)
	if l == nil {
		return Lease{}, why
	}
	if l.Broken != "" {
		return Lease{}, brokenFor(l.Broken)
	}
	if ttl <= 0 {
		ttl = l.TTL
	}
	ttl = l.pool.ttl(ttl)
	durable := l.Provisional || ttl != l.TTL
	l.Provisional, l.TTL = false, ttl
	s.renew(l, l.TTL, durable)
	return l.Lease, ""
}
