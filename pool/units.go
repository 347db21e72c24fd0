package pool

// unitsOf returns how many units q asks for: as many as it says, or as its items
// cost, or as the pool takes for what is unknown.
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

// saysCount reports whether q says how many units it wants. A request that knows of
// no units always says a count, so its 1 says nothing.
func (q Request) saysCount() bool { return q.Count > 1 || q.Count == 1 && q.Weighted }
