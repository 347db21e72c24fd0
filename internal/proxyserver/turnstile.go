package proxyserver

import (
	"sync"

	"github.com/leasectl/leasectl/internal/pool"
)

// fewLeases is how many leases a call may pass over without a turn. They take some ten microseconds.
const fewLeases = 100

// isDear reports whether a request that takes the place of some leases passes over many, with those that it wants.
func (q *acquireRequest) isDear(set *pool.Set, replaced int) bool {
	if replaced > fewLeases || q.Count > fewLeases && !(q.Weighted && set.Counted(q.Type)) {
		return true
	}
	for _, also := range q.Others() {
		if also.Count > fewLeases && !set.Counted(also.Type) {
			return true
		}
	}
	return false
}

// turnstile lets one dear call at a time go on. The callers that have any take turns, so that others wait for one such
// call, however many a caller makes. One stands before the lock of the pools, for calls that pass over many leases, another
// before the decoding of large bodies.
type turnstile struct {
	mu      sync.Mutex
	taken   bool
	waiting map[string][]chan struct{} // by the id of the caller; the first of each is its next
	next    []string                   // the callers in waiting, in the order of their turns
}

// take blocks until a call of a caller has its turn, and returns the way to end it.
func (t *turnstile) take(caller string) (end func()) {
	t.mu.Lock()
	if !t.taken {
		t.taken = true
		t.mu.Unlock()
		return t.end
	}
	turn := make(chan struct{})
	if t.waiting == nil {
		t.waiting = make(map[string][]chan struct{})
	}
	if t.waiting[caller] == nil {
		t.next = append(t.next, caller)
	}
	t.waiting[caller] = append(t.waiting[caller], turn)
	t.mu.Unlock()
	<-turn
	return t.end
}

func (t *turnstile) end() {
	t.mu.Lock()
	defer t.mu.Unlock()
	if len(t.next) == 0 {
		t.taken = false
		return
	}
	caller := t.next[0]
	t.next = t.next[1:]
	calls := t.waiting[caller]
	close(calls[0])
	if len(calls) == 1 {
		delete(t.waiting, caller)
		return
	}
	t.waiting[caller] = calls[1:]
	t.next = append(t.next, caller)
}
