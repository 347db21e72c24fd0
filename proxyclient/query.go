package proxyclient

import (
	"context"
	"errors"
	"fmt"
	"net/http"

	"github.com/leasectl/leasectl/leaseapi"
)

// Health asks whether the proxy serves, and which wire it speaks. Like
// [Client.Pools] and [Client.RequestState] it tries again until ctx ends, or
// until there was no HTTP answer for 30 s ([ErrUnreachable]). The error is
// [errors.ErrUnsupported] if the proxy is of version 1.
func (c *Client) Health(ctx context.Context) (leaseapi.Health, error) {
	var h leaseapi.Health
	err := c.get(ctx, leaseapi.PathHealth, &h)
	if err == nil && h.Wire < leaseapi.Wire {
		err = unsupported(leaseapi.PathHealth)
	}
	if err != nil {
		return leaseapi.Health{}, fmt.Errorf("ask for health: %w", err)
	}
	return h, nil
}

// Pools returns the state of all pools. The error is [errors.ErrUnsupported] if
// the proxy is of version 1.
func (c *Client) Pools(ctx context.Context) ([]leaseapi.Pool, error) {
	var r leaseapi.PoolsReply
	err := c.get(ctx, leaseapi.PathPools, &r)
	if err == nil && r.Pools == nil {
		err = unsupported(leaseapi.PathPools)
	}
	if err != nil {
		return nil, fmt.Errorf("ask for the pools: %w", err)
	}
	for _, p := range r.Pools {
		for i := range p.Leases {
			cleanLease(&p.Leases[i])
		}
	}
	return r.Pools, nil
}

// cleanLease cleans what other clients, or an operator, gave for a lease.
func cleanLease(l *leaseapi.PoolLease) {
	for _, s := range []*string{&l.Name, &l.Owner, &l.Token, &l.Broken} {
		*s = clean(*s)
	}
}

// RequestState returns what has become of the request with that id. The error
// is [ErrUnknownRequest] if the proxy does not know it, and
// [errors.ErrUnsupported] if the proxy is of version 1.
func (c *Client) RequestState(ctx context.Context, id string) (leaseapi.RequestReply, error) {
	if err := checkRequestID(id); err != nil {
		return leaseapi.RequestReply{}, fmt.Errorf("ask for the request: %w", err)
	}
	r, err := c.requestState(ctx, id, &patience{silence: maxSilence})
	if err != nil {
		return leaseapi.RequestReply{}, fmt.Errorf("ask for the request: %w", err)
	}
	return r, nil
}

// requestState also finds out whether the proxy knows request ids: it answers
// for the id that was asked for, or says in our own words that there is none.
// One of version 1 has no such path. Any other answer says nothing of that.
func (c *Client) requestState(ctx context.Context, id string, p *patience) (r leaseapi.RequestReply, err error) {
	known := func(o outcome) bool {
		return o.StatusCode == http.StatusOK && o.decode(&r) == nil && r.RequestID == id
	}
	q := query(leaseapi.PathRequests + id)
	q.again = func(o outcome) bool {
		return transient(o) || o.StatusCode == http.StatusOK && !known(o)
	}
	o := c.exchange(ctx, q, p)
	switch {
	case o.err != nil:
		return r, c.failure(ctx, o, p)
	case known(o):
		c.knowsIDs.Store(true)
		return r, nil
	case o.is(leaseapi.ProblemUnknownRequest):
		c.knowsIDs.Store(true)
		return r, fmt.Errorf("%w %s", ErrUnknownRequest, id)
	case o.StatusCode == http.StatusNotFound || o.StatusCode == http.StatusMethodNotAllowed:
		return r, unsupported(leaseapi.PathRequests)
	}
	return leaseapi.RequestReply{}, c.failure(ctx, o, p)
}

// get reads path into v, which has to be checked for being what was asked for.
func (c *Client) get(ctx context.Context, path string, v any) error {
	p := patience{silence: maxSilence}
	o := c.exchange(ctx, query(path), &p)
	if o.err != nil {
		return c.failure(ctx, o, &p)
	}
	if o.StatusCode == http.StatusOK && o.decode(v) == nil {
		return nil
	}
	if o.misrouted() || o.StatusCode == http.StatusOK {
		return unsupported(path)
	}
	return c.failure(ctx, o, &p)
}

func query(path string) call {
	return call{method: http.MethodGet, path: path, timeout: quickTime, again: transient}
}

// unsupported is the error for what a version-1 proxy does not have.
func unsupported(path string) error {
	return fmt.Errorf("%w: the proxy is of version 1, which has no %s", errors.ErrUnsupported, path)
}
