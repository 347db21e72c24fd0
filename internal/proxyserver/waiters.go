package proxyserver

import (
	"slices"
	"time"

	"github.com/leasectl/leasectl/internal/pool"
)

// call is one connection that waits for the outcome of a request. It has room for one
// outcome, and gets no second: it is either in waiters or in a delivery, never in both.
type call chan outcome

// outcome is how the wait of a call ends.
type outcome struct {
	leases []pool.Lease
	err    error
	took   time.Duration // with err: how long the request waited
	status *pool.Status  // with errStopping and errSlice
}

// delivery is an outcome on its way to the calls that wait for it.
type delivery struct {
	calls []call
	outcome
}

func (d delivery) send() {
	for _, c := range d.calls {
		c <- d.outcome
	}
}

// waiter is a queued request and the calls that wait for it.
type waiter struct {
	calls []call
	until time.Duration // the end of the wait on the lease clock, as the latest call said
	// inCircle: the log says whom the request waits for while that one waits for it.
	inCircle bool
}

// waiters are all queued requests that had a call, by request id. The mutex of the
// committer guards them.
type waiters map[string]*waiter

// attach makes c wait for the request id.
func (ws waiters) attach(id string, c call, until time.Duration) {
	w := ws[id]
	if w == nil {
		w = &waiter{}
		ws[id] = w
	}
	w.calls = append(w.calls, c)
	w.until = until
}

// contains reports whether c still waits for the request id.
func (ws waiters) contains(id string, c call) bool {
	w := ws[id]
	return w != nil && slices.Contains(w.calls, c)
}

// detach ends the wait of c without an outcome. The waiter stays until the pools
// grant or drop its request.
func (ws waiters) detach(id string, c call) {
	w := ws[id]
	w.calls = slices.DeleteFunc(w.calls, func(other call) bool { return other == c })
}

// remove returns the calls that waited for the request id.
func (ws waiters) remove(id string) []call {
	w := ws[id]
	if w == nil {
		return nil
	}
	delete(ws, id)
	return w.calls
}

// count returns how many calls wait.
func (ws waiters) count() (n int64) {
	for _, w := range ws {
		n += int64(len(w.calls))
	}
	return n
}

// deliverAll sends every call an outcome at once. The pools decided nothing, so nothing must
// be durable first.
func (ws waiters) deliverAll(out func(id string) outcome) {
	for id, w := range ws {
		delivery{w.calls, out(id)}.send()
	}
	clear(ws)
}
