package pool

// maxRecalled is how many names in no pool are remembered while nobody holds them, so that a
// holder that was cut off hears why its lease is lost. 10,000 names take 2 MB.
const maxRecalled = 10_000

// recalled holds the names in no pool, in the order in which their leases ended, or in which
// they were removed: those of counted pools, and those that are no longer configured.
type recalled struct {
	names []string
	limit int
}

// push adds name. If there are too many, it returns the oldest, for the caller to forget; else "".
func (r *recalled) push(name string) (forgotten string) {
	r.names = append(r.names, name)
	if len(r.names) > r.limit {
		forgotten, r.names = r.names[0], r.names[1:]
	}
	return forgotten
}
