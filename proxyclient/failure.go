package proxyclient

import (
	"context"
	"errors"
	"fmt"
	"strings"
)

// failure returns the error of a call that came to no success.
func (c *Client) failure(ctx context.Context, o outcome, p *patience) error {
	err := o.failed()
	if o.err != nil && !hopeless(o.err) && (p.exhausted || timedOut(ctx) && !p.answered) {
		return c.unreachable(ctx, o.err)
	}
	if ctx.Err() == nil || errors.Is(err, ctx.Err()) {
		return err
	}
	cause := context.Cause(ctx)
	if strings.Contains(err.Error(), cause.Error()) {
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

// unreachable is the error for a proxy that did not answer. err is why the last
// attempt failed; it says nothing of the proxy if ctx cut the attempt short.
func (c *Client) unreachable(ctx context.Context, err error) error {
	if ctx.Err() != nil && (errors.Is(err, context.Canceled) || errors.Is(err, context.DeadlineExceeded)) {
		return fmt.Errorf("%w: %w", ErrUnreachable, &reworded{text: c.name, err: errors.Join(context.Cause(ctx), err)})
	}
	err = fmt.Errorf("%w: %s: %w", ErrUnreachable, c.name, err)
	if ctx.Err() != nil {
		return &reworded{text: err.Error(), err: errors.Join(err, context.Cause(ctx))}
	}
	return err
}
