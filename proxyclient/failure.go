package proxyclient

import (
	"context"
	"errors"
	"fmt"
	"strings"
)

// failure returns the error of a call without success. If the call's time ended in the
// middle of an attempt, the error is the proxy's answer to the attempt before, if that was
// answered.
func (c *Client) failure(ctx context.Context, o outcome, p *patience) error {
	err := o.failure()
	if !hopeless(o.err) && (p.exhausted() || o.err != nil && (p.ended() || timedOut(ctx))) {
		if t, _ := p.troubled(); o.cut && t.answered {
			return &FailingError{because(ctx, t.last)}
		}
		return c.unreachable(ctx, o, p)
	}
	if timedOut(ctx) {
		return &FailingError{because(ctx, err)}
	}
	return because(ctx, err)
}

// because returns err. If ctx has ended, the error also wraps the cause of ctx, and its
// text has the cause if that adds anything.
func because(ctx context.Context, err error) error {
	if ctx.Err() == nil || errors.Is(err, ctx.Err()) {
		return err
	}
	cause := context.Cause(ctx)
	if cause == ctx.Err() || cause == context.DeadlineExceeded || strings.Contains(err.Error(), cause.Error()) {
		return &reworded{text: err.Error(), err: errors.Join(err, cause)}
	}
	return fmt.Errorf("%w (%w)", err, cause)
}

// timedOut reports whether ctx ended by a deadline: its own, or one that was set later
// with a [context.CancelCauseFunc] and [context.DeadlineExceeded].
func timedOut(ctx context.Context) bool {
	return errors.Is(ctx.Err(), context.DeadlineExceeded) || errors.Is(context.Cause(ctx), context.DeadlineExceeded)
}

// unreachable returns the error for a proxy that gave no good answer. o is the last
// attempt, which shows nothing about the proxy if ctx cut it short.
func (c *Client) unreachable(ctx context.Context, o outcome, p *patience) error {
	err := o.failure()
	u := &UnreachableError{Proxy: c.name, Refused: !o.sent && !o.heard, Err: err}
	if t, is := p.troubled(); is {
		u.Refused, u.Errors = t.refused, t.errors && o.err == nil
	}
	ended := ctx.Err() != nil
	switch {
	case o.cut && !o.sent:
		u.text = o.onTheWay("no connection in time")
	case ended && (errors.Is(err, context.Canceled) || errors.Is(err, context.DeadlineExceeded)):
		u.text = o.onTheWay("no answer in time")
	default:
		u.text = err.Error()
	}
	if ended {
		u.Err = errors.Join(err, context.Cause(ctx)) // for errors.Is
	}
	return u
}
