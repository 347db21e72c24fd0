package proxyclient

import (
	"context"
	"crypto/rand"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"net/url"

	"github.com/leasectl/leasectl/leaseapi"
)

// Health asks whether the proxy serves, and which wire it speaks. Like
// [Client.Pools] and [Client.RequestState] it retries until ctx ends, or
// until there was no good answer for too long ([ErrUnreachable]). The error is
// [errors.ErrUnsupported] if the proxy is of version 1.
func (c *Client) Health(ctx context.Context) (leaseapi.Health, error) {
	h, err := c.health(ctx, &patience{limits: usualLimits})
	if err != nil {
		return leaseapi.Health{}, fmt.Errorf("ask for health: %w", err)
	}
	return h, nil
}

func (c *Client) health(ctx context.Context, p *patience) (h leaseapi.Health, err error) {
	err = c.get(ctx, leaseapi.PathHealth, &h, p)
	if err == nil && h.Wire < wireIDs {
		err = unsupported(leaseapi.PathHealth)
	}
	if err == nil {
		c.learn(h.Wire)
	}
	return h, err
}

// ensureWire returns an [OlderError] if the proxy speaks a lower wire than the feature named
// what needs. Answers of servers before wire 4 only prove a lowest wire, so ensureWire asks for the
// health, which states the exact wire.
func (c *Client) ensureWire(ctx context.Context, needs int, what string, p *patience) error {
	if c.known().wire >= needs {
		return nil
	}
	h, err := c.health(ctx, p)
	switch {
	case errors.Is(err, errors.ErrUnsupported):
		return &OlderError{Proxy: c.name, Wire: wireNames, Needs: what, needs: needs}
	case err == nil && h.Wire < needs:
		return &OlderError{Proxy: c.name, Wire: h.Wire, Needs: what, needs: needs}
	}
	return err
}

// CanSwap tells whether a request at the proxy may replace leases: see [Request]. It asks the
// proxy if that is not known, as [Client.Health] does.
func (c *Client) CanSwap(ctx context.Context) (bool, error) {
	err := c.ensureWire(ctx, wireSwaps, "", &patience{limits: usualLimits})
	if errors.Is(err, ErrOlder) {
		return false, nil
	}
	return err == nil, err
}

// maxPages bounds how much a peer can make Pools read: half a million leases.
const maxPages = 1000

// Pools returns the state of all pools. It reads them in pages, each of its own moment. The
// error is [errors.ErrUnsupported] if the proxy is of version 1. More than maxPages pages are
// an error: a lease on a page that was not read would look free.
func (c *Client) Pools(ctx context.Context) ([]leaseapi.Pool, error) {
	all, err := c.Overview(ctx)
	return all.Pools, err
}

// Overview returns the pools, like [Client.Pools], and the server that leads.
func (c *Client) Overview(ctx context.Context) (leaseapi.PoolsReply, error) {
	var all leaseapi.PoolsReply
	path := leaseapi.PathPools
	for range maxPages {
		var r leaseapi.PoolsReply
		err := c.get(ctx, path, &r, &patience{limits: usualLimits})
		if err == nil && r.Pools == nil {
			err = unsupported(leaseapi.PathPools)
		}
		if err != nil {
			return leaseapi.PoolsReply{}, fmt.Errorf("ask for the pools: %w", err)
		}
		all.Pools, all.Leader = appendPage(all.Pools, r.Pools), r.Leader
		if r.Next == "" {
			cleanOverview(&all)
			return all, nil
		}
		path = leaseapi.PathPools + "?" + url.Values{leaseapi.ParamAfter: {r.Next}}.Encode()
	}
	return leaseapi.PoolsReply{}, fmt.Errorf("ask for the pools: the proxy has more than %d pages of them: look at its status page", maxPages)
}

// appendPage appends the pools of the next page to all. If the first of them continues the
// last pool of all, the two are joined.
func appendPage(all, page []leaseapi.Pool) []leaseapi.Pool {
	if len(all) > 0 && len(page) > 0 && all[len(all)-1].Type == page[0].Type {
		last := &all[len(all)-1]
		last.Leases = append(last.Leases, page[0].Leases...)
		last.Waiters = append(last.Waiters, page[0].Waiters...)
		page = page[1:]
	}
	return append(all, page...)
}

// cleanOverview makes the texts of the pools and of the leader printable.
func cleanOverview(all *leaseapi.PoolsReply) {
	for i := range all.Pools {
		cleanPool(&all.Pools[i])
	}
	if all.Leader != nil {
		makePrintable(&all.Leader.URL)
	}
}

// cleanPool makes the texts printable that clients gave for the leases, waiters and reports
// of a pool.
func cleanPool(p *leaseapi.Pool) {
	for i := range p.Leases {
		cleanLease(&p.Leases[i])
	}
	for i := range p.Waiters {
		w := &p.Waiters[i]
		makePrintable(&w.Owner, &w.Token, &w.Key, &w.Reason)
	}
	if m := p.Moved; m != nil {
		makePrintable(&m.Owner, &m.Token, &m.Detail)
	}
}

// RequestState returns the state of the request with that id. The error is
// [ErrUnknownRequest] if the proxy does not know the request, and
// [errors.ErrUnsupported] if the proxy is of version 1.
func (c *Client) RequestState(ctx context.Context, id string) (leaseapi.RequestReply, error) {
	if err := leaseapi.CheckRequestID(id); err != nil {
		return leaseapi.RequestReply{}, fmt.Errorf("ask for the request: %w", err)
	}
	r, err := c.requestState(ctx, id, false, &patience{limits: usualLimits})
	if err != nil {
		return leaseapi.RequestReply{}, fmt.Errorf("ask for the request: %w", err)
	}
	return r, nil
}

// Capabilities returns what the proxy can do. The client remembers every answer
// that proves a capability: a grant, a place in the queue, the state of a request, the
// health. Before the first such answer, Capabilities asks for the state of a request
// that does not exist. Like [Client.Pools] it retries until ctx ends, or
// until there was no good answer for too long ([ErrUnreachable]).
//
// A proxy that has neither the path of requests nor a health of ours is of version 1. The
// client does not remember this, since a gateway that does not find the proxy at the
// moment answers in the same way.
func (c *Client) Capabilities(ctx context.Context) (Capabilities, error) {
	can, err := c.identify(ctx, rand.Text(), &patience{limits: usualLimits})
	if err != nil {
		return Capabilities{}, fmt.Errorf("ask what the proxy can do: %w", err)
	}
	return can, nil
}

// identify is Capabilities, and asks for the state of the request with that id.
func (c *Client) identify(ctx context.Context, id string, p *patience) (Capabilities, error) {
	if can := c.known(); can.Known() {
		return can, nil
	}
	_, err := c.requestState(ctx, id, false, p)
	switch {
	case err == nil || errors.Is(err, ErrUnknownRequest), errors.Is(err, ErrNotLeader): // each proves the wire
		return c.known(), nil
	case !errors.Is(err, errors.ErrUnsupported):
		return Capabilities{}, err
	}
	// The proxy is of version 1, or a gateway replaced our server's 404 by its own page. A
	// health is no error, so a gateway lets it through. One question is enough: a health
	// that fails is not from our server.
	_, err = c.health(ctx, &patience{end: Now()})
	can := c.known()
	switch {
	case can.Known():
		return can, nil
	case ctx.Err() != nil: // the question was cut short, and says nothing
		return Capabilities{}, because(ctx, err)
	}
	return Capabilities{wire: wireNames}, nil
}

// requestState is RequestState, and learns what the proxy can do. A proxy that recognises
// request ids answers with the same id, or with our server's problem that there is no
// such request. A version-1 proxy lacks the path. Any other answer proves nothing. With
// fresh, the question is sent on a connection of its own.
func (c *Client) requestState(ctx context.Context, id string, fresh bool, p *patience) (r leaseapi.RequestReply, err error) {
	answers := func(a answer) bool {
		r = leaseapi.RequestReply{} // an earlier attempt may have had another answer
		return a.StatusCode == http.StatusOK && a.decode(&r) == nil && r.RequestID == id
	}
	q := query(leaseapi.PathRequests + id)
	q.fresh, q.mine = fresh, mineByID(id)
	q.repeat = idempotent{unfinished: func(a answer) bool { return a.StatusCode == http.StatusOK && !answers(a) }}
	o := c.do(ctx, q, p)
	switch {
	case o.err != nil:
		return leaseapi.RequestReply{}, c.failure(ctx, o, p)
	case answers(o.answer):
		c.learn(wireIDs)
		r.Page = c.pageURL(r.Page)
		return r, nil
	case o.is(leaseapi.ProblemUnknownRequest):
		c.learn(wireIDs)
		return leaseapi.RequestReply{}, fmt.Errorf("%w %s", ErrUnknownRequest, id)
	case o.StatusCode == http.StatusNotFound || o.StatusCode == http.StatusMethodNotAllowed:
		return leaseapi.RequestReply{}, unsupported(leaseapi.PathRequests)
	}
	return leaseapi.RequestReply{}, c.failure(ctx, o, p)
}

// get reads the answer of path, which version 1 does not know, into v. Any JSON object
// can be read into v, so the caller checks that it is the expected one.
func (c *Client) get(ctx context.Context, path string, v any, p *patience) error {
	q := query(path)
	if c.known().RequestIDs() {
		q.mine = func(a answer) bool { return a.StatusCode != http.StatusOK || a.isPage() || json.Valid(a.body) }
	}
	o := c.do(ctx, q, p)
	switch {
	case o.err != nil:
		return c.failure(ctx, o, p)
	case o.StatusCode == http.StatusOK && o.decode(v) == nil:
		return nil
	case o.foreign():
		return fmt.Errorf("%w: %w: it is no lease proxy, or of version 1, which has no %s", errors.ErrUnsupported, o.failure(), path)
	case o.misrouted() || o.StatusCode == http.StatusOK:
		return unsupported(path)
	}
	return c.failure(ctx, o, p)
}

// unsupported returns the error for a feature that a version-1 proxy does not have.
func unsupported(what string) error {
	return fmt.Errorf("%w: the proxy is of version 1, which has no %s", errors.ErrUnsupported, what)
}
