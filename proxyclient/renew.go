package proxyclient

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"time"

	"github.com/leasectl/leasectl/leaseapi"
)

// Renewal is what a renewal came to.
type Renewal struct {
	TTL        time.Duration // the shortest of the leases'
	RenewEvery time.Duration // when to renew next, counted from Asked
	Asked      Instant       // when the renewal that was answered began
	// ReleaseAt is set while a delayed release is pending: by the clock of the
	// proxy, and for people. Renewals no longer move the end of the leases.
	ReleaseAt time.Time
	// Deadline is when the leases end at the earliest: a TTL after Asked, or
	// when the delayed release is due.
	Deadline Instant
}

// Renew renews leases, each for ttl from now; zero leaves each its own. The
// first renewal confirms a grant. It tries again until ctx ends, or until
// there was no HTTP answer for 30 s ([ErrUnreachable]).
//
// If the proxy says that leases are lost, the error is a [LostError]; those
// that are not in it were renewed. It is [errors.ErrUnsupported] if a lease has
// no generation, since then it is from a version-1 proxy.
func (c *Client) Renew(ctx context.Context, leases []leaseapi.Lease, ttl time.Duration) (Renewal, error) {
	r := renewal{c: c, leases: leases, ttl: ttl, p: patience{silence: maxSilence, longest: longestBefore(ctx)}}
	n, err := r.run(ctx)
	if err != nil {
		return Renewal{}, fmt.Errorf("renew: %w", err)
	}
	return n, nil
}

// errLate ends a renewal that can no longer be of use.
var errLate = errors.New("no answer in time")

// renewal is one Renew.
type renewal struct {
	c      *Client
	leases []leaseapi.Lease
	ttl    time.Duration
	p      patience
	late   func() bool // no attempt begins once it is true; may be nil
}

func (r *renewal) run(ctx context.Context) (Renewal, error) {
	if err := renewable(r.leases); err != nil {
		return Renewal{}, err
	}
	body, err := json.Marshal(leaseapi.RenewRequest{Leases: r.leases, TTL: leaseapi.Duration(r.ttl)})
	if err != nil {
		return Renewal{}, err
	}
	o := r.c.exchange(ctx, call{
		method: http.MethodPost, path: leaseapi.PathRenew, body: body, timeout: quickTime,
		prepare: func(*http.Request) error {
			if r.late != nil && r.late() {
				return errLate
			}
			return nil
		},
		again: unsettled,
	}, &r.p)
	if o.err == nil && o.is(leaseapi.ProblemLost) {
		return Renewal{}, r.lost(o)
	}
	var reply leaseapi.RenewReply
	if o.err != nil || o.StatusCode != http.StatusOK {
		return Renewal{}, r.c.failure(ctx, o, &r.p)
	}
	if err := o.decode(&reply); err != nil {
		return Renewal{}, err
	}
	if reply.TTL <= 0 {
		return Renewal{}, fmt.Errorf("the proxy renewed for %s", time.Duration(reply.TTL))
	}
	return renewed(reply, o), nil
}

// renewable refuses leases that no proxy would renew.
func renewable(leases []leaseapi.Lease) error {
	if len(leases) == 0 {
		return errors.New("there is no lease to renew")
	}
	for _, l := range leases {
		if l.Generation == 0 {
			return fmt.Errorf("%w: %q is from a proxy of version 1, which has no renewals", errors.ErrUnsupported, l.Name)
		}
	}
	return nil
}

func (r *renewal) lost(o outcome) error {
	p, _ := o.problem()
	if len(p.Lost) == 0 {
		for _, l := range r.leases {
			p.Lost = append(p.Lost, leaseapi.Lost{Lease: l, Reason: o.text()})
		}
	}
	return &LostError{Lost: p.Lost}
}

func renewed(reply leaseapi.RenewReply, o outcome) Renewal {
	n := Renewal{
		TTL:        time.Duration(reply.TTL),
		RenewEvery: time.Duration(reply.RenewEvery),
		Asked:      o.asked,
		ReleaseAt:  reply.ReleaseAt,
	}
	if n.RenewEvery <= 0 || n.RenewEvery >= n.TTL {
		n.RenewEvery = n.TTL / 3
	}
	n.Deadline = n.Asked.Add(n.TTL)
	if !n.ReleaseAt.IsZero() {
		// Both times are by the proxy's clock, so ours may be wrong.
		now, err := http.ParseTime(o.Header.Get("Date"))
		if err != nil {
			now = time.Now()
		}
		n.Deadline = n.Asked.Add(n.ReleaseAt.Sub(now))
	}
	return n
}
