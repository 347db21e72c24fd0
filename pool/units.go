package pool

// unitsOf returns how many units q asks for: as many as it says, or as its items
// cost, or as the pool takes for what is unknown.
func (c Config) unitsOf(q Request) (int, error) {
	switch {
	case q.Count > 0:
		return q.Count, nil
	case q.HasItems && c.Cost == nil:
		return 0, ErrNoCost
	case q.HasItems:
		return c.Cost.Units(q.Items), nil
	case q.Weighted:
		return max(c.Unknown, 1), nil
	}
	return 1, nil
}
