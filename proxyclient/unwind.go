package proxyclient

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"slices"
	"strings"
	"time"

	"github.com/leasectl/leasectl/leaseapi"
)

// The end of an acquire: it hands its grant over, or says why there is no
// grant, and takes back the grant or waiter that the proxy may hold for it.

// cancelTime bounds taking a request back. After a TERM there must be time for it, and
// for the end of a child, before the KILL.
const cancelTime = 3 * time.Second

// handOver returns the grant of the last attempt. If the grant is not usable, handOver
// gives it back and returns an error.
func (a *acquisition) handOver(ctx context.Context, o outcome) (*Grant, error) {
	g, err := newGrant(&a.request, a.count(), a.last.reply)
	if err != nil {
		return nil, a.reject(ctx, a.last.reply, err)
	}
	a.noteStale(g.Stale)
	g.Asked, g.Stale = o.asked, a.stale
	return g, nil
}

// refusal returns the error for an answer that no repetition would change.
func (a *acquisition) refusal(ctx context.Context, o outcome) error {
	switch {
	case o.StatusCode == http.StatusNotFound && o.begins(leaseapi.TextAcquireFailed) && strings.Contains(string(o.body), leaseapi.TextUnknownType):
		ctx, cancel := context.WithTimeout(ctx, cancelTime)
		defer cancel()
		can, _ := a.client.identify(ctx, a.request.RequestID, &a.patience) // only for the text of the error
		unknown := &UnknownTypeError{Type: a.request.Type, Types: leaseapi.ParseUnknown(string(o.body)), Listed: can == Ours}
		if len(unknown.Types) > 0 {
			unknown.Type = unknown.Types[0]
		}
		return unknown
	case o.is(leaseapi.ProblemUnknownName):
		return &reworded{text: o.text(), err: ErrUnknownName}
	case o.misrouted() || o.redirects() || o.StatusCode == http.StatusSwitchingProtocols:
		return fmt.Errorf("%w (is %s the address of a lease proxy?)", o.failure(), a.client.name)
	case o.is(leaseapi.ProblemRemoved):
		return fmt.Errorf("%w: %s", ErrRemoved, o.text())
	case o.is(leaseapi.ProblemEnded):
		p, _ := o.problem()
		return &EndedError{RequestID: a.request.RequestID, Unconfirmed: p.Reason == leaseapi.ReasonUnconfirmed}
	case a.request.Coalesce == "": // so that no other's run can stand for the request
	case o.is(leaseapi.ProblemSuperseded):
		return fmt.Errorf("%w: request %s", ErrSuperseded, a.request.RequestID)
	case o.is(leaseapi.ProblemCoalesced):
		if p, _ := o.problem(); p.ExitCode != nil && *p.ExitCode >= 0 && *p.ExitCode <= 255 {
			return &CoalescedError{RequestID: a.request.RequestID, ExitCode: *p.ExitCode}
		}
	}
	if err := o.neverGranted(a.request.Type); err != nil {
		return err
	}
	return o.failure()
}

// stop ends an acquire without a grant: it takes the request back and returns the error.
// ctx is the caller's context, o the last outcome.
func (a *acquisition) stop(ctx context.Context, o outcome) error {
	return a.takeBack(ctx, a.why(ctx, o))
}

// why returns the error that ended the acquire.
func (a *acquisition) why(ctx context.Context, o outcome) error {
	failed := o.err != nil && !errors.Is(o.err, context.DeadlineExceeded)
	switch {
	case ctx.Err() != nil:
		return context.Cause(ctx)
	case a.patience.exhausted() || o.err != nil && (hopeless(o.err) || errors.Is(o.err, ErrNoTokenGiven)):
		return a.client.failure(ctx, o, &a.patience)
	case !o.sent && o.err != nil && !a.patience.everAnswered(): // the request never was in a queue
		return a.client.unreachable(ctx, o, &a.patience)
	case errors.Is(a.lastAnswer, ErrExhausted):
		return a.lastAnswer
	case errors.Is(a.lastAnswer, ErrNotLeader):
		return &UnreachableError{Proxy: a.client.name, Errors: true, Err: a.lastAnswer}
	case a.lastAnswer != nil:
		return fmt.Errorf("no lease of type %q within %s: %w", a.request.Type, a.request.Wait, a.lastAnswer)
	case failed:
		// The limit of silence is the wait, but it counts from the first attempt, a
		// moment after the start of the wait. A part of an answer says no more than silence.
		return a.client.unreachable(ctx, o, &a.patience)
	}
	return a.exhausted() // the request was waiting for an answer
}

// takeBack withdraws the request, so that the proxy holds no grant for it and makes none
// later. It returns cause, the reason for the withdrawal, or an [UnconfirmedError] if the
// withdrawal failed. A version-1 proxy withdraws a request when its connection closes.
func (a *acquisition) takeBack(ctx context.Context, cause error) error {
	if !a.pending {
		return cause
	}
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), cancelTime)
	defer cancel()
	_, err := a.client.Release(ctx, leaseapi.ReleaseRequest{RequestIDs: []string{a.request.RequestID}})
	if err == nil && errors.Is(cause, ErrExhausted) && a.lastAnswer == nil && a.place == nil {
		// Only version 1 keeps silent about a request that waits, and this is our server.
		return &UnreachableError{Proxy: a.client.name, Err: errLate}
	}
	if err == nil || errors.Is(err, errors.ErrUnsupported) && !a.answerLost {
		return cause
	}
	silent, ok := errors.AsType[*UnreachableError](err)
	if ok && errors.Is(cause, ErrExhausted) && !a.patience.everAnswered() {
		cause = silent // the request never was in a queue
	}
	return a.unknownGrant(cause)
}

// unknownGrant returns the error for an attempt that may have been granted leases under
// unknown names.
func (a *acquisition) unknownGrant(cause error) error {
	return &UnconfirmedError{RequestID: a.request.RequestID, Type: a.request.Type, Also: a.request.Also, Count: a.count(), Err: cause}
}

// unconfirmed ends an acquire that was sent and cannot be sent again: the proxy is of
// version 1, or its version is unknown because of err. It always takes the request back,
// since a gateway that does not find our server looks like version 1. Version 1 does nothing
// for that call, so that the acquire stays unconfirmed.
func (a *acquisition) unconfirmed(ctx context.Context, o outcome, err error) error {
	switch {
	case ctx.Err() != nil:
		return a.takeBack(ctx, context.Cause(ctx))
	case err != nil && err.Error() == o.failure().Error():
		return a.takeBack(ctx, err)
	case err != nil:
		return a.takeBack(ctx, fmt.Errorf("%w, and then: %w", o.failure(), err))
	case o.err == nil && o.StatusCode == http.StatusTooManyRequests:
		return o.failure() // a refusal, like any 4xx
	}
	return a.takeBack(ctx, o.failure())
}

// reject gives back a grant that cannot be used, and returns cause, the reason.
func (a *acquisition) reject(ctx context.Context, reply leaseapi.AcquireReply, cause error) error {
	var req leaseapi.ReleaseRequest
	switch {
	case reply.RequestID != "" && !a.oneByOne: // not those of another request, which another Acquire may have
		req.RequestIDs = []string{a.request.RequestID}
	case len(reply.Leases) > 0:
		req.Leases = withoutUnits(reply.Leases)
	default:
		req.Names = reply.Names
	}
	done, err := a.client.giveBack(ctx, req)
	if err == nil {
		return cause
	}
	return &UnconfirmedError{
		RequestID: a.request.RequestID, Type: a.request.Type,
		Names: without(reply.Names, done.Released),
		Err:   errors.Join(cause, err),
	}
}

// giveBack releases the leases of a failing acquire. It has a time limit of its own, since
// ctx may have ended. The notes on earlier releases of the names are dropped, since the names
// were granted again after these.
func (c *Client) giveBack(ctx context.Context, req leaseapi.ReleaseRequest) (leaseapi.ReleaseReply, error) {
	limit := cancelTime
	if ctx.Err() == nil {
		limit = releaseTime // the caller is in no hurry to end
	}
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), limit)
	defer cancel()
	c.released.forget(req.Names)
	return c.Release(ctx, req)
}

// without returns the names that are not in gone.
func without(names, gone []string) []string {
	return slices.DeleteFunc(slices.Clone(names), func(n string) bool { return slices.Contains(gone, n) })
}
