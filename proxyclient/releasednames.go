package proxyclient

import "sync"

// releasedNames remembers the results of releases of bare names. They decide what it
// means that a version-1 proxy does not know a name.
type releasedNames struct {
	mu    sync.Mutex
	names map[string]releaseState
}

// releaseState is the best result of this client's releases of a name.
type releaseState int

const (
	untouched releaseState = iota
	attempted              // a release may have reached the proxy without success
	released               // the proxy said that it released the name
)

// set notes the result of a release of names. A released name stays released until
// forget, when it is granted anew.
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

// of returns the state of name.
func (r *releasedNames) of(name string) releaseState {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.names[name]
}

// forget drops the notes on names that were granted anew.
func (r *releasedNames) forget(names []string) {
	r.mu.Lock()
	defer r.mu.Unlock()
	for _, n := range names {
		delete(r.names, n)
	}
}
