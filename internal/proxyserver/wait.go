package proxyserver

import (
	"context"
	"errors"
	"strconv"
	"time"

	"github.com/leasectl/leasectl/internal/pool"
	"github.com/leasectl/leasectl/leaseapi"
)

var (
	// errSlice is the outcome of a slice that ends before the wait does.
	errSlice = errors.New("still queued")
	// errGone is the outcome of a wait whose client has gone. It is answered
	// nevertheless: a client that closed only its sending side still reads, and
	// would take the empty answer of a handler that writes none for a success.
	errGone = errors.New("the client closed the connection")
	// errNotLetIn is the outcome of a wait whose caller has lost its right meanwhile.
	errNotLetIn = errors.New("the caller may no longer have the lease that it waited for")
)

// mostStale is how many stale leases a wait keeps until its answer. With more it is answered at once, and
// there are none when it comes back.
const mostStale = 16

// crowdedSlice is the longest slice while there are too many connections. A request
// keeps its place between slices.
const crowdedSlice = time.Second

// begin returns the outcome of r, or, if r must wait, the call that waits for it.
func (t *term) begin(r *acquireRequest) (out outcome, c call) {
	if t.lastWaits.Load() {
		return t.askAside(r)
	}
	return t.ask(r)
}

// askAside is ask on the stack of another goroutine, for an r that will probably wait.
// Deciding takes more stack than waiting, and a stack that has grown rarely shrinks.
func (t *term) askAside(r *acquireRequest) (out outcome, c call) {
	asked := make(chan struct{})
	go func() {
		defer close(asked)
		defer func() { // the caller cannot recover a panic here
			if cause := recover(); cause != nil {
				out, c = outcome{err: t.failCall(cause)}, nil
			}
		}()
		growStack(0)
		out, c = t.ask(r)
	}()
	<-asked
	return out, c
}

// ask is begin on this stack.
func (t *term) ask(r *acquireRequest) (out outcome, c call) {
	replaces := r.replaces
	r.replaces = nil // a wait keeps none of them
	var circle leaseapi.WaitReason
	decide := func(set *pool.Set, now time.Duration) {
		if r.Anonymous {
			t.lastAnonymous++
			r.ID = anonymousID(t.lastAnonymous)
		} else {
			r.ID = r.by.ownRequest(set, now, r.ID)
		}
		r.counted, r.unit = countedOf(set, r.Types()), set.Unit(r.Type)
		if r.ours { // clients of version 1 read answers of any size, with the names alone
			if out.err = checkAnswer(set, now, r.Request); out.err != nil {
				return
			}
		}
		if replaces == nil {
			out.leases, out.err = set.Acquire(now, r.Request)
		} else {
			out.leases, r.stale, out.err = set.Reacquire(now, r.Request, replaces)
		}
		if out.err == nil && out.leases == nil {
			c = make(call, 1)
			at, _ := set.Place(now, r.ID)
			if r.untold = t.waiting[r.ID] == nil; r.untold {
				t.events.Arrived(r.Request, at)
			}
			r.wait = t.waitOf(r, at.Waited)
			t.waiting.attach(r.ID, c, later(now, r.wait))
			circle = t.newCircle(set, now, r)
		}
		if waits := c != nil; waits != t.lastWaits.Load() {
			t.lastWaits.Store(waits)
		}
	}
	dear := false
	err := t.do(func(set *pool.Set, now time.Duration) {
		if dear = r.isDear(set, len(replaces)); !dear {
			decide(set, now)
		}
	})
	if dear && err == nil {
		err = t.doInTurn(r.by.id, decide)
	}
	if err != nil {
		return outcome{err: err}, nil
	}
	if r.untold {
		t.events.WriteArrived()
	}
	if circle.Kind != "" {
		t.events.Circle(r.Request, circle)
	}
	return out, c
}

// newCircle returns why r waits if it and another wait for each other, and the log does not say so yet.
func (t *term) newCircle(set *pool.Set, now time.Duration, r *acquireRequest) (reason leaseapi.WaitReason) {
	w := t.waiting[r.ID]
	if w.inCircle {
		return reason
	}
	reason, w.inCircle = set.Circle(now, r.ID)
	return reason
}

// anonymousID is the id under which the pools know a request without an id. No
// client can send it, since it holds a control character.
func anonymousID(n uint64) string { return "\x00" + strconv.FormatUint(n, 36) }

// waitOf returns how long r, which has waited for waited already, may still wait.
func (t *term) waitOf(r *acquireRequest, waited time.Duration) time.Duration {
	switch {
	case r.wait < 0:
		return max(0, t.maxWait-waited)
	case r.Anonymous: // only its connection keeps it alive
		return min(r.wait, t.maxWait)
	}
	return r.wait
}

// await waits for the outcome of c until the client goes, or until the slice or the whole
// wait is over. The outcome is durable; with errSlice r is still queued.
func (t *term) await(ctx context.Context, r *acquireRequest, c call) outcome {
	limit := r.wait
	if !r.Anonymous {
		limit = min(limit, leaseapi.SliceTime)
		if r.untold {
			limit = min(limit, leaseapi.FirstSlice)
		}
		if r.crowded {
			limit = min(limit, crowdedSlice)
		}
		if r.keepsNone || len(r.stale) > mostStale {
			limit = 0
		}
	}
	timer := time.NewTimer(limit)
	defer timer.Stop()
	select {
	case out := <-c:
		return out
	case <-t.failed:
		return outcome{err: t.failure()}
	case <-ctx.Done():
		return t.leave(r, c)
	case <-timer.C:
		return t.endSlice(r, c)
	}
}

// leave ends the wait of a call whose client has gone.
func (t *term) leave(r *acquireRequest, c call) outcome {
	return t.endWait(r.ID, c, func(set *pool.Set, now time.Duration) (outcome, bool) {
		t.detach(set, now, r.ID, c, 0)
		return outcome{err: errGone}, false
	})
}

// endSlice ends the wait of a call whose time is over. The whole request ends, too, unless
// a later call gave it more time.
func (t *term) endSlice(r *acquireRequest, c call) outcome {
	var circle leaseapi.WaitReason
	defer func() {
		if circle.Kind != "" {
			t.events.Circle(r.Request, circle)
		}
	}()
	return t.endWait(r.ID, c, func(set *pool.Set, now time.Duration) (outcome, bool) {
		// Withdraw leaves a request that joined a run under way: it no longer queues.
		if now >= t.waiting[r.ID].until && set.Withdraw(now, r.ID) {
			return outcome{}, true
		}
		st, _ := set.Status(now, r.ID)
		circle = t.newCircle(set, now, r)
		t.detach(set, now, r.ID, c, leaseapi.SliceGap)
		return outcome{err: errSlice, status: &st}, false
	})
}

// endWait ends the wait of c with op, unless the outcome of c is decided already. op returns
// the outcome of c, or decided: then the pools have decided the outcome for all calls of the
// request, and it is on its way to c.
func (t *term) endWait(id string, c call, op func(set *pool.Set, now time.Duration) (out outcome, decided bool)) outcome {
	var out outcome
	decided := false
	err := t.do(func(set *pool.Set, now time.Duration) {
		if decided = !t.waiting.contains(id, c); !decided {
			out, decided = op(set, now)
		}
	})
	switch {
	case err != nil && !errors.Is(err, errStopping):
		return outcome{err: err}
	case err != nil || decided: // a halt answers all who wait
		select {
		case out = <-c:
		case <-t.failed:
			out.err = t.failure()
		}
	}
	return out
}

// detach ends the wait of c without an outcome. Its request keeps its place as
// [pool.Set.Detach] says.
func (t *term) detach(set *pool.Set, now time.Duration, id string, c call, linger time.Duration) {
	t.waiting.detach(id, c)
	set.Detach(now, id, linger)
}
