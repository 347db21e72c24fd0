package proxyclient

import (
	"context"
	"fmt"
	"net/http"

	"github.com/leasectl/leasectl/leaseapi"
)

// Break takes the lease of name away from its holder, for an operator.
// Its holder's renewals fail with reason from then on; the name is free when it
// is released or its TTL ends, or at once if now is set.
//
// Like [Client.Pools] it tries again until ctx ends, or until there was no HTTP
// answer for 30 s ([ErrUnreachable]). It means the lease that was held when it
// began, however often it asks: a later holder is never hit. The error is
// [errors.ErrUnsupported] if the proxy is of version 1.
func (c *Client) Break(ctx context.Context, name, reason string, now bool) (leaseapi.BreakReply, error) {
	pools, err := c.Pools(ctx)
	if err != nil {
		return leaseapi.BreakReply{}, fmt.Errorf("break: %w", err)
	}
	req := leaseapi.BreakRequest{Name: name, Generation: generationOf(pools, name), Reason: reason, Now: now}
	if req.Generation == 0 {
		return leaseapi.BreakReply{}, fmt.Errorf("break: nobody holds %q", name)
	}
	reply, err := c.breakLease(ctx, req)
	if err != nil {
		return leaseapi.BreakReply{}, fmt.Errorf("break: %w", err)
	}
	return reply, nil
}

func (c *Client) breakLease(ctx context.Context, req leaseapi.BreakRequest) (reply leaseapi.BreakReply, err error) {
	p := patience{limits: usualLimits}
	o := c.do(ctx, post(leaseapi.PathBreak, req, idempotent{}), &p)
	switch {
	case o.err != nil:
		return reply, c.failure(ctx, o, &p)
	case o.StatusCode == http.StatusOK && o.decode(&reply) == nil:
		makePrintable(&reply.Lease)
		return reply, nil
	case o.misrouted():
		return reply, unsupported(leaseapi.PathBreak)
	}
	return reply, c.failure(ctx, o, &p)
}

// generationOf returns the generation of name's lease; 0 if nobody holds it.
func generationOf(pools []leaseapi.Pool, name string) uint64 {
	for _, p := range pools {
		for _, l := range p.Leases {
			if l.Name == name {
				return l.Generation
			}
		}
	}
	return 0
}
