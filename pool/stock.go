package pool

// stock is the names of a pool that nobody holds. The name that is free longest
// comes first.
type stock struct{ free []string }

// take takes out the first count names; there must be as many.
func (st *stock) take(count int) []string {
	taken := st.free[:count]
	st.free = st.free[count:]
	return taken
}

// put puts a name back.
func (st *stock) put(name string) { st.free = append(st.free, name) }
