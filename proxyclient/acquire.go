package proxyclient

import (
	"context"
	"crypto/rand"
	"fmt"
	"sync"
	"time"
)

// Acquire blocks until the leases are granted, for Wait at most. If the proxy has not
// answered by then, Acquire waits five seconds more, or one if the proxy is not known to be
// leasectl's own, and then takes the request back, for at most three seconds. If ctx ends
// first, Acquire takes the request back in the same way and returns the cause. Giving back
// leases that it got and cannot hand over may take ten seconds.
//
// If a first request gets no answer for 28 s, Acquire asks about it on another connection.
// It sends the request again to leasectl's server, and goes on waiting for a version-1
// proxy. After the end of Wait it asks leasectl's server about an unanswered request, and
// sends the request again if the server answers the question.
//
// With a list of servers, Acquire asks about a first request after one second. If the
// server with the request is silent and another server leads, the leader gets the request.
//
// Errors, each of which may be [ErrUnconfirmed] as well, are
//
//   - [ErrUnknownType], [ErrNeverGranted], [ErrEnded], [ErrOlder], [ErrRemoved],
//     [ErrSuperseded], a [CoalescedError], or any other error that the proxy answered;
//   - [ErrUnreachable]: since its last good answer the proxy refused connections for 30 s
//     or was silent for a minute (either for Wait, if that is shorter), or it answered with
//     errors for a minute; or no server led at the end of Wait, which is also [ErrNotLeader];
//   - at the end of Wait: [ErrExhausted] if the proxy's last answer was that the request is
//     queued or that nothing is free, or if the proxy has not answered yet, since a
//     version-1 proxy answers only with a grant; otherwise the last error that it answered.
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
	c.released.forget(Releasing(g.Leases, "").Names)
	return g, nil
}

// run asks for all leases at once, or one by one if the proxy cannot grant them
// together.
func (a *acquisition) run(ctx context.Context) (*Grant, error) {
	wait, cancel := a.waitContext(ctx)
	defer cancel()
	if needs, what := a.request.needs(); needs > 0 {
		err := a.client.ensureWire(wait, needs, what, &a.patience)
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

// waitContext returns the context that ends with the wait and the time for a last answer:
// answerTime if the proxy is known to answer at the end of the wait, else noAnswerTime.
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

// movableWait is waitContext for a request that coalesces: the end of the wait moves when
// the request joins a run. Its proxy is of wire 3, so it answers at the end of the wait.
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
// grant or an error. ctx is the caller's context, wait the one of waitContext.
func (a *acquisition) acquireAll(ctx, wait context.Context) (*Grant, error) {
	for {
		o := a.send(wait)
		switch a.next() {
		case accept:
			return a.handOver(ctx, o)
		case fail:
			return nil, a.refusal(ctx, o)
		case retry: // send has retried until its patience ran out
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
		// An unanswered request is sent once more, even after the end of the wait.
		if a.patience.ended() && a.last.kind != unanswered || Sleep(wait, a.pause(o)) != nil {
			return nil, a.stop(ctx, o)
		}
	}
}

// identify finds out what the proxy can do, by asking for the state of this request.
func (a *acquisition) identify(ctx context.Context) (Capabilities, error) {
	return a.client.identify(ctx, a.request.RequestID, &a.patience)
}

// pause returns how long to wait before the request is sent again, after an attempt that
// came to o.
func (a *acquisition) pause(o outcome) time.Duration {
	switch a.last.kind {
	case queued:
		// A server that answers "queued" at once is stopping, or is not ours: it must
		// not be asked as fast as it answers.
		return max(0, minPause+Until(o.asked))
	case unanswered:
		return 0
	}
	return a.patience.pause(0, o.Response)
}
