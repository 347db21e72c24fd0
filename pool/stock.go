package pool

// stock is the names that a pool can grant. A listed pool has those that nobody
// holds; the one that is free longest comes first. A counted pool makes them up.
type stock struct {
	free []string // of a listed pool

	counted bool
	typ     string
	last    int // the K of the last name TYPE-K that was made up
}

// take takes out count names; there must be as many. None is made up that is used.
func (st *stock) take(count int, used func(name string) bool) []string {
	if !st.counted {
		taken := st.free[:count]
		st.free = st.free[count:]
		return taken
	}
	names := make([]string, 0, count)
	for len(names) < count {
		st.last = st.last%lastMadeUp + 1
		if name := madeUp(st.typ, st.last); !used(name) {
			names = append(names, name)
		}
	}
	return names
}

// put puts a name back. One that was made up is not made again for a while.
func (st *stock) put(name string) {
	if !st.counted {
		st.free = append(st.free, name)
	}
}
