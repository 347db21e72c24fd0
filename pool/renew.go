package pool

import "time"

// Renew makes the lease that ref means end ttl from now, and every later
// renewal without a ttl likewise; zero keeps the one it has. The pool's maximum
// bounds it. The first renewal makes a grant firm. A lease with a pending
// release is the caller's still, but ends when it ends. One that was broken is
// not, although it may be held a while yet.
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
