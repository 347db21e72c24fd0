package pool

// unitsOf returns how many units q asks for: its count, or the cost of its items, or else the
// Unknown of the pool. It fails with [ErrNoCost].
func (c Config) unitsOf(q Request) (int, error) {
	switch {
	case q.saysCount():
		return q.Count, nil
	case q.HasItems && c.Cost == nil:
		return 0, ErrNoCost
	case q.HasItems:
		return c.Cost.Units(q.Items), nil
	}
	return max(c.Unknown, 1), nil
}

// saysCount reports whether q says how many units it wants. A request that is not Weighted
// always has a count, so its 1 says nothing.
func (q Request) saysCount() bool { return q.Count > 1 || q.Count == 1 && q.Weighted }
