package proxyclient

import (
	"context"
	"errors"
	"fmt"
	"strings"
)

// failure returns the error of a call that came to no success. If its time ended in the
// middle of an attempt, the error that the attempt before was answered with is the
// proxy's last word.
func (c *Client) failure(ctx context.Context, o outcome, p *patience) error {
	err := o.failed()
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

// because is err of an operation that ctx may have ended: then it is its cause,
// too, and says so if that says more than that something has ended.
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

// timedOut reports whether ctx ended by a deadline: its own, or one that was
// set later and ended it by [context.CancelCauseFunc] with
// [context.DeadlineExceeded].
func timedOut(ctx context.Context) bool {
	return errors.Is(ctx.Err(), context.DeadlineExceeded) || errors.Is(context.Cause(ctx), context.DeadlineExceeded)
}

// unreachable is the error for a proxy that gave no good answer. o is its last attempt,
// which says nothing of the proxy if ctx cut it short.
func (c *Client) unreachable(ctx context.Context, o outcome, p *patience) error {
	err := o.failed()
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
		u.Err = errors.Join(err, context.Cause(ctx)) // to compare with
	}
	return u
}
