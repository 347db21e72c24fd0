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

// calls counts those under way by caller, beside those that wait with its share of [acquires]. So one
// caller whose calls take long, or whose clients leave before they are answered, leaves connections for others.
type calls struct {
	mu  sync.Mutex
	all int            // those that wait, too
	of  map[string]int // by the id of the caller, without those that wait
}

// begin counts a call, and reports whether it may go on. It may not if all calls have seven eighths of most
// connections, and those of its caller that do not wait have more than its share of an eighth.
func (c *calls) begin(caller string, most int) (mayGoOn bool) {
	if caller == "" {
		return true
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.of == nil {
		c.of = make(map[string]int)
	}
	callers := len(c.of)
	if c.of[caller] == 0 {
		callers++
	}
	if c.all >= most-most/8 && c.of[caller] >= max(1, most/8/callers) {
		return false
	}
	c.all++
	c.of[caller]++
	return true
}

// wait counts a call among those that wait, until [calls.wake].
func (c *calls) wait(caller string) { c.add(caller, -1) }

func (c *calls) wake(caller string) { c.add(caller, 1) }

// end is the counterpart of begin.
func (c *calls) end(caller string) {
	if caller == "" {
		return
	}
	c.mu.Lock()
	c.all--
	c.mu.Unlock()
	c.add(caller, -1)
}

func (c *calls) add(caller string, n int) {
	if caller == "" {
		return
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.of[caller] += n; c.of[caller] == 0 {
		delete(c.of, caller)
	}
}
