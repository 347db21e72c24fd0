package proxyserver

import "sync"

// acquires counts those under way, most of which wait, by caller. So one caller whose jobs wait leaves
// connections for others.
type acquires struct {
	mu  sync.Mutex
	all int
	of  map[string]int // by the id of the caller
}

// begin counts an acquire, and reports whether it may keep its connection while it waits. It may not if
// connections are short, of which there are most, and its caller has more than its share. They are short
// if acquires have three quarters, which are shared evenly among the callers that have any. Without
// tokens there is one caller, which shares with nobody.
func (a *acquires) begin(caller string, most int) (mayWait bool) {
	if caller == "" {
		return true
	}
	a.mu.Lock()
	defer a.mu.Unlock()
	if a.of == nil {
		a.of = make(map[string]int)
	}
	a.all++
	a.of[caller]++
	forAcquires := max(1, 3*most/4)
	return a.all <= forAcquires || a.of[caller] <= max(1, forAcquires/len(a.of))
}

// end is the counterpart of begin.
func (a *acquires) end(caller string) {
	if caller == "" {
		return
	}
	a.mu.Lock()
	defer a.mu.Unlock()
	a.all--
	if a.of[caller]--; a.of[caller] == 0 {
		delete(a.of, caller)
	}
}
