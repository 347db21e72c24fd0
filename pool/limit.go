package pool

// limit says how many units of a pool may be in use. It is the capacity.
type limit struct{ capacity int }

// now returns the limit as it is now.
func (l limit) now() int { return l.capacity }
