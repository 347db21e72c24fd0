package pool

import "sort"

// mergesWith reports whether r, a new request, merges with other, which waits or runs.
func (r *request) mergesWith(other *request) bool {
	switch {
	case CallerOf(r.Owner) != CallerOf(other.Owner) || r.Overcommit != other.Overcommit || other.Anonymous:
		return false
	case r.Coalesce == Latest || other.Coalesce == Latest:
		return r.Coalesce == other.Coalesce
	}
	return other.Coalesce != 0 && r.Variant == other.Variant
}

// mergedInto returns the request that r, a new request, joins or supersedes; nil: none. It is
// the last waiter of its key, or, for Once, the run under way.
func (p *pool) mergedInto(r *request) *request {
	k := p.keys[r.Key]
	if k == nil || r.Coalesce == 0 || r.Anonymous {
		return nil
	}
	other := k.last(r.Overcommit)
	if other == nil && r.Coalesce == Once {
		other = k.run()
	}
	if other == nil || !r.mergesWith(other) {
		return nil
	}
	return other
}

// last returns the last waiter of k, among those with Overcommit or among all; nil if there is none.
func (k *key) last(overcommit bool) *request {
	n := len(k.queue)
	if overcommit {
		n = sort.Search(n, func(i int) bool { return !k.queue[i].Overcommit })
	}
	if n == 0 {
		return nil
	}
	return k.queue[n-1]
}

// run returns the request that holds k, if its result may be passed on; else nil.
func (k *key) run() *request {
	if k.lease == nil || k.lease.request == nil || k.lease.request.lost {
		return nil
	}
	for _, l := range k.lease.request.leases {
		if l.Broken != "" || l.ReleaseAt > 0 {
			return nil
		}
	}
	return k.lease.request
}
