package proxyclient

import (
	"context"
	"fmt"
	"net/http"

	"github.com/leasectl/leasectl/leaseapi"
)

// Resize makes a lease of a counted pool hold another number of units. A shrink always
// succeeds. A growth is granted at once or refused; it does not queue. Resize retries
// until ctx ends, or until there was no good answer for too long ([ErrUnreachable]). If
// r.After is set, the proxy recognises a second copy, however late it arrives.
//
// Errors are [ErrNoRoom], [ErrTooMany], [ErrNotCounted], [ErrOlder], a [StaleError]
// if the lease does not hold r.From units, or was resized after r.After, and a [LostError]
// if it has ended, or cannot grow since an operator broke it. None of these errors
// changes the lease. With the first two and a StaleError the reply has the units that
// the lease holds, if the proxy sent them.
func (c *Client) Resize(ctx context.Context, r leaseapi.ResizeRequest) (leaseapi.ResizeReply, error) {
	p := &patience{limits: usualLimits, maxPause: maxPauseBefore(ctx)}
	if err := c.ensureWire(ctx, wireUnits, "a resize", p); err != nil {
		return leaseapi.ResizeReply{}, fmt.Errorf("resize: %w", err)
	}
	reply, err := c.resize(ctx, r, p)
	if err != nil {
		return reply, fmt.Errorf("resize: %w", err)
	}
	return reply, nil
}

func (c *Client) resize(ctx context.Context, r leaseapi.ResizeRequest, p *patience) (reply leaseapi.ResizeReply, err error) {
	q := post(leaseapi.PathResize, r, idempotent{misrouted: true})
	q.mine = mineByResize(r)
	o := c.do(ctx, q, p)
	if o.err != nil {
		return reply, c.failure(ctx, o, p)
	}
	if o.StatusCode == http.StatusOK && o.decode(&reply) == nil && reply.Units > 0 {
		return reply, nil
	}
	said, _ := o.problem()
	held := leaseapi.ResizeReply{Units: max(said.Held, 0), Resizes: max(said.Resizes, 0)}
	switch said.Type {
	case leaseapi.ProblemNoRoom:
		text := fmt.Sprintf("need %d more, %d free; %d stay held", said.Need, said.Free, said.Held)
		if said.Reason != "" {
			text += ": " + shortLine(said.Reason)
		}
		return held, &reworded{text: text, err: ErrNoRoom}
	case leaseapi.ProblemTooMany:
		return held, &reworded{text: o.text(), err: ErrTooMany}
	case leaseapi.ProblemStale:
		return held, &StaleError{Held: said.Held}
	case leaseapi.ProblemNotCounted:
		return leaseapi.ResizeReply{}, &reworded{text: o.text(), err: ErrNotCounted}
	case leaseapi.ProblemLost:
		return leaseapi.ResizeReply{}, lostError(o, []leaseapi.Lease{{Name: r.Name, Generation: r.Generation}})
	}
	return leaseapi.ResizeReply{}, c.failure(ctx, o, p)
}
