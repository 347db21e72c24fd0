package proxyclient

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"time"

	"github.com/leasectl/leasectl/leaseapi"
)

const (
	// holdTTL is the TTL that Hold asks for by default: if the process is killed, nobody else has the lease
	// for this long.
	holdTTL = 5 * time.Minute
	// holdMargin is the Margin of Hold's [Heartbeat].
	holdMargin = 10 * time.Second
)

// NotReleasedError is the error of [Client.Hold] if its function has done its work, and the leases could not be
// given back: they end with their TTL. The work need not be repeated.
type NotReleasedError struct {
	Leases []leaseapi.Lease
	Err    error // of the release
}

func (e *NotReleasedError) Error() string { return "not released: " + e.Err.Error() }

// Unwrap returns the error of the release.
func (e *NotReleasedError) Unwrap() error { return e.Err }

// Hold acquires what r asks for, calls fn, and gives the leases back when fn has returned, also by a panic or
// [runtime.Goexit]. Until then it renews them, also if ctx has ended meanwhile.
//
// With a TTL of zero Hold asks for five minutes, and with a Wait of zero it waits until ctx ends. fn begins
// once the first renewal has confirmed the grant.
//
// fn should return when its context ends: if ctx does or the leases are lost. Then the cause is a
// [LostError]. Of leases that cannot be renewed, or for which somebody asked for a delayed release, it comes ten
// seconds before their end, or in the middle of a short TTL: until then fn must have stopped.
//
// The error is that of [Client.Acquire], or the cause of ctx, and fn was not called; or that of fn; or [ErrLost], even if fn
// returned nil, with fn's error if that says more; or a [NotReleasedError], with fn's error if there is
// one. Giving back takes ten seconds at most, and no time if the leases are over.
//
// At a version-1 proxy leases are neither confirmed nor renewed, and last until they are given back. A
// request that coalesces may end without a lease, so Hold refuses it: use Acquire.
func (c *Client) Hold(ctx context.Context, r Request, fn func(ctx context.Context, g *Grant) error) error {
	if r.Coalesce != "" {
		return fmt.Errorf("hold: a request that coalesces may end without a lease: use Acquire: %w", errors.ErrUnsupported)
	}
	if r.TTL == 0 {
		r.TTL = holdTTL
	}
	if r.Wait == 0 {
		r.Wait = unbounded
	}
	g, err := c.Acquire(ctx, r)
	if err != nil {
		return err
	}
	h := &hold{client: c, grant: g, owner: r.Owner, confirmed: make(chan struct{})}
	work, lose := context.WithCancelCause(ctx)
	defer lose(nil)
	beat, stop := context.WithCancel(context.WithoutCancel(ctx))
	var beats sync.WaitGroup
	beats.Go(func() {
		if h.lost = h.beat(beat); h.lost != nil {
			lose(h.lost)
		}
	})
	done := false
	end := func() error {
		done = true
		stop()
		beats.Wait()
		return h.giveBack(context.WithoutCancel(ctx))
	}
	defer func() {
		if !done { // fn panics, which says more than a failed release
			_ = end()
		}
	}()
	select {
	case <-h.confirmed:
		err = fn(work, g)
	case <-work.Done():
		err = context.Cause(work)
	}
	return h.result(err, end())
}

// hold is one [Client.Hold] with a grant.
type hold struct {
	client    *Client
	grant     *Grant
	owner     string
	confirmed chan struct{} // closed when fn may begin
	deadline  Instant       // of the leases, as the last renewal says
	lost      *LostError    // nil: the leases are held
}

// beat renews the leases until ctx ends, and then returns nil, or until they are lost.
func (h *hold) beat(ctx context.Context) *LostError {
	confirm := sync.OnceFunc(func() { close(h.confirmed) })
	if h.grant.Capabilities != Ours {
		confirm()
		return nil
	}
	h.deadline = h.grant.Deadline()
	b := Heartbeat{
		Client: h.client, Leases: h.grant.Leases, Deadline: h.deadline, TTL: h.grant.TTL, Margin: holdMargin,
		OnRenew: func(r Renewal) { h.deadline = r.Deadline; confirm() },
	}
	lost, _ := errors.AsType[*LostError](b.Run(ctx))
	return lost
}

// giveBack releases the leases, unless they are over. The heartbeat has ended.
func (h *hold) giveBack(ctx context.Context) error {
	leases := h.grant.Leases
	if h.lost != nil && h.lost.Deadline.IsZero() {
		leases = h.held(h.lost)
	}
	ends := releaseTime
	if !h.deadline.IsZero() {
		ends = min(ends, Until(h.deadline))
	}
	if len(leases) == 0 || ends <= 0 {
		return nil
	}
	ctx, cancel := context.WithTimeout(ctx, ends)
	defer cancel()
	reply, err := h.client.Release(ctx, Releasing(leases, h.owner))
	if err != nil {
		return &NotReleasedError{Leases: leases, Err: err}
	}
	if h.lost == nil && len(reply.Stale) > 0 {
		h.lost = &LostError{Lost: reply.Stale}
	}
	return nil
}

// held returns the leases that a loss does not name.
func (h *hold) held(lost *LostError) (leases []leaseapi.Lease) {
	over := make(map[string]bool)
	for _, l := range lost.Lost {
		over[l.Name] = true
	}
	for _, l := range h.grant.Leases {
		if !over[l.Name] {
			leases = append(leases, l)
		}
	}
	return leases
}

// result is the error of a Hold whose function, or wait for it, came to err.
func (h *hold) result(err, release error) error {
	first := release
	if h.lost != nil {
		first = h.lost
	}
	switch {
	case first == nil:
		return err
	case err == nil, errors.Is(err, first), h.lost != nil && errors.Is(err, context.Canceled):
		err = first
	default:
		err = fmt.Errorf("%w: %w", first, err)
	}
	return fmt.Errorf("hold: %w", err)
}
