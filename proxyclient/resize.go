package proxyclient

import (
	"context"
	"fmt"
	"net/http"

	"github.com/leasectl/leasectl/leaseapi"
)

// Resize makes a lease of a counted pool hold other units, and returns how many it
// holds then. Less is done in any case; more is tried once, and waits for nothing.
// It tries again until ctx ends, or until there was no good answer for too long
// ([ErrUnreachable]): the proxy takes a second copy for the repeat that it is.
//
// Errors are [ErrNoRoom], [ErrTooMany], [ErrNotCounted], [ErrOlder], a [StaleError]
// if the lease does not hold r.From, and a [LostError] if it has ended. After each
// of them the lease holds what it held before.
func (c *Client) Resize(ctx context.Context, r leaseapi.ResizeRequest) (units int, err error) {
	p := &patience{limits: usualLimits, maxPause: maxPauseBefore(ctx)}
	if err := c.ensureUnits(ctx, "a resize", p); err != nil {
		return 0, fmt.Errorf("resize: %w", err)
	}
	units, err = c.resize(ctx, r, p)
	if err != nil {
		return 0, fmt.Errorf("resize: %w", err)
	}
	return units, nil
}

func (c *Client) resize(ctx context.Context, r leaseapi.ResizeRequest, p *patience) (int, error) {
	o := c.do(ctx, post(leaseapi.PathResize, r, idempotent{misrouted: true}), p)
	if o.err != nil {
		return 0, c.failure(ctx, o, p)
	}
	var reply leaseapi.ResizeReply
	if o.StatusCode == http.StatusOK && o.decode(&reply) == nil && reply.Units > 0 {
		return reply.Units, nil
	}
	switch said, _ := o.problem(); said.Type {
	case leaseapi.ProblemNoRoom:
		text := fmt.Sprintf("need %d more, %d free; %d stay held", said.Need, said.Free, said.Held)
		if said.Reason != "" {
			text += ": " + shortLine(said.Reason)
		}
		return 0, &reworded{text: text, err: ErrNoRoom}
	case leaseapi.ProblemTooMany:
		return 0, &reworded{text: o.text(), err: ErrTooMany}
	case leaseapi.ProblemStale:
		return 0, &StaleError{Held: said.Held}
	case leaseapi.ProblemNotCounted:
		return 0, &reworded{text: o.text(), err: ErrNotCounted}
	case leaseapi.ProblemLost:
		return 0, (&renewal{leases: []leaseapi.Lease{{Name: r.Name, Generation: r.Generation}}}).lost(o)
	}
	return 0, c.failure(ctx, o, p)
}
