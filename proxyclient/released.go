package proxyclient

import (
	"slices"
	"sync"

	"github.com/leasectl/leasectl/leaseapi"
)

// releasedNames remembers the bare names whose release may have reached the
// proxy. If a version-1 proxy then says that such a name is free, this client
// was the one who freed it.
type releasedNames struct {
	mu    sync.Mutex
	names map[string]bool
}

// mark notes that names may have been released.
func (r *releasedNames) mark(names []string) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.names == nil {
		r.names = make(map[string]bool)
	}
	for _, n := range names {
		r.names[n] = true
	}
}

// marked returns those of names that may have been released.
func (r *releasedNames) marked(names []string) []string {
	r.mu.Lock()
	defer r.mu.Unlock()
	return slices.DeleteFunc(slices.Clone(names), func(n string) bool { return !r.names[n] })
}

// forget drops the notes on leases that were granted anew.
func (r *releasedNames) forget(leases []leaseapi.Lease) {
	r.mu.Lock()
	defer r.mu.Unlock()
	for _, l := range leases {
		delete(r.names, l.Name)
	}
}
