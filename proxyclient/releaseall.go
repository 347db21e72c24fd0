package proxyclient

import (
	"context"
	"errors"
	"fmt"

	"github.com/leasectl/leasectl/leaseapi"
)

// ReleaseAll ends all leases of owner, and takes all its requests off the queue. It
// tries again like [Client.Release], and a repetition also ends what owner got since.
// It is [errors.ErrUnsupported] with a proxy of version 1, and with an older one of
// ours: neither does anything.
func (c *Client) ReleaseAll(ctx context.Context, owner string) (leaseapi.ReleaseReply, error) {
	p := patience{limits: noLimits, maxPause: maxPauseBefore(ctx)}
	request := leaseapi.ReleaseRequest{Owner: owner, All: true}
	o := c.do(ctx, post(leaseapi.PathRelease, request, idempotent{misrouted: true}), &p)
	if o.err != nil || o.StatusCode/100 != 2 || o.foreign() {
		return leaseapi.ReleaseReply{}, fmt.Errorf("release all of %s: %w", leaseapi.Shorten(owner), c.failure(ctx, o, &p))
	}
	reply, ours := o.releaseReply()
	switch {
	case !ours:
		return leaseapi.ReleaseReply{}, fmt.Errorf("release all of %s: %w", leaseapi.Shorten(owner), unsupported("owners"))
	case !reply.All:
		return leaseapi.ReleaseReply{}, fmt.Errorf("release all of %s: %w", leaseapi.Shorten(owner), errOlderServer)
	}
	return reply, nil
}

// errOlderServer is the error for an answer of ours that did not do as asked.
var errOlderServer = fmt.Errorf("%w: the proxy is an older server of ours, which cannot release all that an owner holds", errors.ErrUnsupported)
