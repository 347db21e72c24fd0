package proxyclient

import (
	"context"
	"errors"
	"fmt"

	"github.com/leasectl/leasectl/leaseapi"
)

// ReleaseAll ends all leases of owner, and takes all requests of owner off the queue. It
// retries like [Client.Release], so a retry also ends leases that owner got meanwhile.
// lost says that the answer to an earlier try was lost: the reply lacks the leases that
// this try ended. The error is [errors.ErrUnsupported] for a version-1 proxy, and for an
// older server of ours; neither of them does anything.
func (c *Client) ReleaseAll(ctx context.Context, owner string) (reply leaseapi.ReleaseReply, lost bool, err error) {
	tries := &allTries{repeat: idempotent{misrouted: true}}
	reply, err = c.releaseAll(ctx, leaseapi.ReleaseRequest{Owner: owner, All: true}, tries)
	if err != nil {
		return leaseapi.ReleaseReply{}, false, fmt.Errorf("release all of %s: %w", leaseapi.Shorten(owner), err)
	}
	return reply, tries.lost, nil
}

func (c *Client) releaseAll(ctx context.Context, request leaseapi.ReleaseRequest, tries *allTries) (leaseapi.ReleaseReply, error) {
	p := patience{limits: noLimits, maxPause: maxPauseBefore(ctx)}
	o := c.do(ctx, post(leaseapi.PathRelease, request, tries), &p)
	if o.err != nil || o.StatusCode/100 != 2 || o.foreign() {
		return leaseapi.ReleaseReply{}, c.failure(ctx, o, &p)
	}
	reply, ours := o.releaseReply()
	switch {
	case !ours:
		return reply, unsupported("owners")
	case !reply.All:
		return reply, errOlderServer
	}
	return reply, nil
}

// allTries is the policy of a ReleaseAll. It notes whether a try may have been carried out
// although the proxy itself did not answer it.
type allTries struct {
	repeat idempotent
	lost   bool
}

func (t *allTries) mayRepeat(o outcome) bool {
	refused := false // by our server itself, with a problem
	if o.err == nil {
		_, refused = o.problem()
	}
	t.lost = t.lost || o.sent && o.transient() && !refused
	return t.repeat.mayRepeat(o)
}

// errOlderServer is the error for a server of ours that ignores [leaseapi.ReleaseRequest.All].
var errOlderServer = fmt.Errorf("%w: the proxy is an older server of ours, which cannot release all that an owner holds", errors.ErrUnsupported)
