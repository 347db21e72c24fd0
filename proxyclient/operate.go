package proxyclient

import (
	"context"
	"errors"
	"fmt"
	"net/http"

	"github.com/leasectl/leasectl/leaseapi"
)

// The calls of operators. Like [Client.Health] they retry until ctx ends, or until there
// was no good answer for too long ([ErrUnreachable]). A request that arrives twice has no
// further effect. The errors are [ErrUnknownType] for an unknown pool, [ErrUnknownRequest]
// for an unknown request, and [errors.ErrUnsupported] if the proxy is of version 1.

// Break takes the lease of name away from its holder. From then on the holder's renewals
// fail with reason. The name becomes free when the holder releases it or its TTL ends, or
// at once if now is set.
//
// Break means the lease that is held when it begins. Retries never hit a later holder. The
// error is [ErrNotHeld] if nobody holds the name then, or if the lease ends meanwhile.
func (c *Client) Break(ctx context.Context, name, reason string, now bool) (reply leaseapi.BreakReply, err error) {
	pools, err := c.Pools(ctx)
	if err != nil {
		return reply, fmt.Errorf("break: %w", err)
	}
	req := leaseapi.BreakRequest{Name: name, Generation: generationOf(pools, name), Reason: reason, Now: now}
	if req.Generation == 0 {
		return reply, fmt.Errorf("break: %w %q", ErrNotHeld, leaseapi.Shorten(name))
	}
	err = c.operate(ctx, "break", leaseapi.PathBreak, req, &reply)
	cleanLease(&reply.Lease)
	return reply, err
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

// Pause stops the grants of a pool until [Client.Resume]; waiters are told reason.
func (c *Client) Pause(ctx context.Context, typ, reason string) (reply leaseapi.PauseReply, err error) {
	err = c.operatePool(ctx, "pause", leaseapi.PathPause, typ, leaseapi.PauseRequest{Type: typ, Reason: reason}, &reply)
	return reply, err
}

// Resume ends a pause. The reply has the ended pause, or no reason if the pool was not
// paused.
func (c *Client) Resume(ctx context.Context, typ string) (reply leaseapi.PauseReply, err error) {
	err = c.operatePool(ctx, "resume", leaseapi.PathResume, typ, leaseapi.ResumeRequest{Type: typ}, &reply)
	makePrintable(&reply.Reason)
	return reply, err
}

// Remove takes a waiter off the queue. The waiter's client is told reason ([ErrRemoved]).
func (c *Client) Remove(ctx context.Context, requestID, reason string) (reply leaseapi.RemoveReply, err error) {
	err = c.operate(ctx, "remove", leaseapi.PathRemove, leaseapi.RemoveRequest{RequestID: requestID, Reason: reason}, &reply)
	if errors.Is(err, ErrUnknownRequest) {
		err = fmt.Errorf("%w %s", err, requestID)
	}
	makePrintable(&reply.Owner, &reply.Token, &reply.Type)
	return reply, err
}

// Move gives a waiter another priority. Its reason is for the server's log.
func (c *Client) Move(ctx context.Context, requestID string, priority int, reason string) (reply leaseapi.MoveReply, err error) {
	if err := c.ensureWire(ctx, wireSwaps, "a move", &patience{limits: usualLimits}); err != nil {
		return reply, fmt.Errorf("move: %w", err)
	}
	err = c.operate(ctx, "move", leaseapi.PathMove, leaseapi.MoveRequest{RequestID: requestID, Priority: priority, Reason: reason}, &reply)
	if errors.Is(err, ErrUnknownRequest) {
		err = fmt.Errorf("%w %s", err, requestID)
	}
	makePrintable(&reply.Owner, &reply.Token, &reply.Type)
	return reply, err
}

// operatePool is operate for the pool of a type.
func (c *Client) operatePool(ctx context.Context, what, path, typ string, req, reply any) error {
	err := c.operate(ctx, what, path, req, reply)
	if errors.Is(err, ErrUnknownType) {
		return fmt.Errorf("%s: %w", what, &UnknownTypeError{Type: typ, Listed: true})
	}
	return err
}

func (c *Client) operate(ctx context.Context, what, path string, req, reply any) error {
	return c.carryOut(ctx, what, post(path, req, idempotent{}), func(o outcome) bool {
		return o.StatusCode == http.StatusOK && o.decode(reply) == nil
	})
}

// carryOut makes a call. It succeeds if done returns true for the answer.
func (c *Client) carryOut(ctx context.Context, what string, q call, done func(outcome) bool) error {
	p := patience{limits: usualLimits}
	o := c.do(ctx, q, &p)
	var err error
	switch {
	case o.err != nil:
		err = c.failure(ctx, o, &p)
	case done(o):
		return nil
	case o.misrouted():
		err = unsupported(q.path)
	case o.is(leaseapi.ProblemUnknownType):
		err = ErrUnknownType
	case o.is(leaseapi.ProblemUnknownRequest):
		err = ErrUnknownRequest
	case o.is(leaseapi.ProblemNotHeld):
		err = &reworded{text: o.text(), err: ErrNotHeld}
	default:
		err = c.failure(ctx, o, &p)
	}
	return fmt.Errorf("%s: %w", what, err)
}
