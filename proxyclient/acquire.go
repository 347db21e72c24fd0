package proxyclient

import (
	"context"
	"crypto/rand"
	"fmt"
	"sync"
	"time"
)

// Acquire blocks until the leases are granted, for Wait at most. If the proxy does not
// answer at the end of Wait, Acquire waits for it eight seconds more, or one if the proxy
// is not known to be leasectl's own. If ctx ends before, it takes the request back, for at
// most three seconds, and returns the cause. (Giving back leases that it got and cannot
// hand over may take ten seconds.)
//
// A first request that stays without an answer for 28 s is asked about on another
// connection: leasectl's server is then sent it again, one of version 1 is waited for. At
// the end of Wait leasectl's is asked about it, too, and is sent it again if it answers
// the question but not the request.
//
// With a list of servers, a first request is asked about after a second. If the server that
// has it is silent, and another one leads, the request is sent to that.
//
// Errors, each of which may be [ErrUnconfirmed] as well, are
//
//   - [ErrUnknownType], [ErrEnded], [ErrOlder], [ErrRemoved], [ErrSuperseded], a
//     [CoalescedError], or the proxy's own words;
//   - [ErrUnreachable]: since its last good answer the proxy refused connections for 30 s,
//     or was silent for a minute, or either for Wait if that is shorter; or it gave errors
//     for a minute; or none of its servers led at the end of Wait, which is [ErrNotLeader],
//     too;
//   - at the end of Wait: [ErrExhausted] if the proxy's last answer was that the request is
//     queued or that nothing is free, or if there was none yet, since a version-1 proxy
//     answers only with a grant; else the failure that it answered.
func (c *Client) Acquire(ctx context.Context, r Request) (*Grant, error) {
	if r.RequestID == "" {
		r.RequestID = rand.Text()
	}
	if err := r.check(); err != nil {
		return nil, fmt.Errorf("acquire: %w", err)
	}
	a := &acquisition{client: c, request: r, patience: patience{
		end:       Now().Add(r.Wait),
		limits:    usualLimits.within(r.Wait),
		onRetry:   r.OnRetry,
		onTrouble: r.OnTrouble,
	}}
	var prepared sync.WaitGroup
	prepared.Go(prepareJSON) // while the proxy is asked
	g, err := a.run(ctx)
	prepared.Wait()
	if err != nil {
		return nil, fmt.Errorf("acquire: %w", err)
	}
	c.released.forget(g.Leases)
	return g, nil
}

// run asks for all leases at once, or one by one if that is all that the proxy
// can do.
func (a *acquisition) run(ctx context.Context) (*Grant, error) {
	wait, cancel := a.waitContext(ctx)
	defer cancel()
	if what := a.request.needsUnits(); what != "" {
		err := a.client.ensureUnits(wait, what, &a.patience)
		switch {
		case ctx.Err() != nil:
			return nil, context.Cause(ctx)
		case err != nil:
			return nil, err
		}
	}
	if a.request.Count > 1 {
		can, err := a.identify(wait)
		switch {
		case ctx.Err() != nil:
			return nil, context.Cause(ctx)
		case err != nil:
			return nil, fmt.Errorf("find out whether the proxy grants %d at once: %w", a.request.Count, err)
		case !can.CountsAtOnce():
			return a.acquireEach(ctx, wait)
		}
	}
	return a.acquireAll(ctx, wait)
}

// waitContext returns the context that ends with the wait. If the proxy is known to
// answer at the end of the wait, there is time for that answer.
func (a *acquisition) waitContext(ctx context.Context) (context.Context, context.CancelFunc) {
	if a.request.Coalesce != "" {
		return a.movableWait(ctx)
	}
	ctx, cancel := context.WithTimeout(ctx, a.request.Wait+answerTime)
	wait, end := context.WithCancelCause(ctx)
	early := time.AfterFunc(a.request.Wait+noAnswerTime, func() {
		if !a.client.known().RequestIDs() {
			end(context.DeadlineExceeded)
		}
	})
	return wait, func() {
		early.Stop()
		end(nil)
		cancel()
	}
}

// movableWait is waitContext of a request that coalesces: once it has joined a run, the
// end of its wait moves. Its proxy is known to answer in time.
func (a *acquisition) movableWait(ctx context.Context) (context.Context, context.CancelFunc) {
	wait, end := context.WithCancelCause(ctx)
	timer := time.AfterFunc(a.request.Wait+answerTime, func() { end(context.DeadlineExceeded) })
	a.moveEnd = func(left time.Duration) { timer.Reset(left + answerTime) }
	return wait, func() {
		timer.Stop()
		end(nil)
	}
}

// acquireAll sends the request and takes the steps that follow, until there is a
// grant or an error. ctx is the caller's, wait the one that ends with the wait.
func (a *acquisition) acquireAll(ctx, wait context.Context) (*Grant, error) {
	for {
		o := a.send(wait)
		switch a.next() {
		case accept:
			return a.handOver(ctx, o)
		case fail:
			return nil, a.refusal(ctx, o)
		case retry: // send has done that until patience was at its end
			return nil, a.stop(ctx, o)
		case identify:
			if wait.Err() != nil {
				return nil, a.stop(ctx, o)
			}
			if can, err := a.identify(wait); err != nil || !can.RequestIDs() {
				return nil, a.unconfirmed(ctx, o, err)
			}
		case resume:
		}
		// What stayed unanswered is asked once more, if that was at the end of the wait.
		if a.patience.ended() && a.last.kind != unanswered || Sleep(wait, a.pause(o)) != nil {
			return nil, a.stop(ctx, o)
		}
	}
}

// identify finds out what the proxy can do, by the state of this request.
func (a *acquisition) identify(ctx context.Context) (Capabilities, error) {
	return a.client.identify(ctx, a.request.RequestID, &a.patience)
}

// pause is how long to wait before a request that was queued or ambiguous is
// sent again.
func (a *acquisition) pause(o outcome) time.Duration {
	switch a.last.kind {
	case queued:
		// A server that answers at once stops, or is not ours: it must not be asked as
		// fast as it answers.
		return max(0, minPause+Until(o.asked))
	case unanswered:
		return 0
	}
	return a.patience.pause(0, o.Response)
}
