package pool

// maxRecalled is how many names that are in no pool are recalled after their leases
// ended: a holder that was cut off hears why its lease is lost, and 10,000 of them
// take 2 MB.
const maxRecalled = 10_000

// recalled is the names that are in no pool, in the order in which their leases
// ended: those of counted pools, and those that were taken out of the configuration.
type recalled struct {
	names []string
	limit int
}

// push adds name, and returns one that is to be forgotten, or "".
func (r *recalled) push(name string) (forgotten string) {
	r.names = append(r.names, name)
	if len(r.names) > r.limit {
		forgotten, r.names = r.names[0], r.names[1:]
	}
	return forgotten
}
