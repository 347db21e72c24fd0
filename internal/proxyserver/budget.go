package proxyserver

import (
	"context"
	"slices"
	"sync"
)

const (
	// mostMemory is how many bytes a [budget] has. What is decoded from a body, and its answer, take up
	// to ten times its size.
	mostMemory = 16 << 20
	// mostOfOne is how many of these are one caller's, so that nobody keeps out the others.
	mostOfOne = mostMemory / 4
)

// budget counts the bytes of what is large in the calls under way: their bodies, as far as these announce
// them, or their answers.
type budget struct {
	mu      sync.Mutex
	all     int64
	of      map[string]int64 // by the id of the caller
	waiting []*budgetWait    // those that came first are first
}

// budgetWait is a call that waits for room.
type budgetWait struct {
	caller string
	n      int64
	has    chan struct{} // closed when it has room
}

// take reports whether n more bytes of a caller have room, and counts them then.
func (b *budget) take(caller string, n int64) bool {
	if n == 0 {
		return true
	}
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.tryTake(caller, n)
}

// tryTake is take for who holds b.mu. A caller that has nothing gets room even if the others have all of it,
// until they have twice as much: or four of them could keep out all the others. Without tokens there is one
// caller, which may have all.
func (b *budget) tryTake(caller string, n int64) bool {
	most, all := int64(mostOfOne), int64(mostMemory)
	switch {
	case caller == "":
		most = mostMemory
	case b.of[caller] == 0:
		all *= 2
	}
	if b.all+n > all || b.of[caller]+n > most {
		return false
	}
	if b.of == nil {
		b.of = make(map[string]int64)
	}
	b.all += n
	b.of[caller] += n
	return true
}

// await is take that waits for room until then.
func (b *budget) await(until context.Context, caller string, n int64) bool {
	b.mu.Lock()
	if b.tryTake(caller, n) {
		b.mu.Unlock()
		return true
	}
	w := &budgetWait{caller, n, make(chan struct{})}
	b.waiting = append(b.waiting, w)
	b.mu.Unlock()
	select {
	case <-w.has:
		return true
	case <-until.Done():
	}
	b.mu.Lock()
	defer b.mu.Unlock()
	i := slices.Index(b.waiting, w)
	if i < 0 {
		return true // it has room since just now
	}
	b.waiting = slices.Delete(b.waiting, i, i+1)
	return false
}

// giveBack is the counterpart of take and await.
func (b *budget) giveBack(caller string, n int64) {
	if n == 0 {
		return
	}
	b.mu.Lock()
	defer b.mu.Unlock()
	b.all -= n
	if b.of[caller] -= n; b.of[caller] == 0 {
		delete(b.of, caller)
	}
	b.waiting = slices.DeleteFunc(b.waiting, func(w *budgetWait) bool {
		has := b.tryTake(w.caller, w.n)
		if has {
			close(w.has)
		}
		return has
	})
}
