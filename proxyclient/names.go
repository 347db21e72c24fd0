package proxyclient

import (
	"context"
	"fmt"
	"slices"
	"strings"

	"github.com/leasectl/leasectl/leaseapi"
)

// This file holds the release of bare names, as version 1 knows it. Such a
// proxy releases in order, stops at the first name that it cannot release, and
// calls it an error if a name is free already.

// names releases until each name is released, or refused for good.
func (r *release) names(ctx context.Context, req leaseapi.ReleaseRequest) error {
	if err := r.mayDelay(ctx, req); err != nil {
		return err
	}
	var refused []error
	for round := 0; ; round++ {
		later, failed, err := r.pass(ctx, req, &refused)
		if err != nil {
			return join(append(refused, err)...)
		}
		if len(later) == 0 {
			return join(refused...)
		}
		if err := Sleep(ctx, r.p.pause(round, nil)); err != nil {
			return join(append(refused, fmt.Errorf("%w (%w)", failed, err))...)
		}
		req.Names = later
	}
}

// pass tries each name once. It returns those that the proxy could not release
// now, and why; and it adds to refused those that it never will.
func (r *release) pass(ctx context.Context, req leaseapi.ReleaseRequest, refused *[]error) (later []string, failed, err error) {
	for len(req.Names) > 0 {
		o, repeated, err := r.try(ctx, req)
		switch {
		case err != nil:
			return nil, nil, err
		case o.err == nil && o.StatusCode/100 == 2 && !o.foreign():
			if !r.settled(o) {
				r.reply.Released = append(r.reply.Released, req.Names...)
			}
			return later, failed, nil
		}
		at := stoppedAt(o, req.Names)
		if at < 0 {
			return nil, nil, r.c.failure(ctx, o, &r.p)
		}
		name := req.Names[at]
		r.reply.Released = append(r.reply.Released, req.Names[:at]...)
		r.c.markReleased(req.Names[:at])
		switch {
		case !strings.Contains(string(o.body), leaseapi.TextNoName):
			later, failed = append(later, name), o.failed()
			r.c.markReleased([]string{name}) // who knows how far it came
		case repeated(name):
			r.reply.Released = append(r.reply.Released, name)
		default:
			*refused = append(*refused, o.failed())
		}
		req.Names = req.Names[at+1:]
	}
	return later, failed, nil
}

// try sends one request. repeated tells of a name whether an earlier request,
// of this call or of another one of this client, may have released it.
func (r *release) try(ctx context.Context, req leaseapi.ReleaseRequest) (o outcome, repeated func(string) bool, err error) {
	before := r.c.markedReleased(req.Names)
	arrived, last := false, false // an attempt before the last one may have; the last one
	o, err = r.send(ctx, req, 0, func(o outcome) bool {
		stopped := stoppedAt(o, req.Names) >= 0
		arrived, last = arrived || last, o.sent && (transient(o) || o.foreign()) && !stopped
		if last || o.err == nil && o.StatusCode/100 == 2 {
			r.c.markReleased(req.Names)
		}
		return unreleased(o) && !stopped
	})
	return o, func(n string) bool { return arrived || slices.Contains(before, n) }, err
}

// stoppedAt returns the place in names of the one that a version-1 proxy says
// it could not release; -1 if it says no such thing.
func stoppedAt(o outcome, names []string) int {
	if o.err != nil || o.StatusCode < 500 {
		return -1
	}
	rest, ok := strings.CutPrefix(string(o.body), leaseapi.TextReleaseFailed)
	if !ok {
		return -1
	}
	at := -1
	for i, n := range names {
		says := strings.HasPrefix(rest, n+":") || strings.HasPrefix(rest, fmt.Sprintf("%q:", n))
		if says && (at < 0 || len(n) > len(names[at])) { // "a:b" rather than "a"
			at = i
		}
	}
	return at
}

// mayDelay refuses a delay that the proxy would ignore: it would release the
// names at once, under the feet of their holder.
func (r *release) mayDelay(ctx context.Context, req leaseapi.ReleaseRequest) error {
	if req.Delay <= 0 || r.c.knowsIDs.Load() {
		return nil
	}
	if _, err := r.c.Health(ctx); err != nil {
		return fmt.Errorf("put off: %w", err)
	}
	return nil
}

// markReleased notes that names may have been released by this client.
func (c *Client) markReleased(names []string) {
	c.mu.Lock()
	defer c.mu.Unlock()
	for _, n := range names {
		c.released[n] = true
	}
}

// markedReleased returns those of names that are so noted.
func (c *Client) markedReleased(names []string) []string {
	c.mu.Lock()
	defer c.mu.Unlock()
	return slices.DeleteFunc(slices.Clone(names), func(n string) bool { return !c.released[n] })
}

// forgetReleased drops the notes on leases that were granted anew.
func (c *Client) forgetReleased(leases []leaseapi.Lease) {
	c.mu.Lock()
	defer c.mu.Unlock()
	for _, l := range leases {
		delete(c.released, l.Name)
	}
}
