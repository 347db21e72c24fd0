package proxyclient

import (
	"sync"

	"github.com/leasectl/leasectl/leaseapi"
)

// releasedNames remembers what came of the releases of bare names, by which a
// version-1 proxy's word that it does not know a name is judged.
type releasedNames struct {
	mu    sync.Mutex
	names map[string]releaseState
}

// releaseState is what came of a name's releases by this client.
type releaseState int

const (
	untouched releaseState = iota
	attempted              // a release may have reached the proxy, and did not succeed
	released               // the proxy said that it released it
)

// set notes what came of a release of names. Once a name is released it is, until
// it is granted anew.
func (r *releasedNames) set(names []string, s releaseState) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.names == nil {
		r.names = make(map[string]releaseState)
	}
	for _, n := range names {
		r.names[n] = max(r.names[n], s)
	}
}

// of returns what is known of name.
func (r *releasedNames) of(name string) releaseState {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.names[name]
}

// forget drops the notes on leases that were granted anew.
func (r *releasedNames) forget(leases []leaseapi.Lease) {
	r.mu.Lock()
	defer r.mu.Unlock()
	for _, l := range leases {
		delete(r.names, l.Name)
	}
}
