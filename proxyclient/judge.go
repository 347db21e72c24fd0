package proxyclient

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"slices"
	"strings"

	"github.com/leasectl/leasectl/leaseapi"
)

// This file holds what an answer to an acquire means, and what is left to do
// when an acquire ends without a grant.

// judge tells what an attempt to acquire came to. It is the only place that
// decides what may have been granted.
func (a *acquisition) judge(o outcome) verdict {
	switch {
	case o.err != nil && !o.sent && !o.heard:
		return unsent
	case o.err != nil:
		return unclear
	case o.StatusCode == http.StatusOK:
		a.reply = leaseapi.AcquireReply{}
		if o.decode(&a.reply) == nil && a.reply.Names != nil {
			return granted
		}
		return unclear
	case o.StatusCode == http.StatusAccepted:
		q := new(leaseapi.Queued)
		if o.decode(q) == nil && q.RequestID == a.r.RequestID {
			a.last = q
			return queued
		}
		return unclear
	case o.StatusCode >= 500 && o.begins(leaseapi.TextAcquireFailed):
		return nothing
	case o.StatusCode/100 == 2 || o.passing() || a.c.knowsIDs.Load() && o.misrouted():
		return unclear
	}
	return refused
}

// note keeps what an attempt tells about the request and about the proxy.
func (a *acquisition) note(o outcome) {
	a.found = a.judge(o)
	a.p.longest = 0
	switch a.found {
	case unclear:
		a.open = true
		if o.err != nil || !o.is(leaseapi.ProblemUnavailable) {
			// Something between us and the proxy says how long to wait. What the
			// proxy has granted meanwhile does not last that long.
			a.p.longest = leaseapi.ProvisionalTTL / 3
		}
		if o.err == nil {
			a.word = o.failed()
		}
	case nothing:
		a.open = false
		a.word = o.failed()
		if saysExhausted(o.text()) {
			a.word = a.exhausted()
		}
	case queued:
		a.open = true
		a.c.knowsIDs.Store(true)
		if l := a.last.Oldest; l != nil {
			cleanLease(l)
		}
		a.word = a.exhausted()
		if a.r.OnQueued != nil {
			a.r.OnQueued(*a.last)
		}
	case granted:
		if a.reply.RequestID == a.r.RequestID {
			a.c.knowsIDs.Store(true)
		}
	case refused:
		a.open = false
	}
}

func (a *acquisition) exhausted() error {
	return &ExhaustedError{Type: a.r.Type, Wait: a.r.Wait, Last: a.last}
}

// saysExhausted reports whether a text of version 1 says that all leases are
// taken: some servers write the plural, some the singular.
func saysExhausted(text string) bool {
	return strings.Contains(text, leaseapi.TextExhausted) || strings.Contains(text, leaseapi.TextExhaustedOne)
}

// refusal is the error for an answer that no repetition would change.
func (a *acquisition) refusal(o outcome) error {
	switch {
	case o.StatusCode == http.StatusNotFound && o.begins(leaseapi.TextAcquireFailed) && strings.Contains(string(o.body), leaseapi.TextUnknownType):
		return fmt.Errorf("%w %q", ErrUnknownType, a.r.Type)
	case o.misrouted():
		return fmt.Errorf("%w (is %s the address of a lease proxy?)", o.failed(), a.c.name)
	case o.is(leaseapi.ProblemEnded):
		return fmt.Errorf("%w: %s: released or cancelled elsewhere", ErrEnded, a.r.RequestID)
	}
	return o.failed()
}

// stop ends an acquire that got nothing so far. parent is the caller's
// context, o the last outcome.
func (a *acquisition) stop(parent context.Context, o outcome) error {
	return a.takeBack(parent, a.why(parent, o))
}

// why says what ended the acquire.
func (a *acquisition) why(parent context.Context, o outcome) error {
	switch {
	case parent.Err() != nil:
		return context.Cause(parent)
	case o.err != nil && (a.p.over || hopeless(o.err)):
		return a.c.failure(parent, o, &a.p)
	case errors.Is(a.word, ErrExhausted):
		return a.word
	case a.word != nil:
		return fmt.Errorf("no lease of type %q within %s: %w", a.r.Type, a.r.Wait, a.word)
	case o.err != nil && !errors.Is(o.err, context.DeadlineExceeded) && !a.p.answered:
		// The wait is as long as the silence may be, and began a moment before.
		return fmt.Errorf("%w: %s: %w", ErrUnreachable, a.c.name, o.err)
	case o.err != nil && !errors.Is(o.err, context.DeadlineExceeded):
		return fmt.Errorf("no lease of type %q within %s: %w", a.r.Type, a.r.Wait, o.err)
	}
	return a.exhausted() // the request was waiting for its answer
}

// takeBack sees to it that the proxy neither holds nor will grant anything for
// this request. cause is why it is not wanted any more.
func (a *acquisition) takeBack(parent context.Context, cause error) error {
	if !a.open {
		return cause
	}
	ctx, cancel := context.WithTimeout(context.WithoutCancel(parent), cancelTime)
	defer cancel()
	_, err := a.c.Release(ctx, leaseapi.ReleaseRequest{RequestIDs: []string{a.r.RequestID}})
	if err == nil {
		return cause
	}
	return &UnconfirmedError{RequestID: a.r.RequestID, Type: a.r.Type, Count: a.r.Count, Err: cause}
}

// unconfirmed ends an acquire that was sent, and cannot be sent again: the
// proxy is of version 1, or (err) does not say whether it is.
func (a *acquisition) unconfirmed(parent context.Context, o outcome, err error) error {
	switch {
	case parent.Err() != nil:
		return a.takeBack(parent, context.Cause(parent))
	case err != nil && err.Error() == o.failed().Error():
		return a.takeBack(parent, err)
	case err != nil:
		return a.takeBack(parent, fmt.Errorf("%w, and then: %w", o.failed(), err))
	case o.err == nil && o.StatusCode == http.StatusTooManyRequests:
		return o.failed() // a refusal, like any 4xx
	}
	return &UnconfirmedError{RequestID: a.r.RequestID, Type: a.r.Type, Count: a.r.Count, Err: o.failed()}
}

// giveBack returns a grant that cannot be used, because of cause.
func (a *acquisition) giveBack(parent context.Context, reply leaseapi.AcquireReply, cause error) error {
	var req leaseapi.ReleaseRequest
	switch {
	case reply.RequestID == a.r.RequestID:
		req.RequestIDs = []string{reply.RequestID}
	case len(reply.Leases) > 0:
		req.Leases = reply.Leases
	default:
		req.Names = reply.Names
	}
	done, err := a.c.returnAll(parent, req)
	if err == nil {
		return cause
	}
	return &UnconfirmedError{
		RequestID: a.r.RequestID, Type: a.r.Type,
		Names: without(reply.Names, done.Released),
		Err:   join(cause, err),
	}
}

// without returns those of names that are not in gone.
func without(names, gone []string) []string {
	return slices.DeleteFunc(slices.Clone(names), func(n string) bool { return slices.Contains(gone, n) })
}

// returnAll releases, with a time of its own, what a failing acquire got.
func (c *Client) returnAll(parent context.Context, req leaseapi.ReleaseRequest) (leaseapi.ReleaseReply, error) {
	limit := cancelTime
	if parent.Err() == nil {
		limit = releaseTime // nobody is in a hurry to end
	}
	ctx, cancel := context.WithTimeout(context.WithoutCancel(parent), limit)
	defer cancel()
	return c.Release(ctx, req)
}
