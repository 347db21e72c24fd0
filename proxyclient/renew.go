package proxyclient

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"time"

	"github.com/leasectl/leasectl/leaseapi"
)

// Renewal is the result of a successful renewal.
type Renewal struct {
	TTL        time.Duration // the shortest TTL of the leases
	RenewEvery time.Duration // time from Asked to the next renewal
	Asked      Instant       // when the attempt began that was answered
	// ReleaseAt is set while a delayed release is pending. It is by the proxy's
	// clock, for people. Renewals no longer move the end of the leases.
	ReleaseAt time.Time
	// Deadline is the earliest end of the leases: TTL after Asked, or
	// when the delayed release is due.
	Deadline Instant
}

// Renew renews leases, each for ttl from now; with zero each lease keeps its own TTL.
// The first renewal confirms a grant. Renew retries until ctx ends, or until there was
// no good answer for too long ([ErrUnreachable]).
//
// If the proxy says that leases are lost, the error is a [LostError]; the leases that
// it does not name were renewed. The error is [errors.ErrUnsupported] if a lease has no
// generation, since such a lease is from a version-1 proxy.
func (c *Client) Renew(ctx context.Context, leases []leaseapi.Lease, ttl time.Duration) (Renewal, error) {
	r := renewal{client: c, leases: leases, ttl: ttl, patience: patience{limits: usualLimits, maxPause: maxPauseBefore(ctx)}}
	n, err := r.run(ctx)
	if err != nil {
		return Renewal{}, fmt.Errorf("renew: %w", err)
	}
	return n, nil
}

// errLate ends a renewal that is too late, or no longer needed.
var errLate = errors.New("no answer in time")

// renewal is one Renew.
type renewal struct {
	client   *Client
	leases   []leaseapi.Lease
	ttl      time.Duration
	patience patience
	late     func() bool // no attempt begins once it is true; may be nil
}

func (r *renewal) run(ctx context.Context) (Renewal, error) {
	if err := renewable(r.leases); err != nil {
		return Renewal{}, err
	}
	q := post(leaseapi.PathRenew, leaseapi.RenewRequest{Leases: r.leases, TTL: leaseapi.Duration(r.ttl)}, idempotent{misrouted: true})
	q.prepare, q.mine = r.prepare, r.mine
	o := r.client.do(ctx, q, &r.patience)
	if o.err == nil && o.is(leaseapi.ProblemLost) {
		return Renewal{}, lostError(o, r.leases)
	}
	var reply leaseapi.RenewReply
	if o.err != nil || o.StatusCode != http.StatusOK {
		return Renewal{}, r.client.failure(ctx, o, &r.patience)
	}
	if err := o.decode(&reply); err != nil {
		return Renewal{}, err
	}
	if reply.TTL <= 0 {
		return Renewal{}, fmt.Errorf("the proxy renewed for %s", time.Duration(reply.TTL))
	}
	return renewalOf(reply, o), nil
}

// prepare stops a renewal that is too late.
func (r *renewal) prepare(*http.Request) error {
	if r.late != nil && r.late() {
		return errLate
	}
	return nil
}

// renewable returns an error if no proxy would renew leases.
func renewable(leases []leaseapi.Lease) error {
	if len(leases) == 0 {
		return errors.New("there is no lease to renew")
	}
	if !CapabilitiesOf(leases).Renews() {
		return unsupported("renewals")
	}
	return nil
}

// lostError returns the error of a call that was answered with [leaseapi.ProblemLost]. If
// the answer names no leases, all of leases are lost.
func lostError(o outcome, leases []leaseapi.Lease) *LostError {
	p, _ := o.problem()
	if len(p.Lost) == 0 {
		for _, l := range leases {
			p.Lost = append(p.Lost, leaseapi.Lost{Lease: l, Reason: o.text()})
		}
	}
	return &LostError{Lost: p.Lost}
}

// renewalOf turns reply, the answer of o, into a Renewal.
func renewalOf(reply leaseapi.RenewReply, o outcome) Renewal {
	n := Renewal{
		TTL:        time.Duration(reply.TTL),
		RenewEvery: renewEvery(reply.RenewEvery, time.Duration(reply.TTL)),
		Asked:      o.asked,
		ReleaseAt:  reply.ReleaseAt,
	}
	n.Deadline = n.Asked.Add(n.TTL)
	if !n.ReleaseAt.IsZero() {
		// Both times are by the proxy's clock, so the local clock may be wrong.
		now, err := http.ParseTime(o.Header.Get("Date"))
		if err != nil {
			now = time.Now()
		}
		n.Deadline = n.Asked.Add(n.ReleaseAt.Sub(now))
	}
	return n
}
