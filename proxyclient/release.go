package proxyclient

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/leasectl/leasectl/leaseapi"
)

// releaseTime is how long a release is tried when nobody else set a bound.
const releaseTime = 10 * time.Second

// Releasing returns the request that gives leases back: by generation, and by
// bare name, bound to owner, those of a version-1 proxy.
func Releasing(leases []leaseapi.Lease, owner string) leaseapi.ReleaseRequest {
	var r leaseapi.ReleaseRequest
	for _, l := range leases {
		if CapabilitiesOf([]leaseapi.Lease{l}).NamesOnly() {
			r.Names = append(r.Names, l.Name)
		} else {
			r.Leases = append(r.Leases, l)
		}
	}
	if len(r.Names) > 0 {
		r.Owner = owner
	}
	return r
}

// Release gives leases back. It tries again until the proxy has settled all of
// them or ctx ends: give it a deadline, ten seconds is usual. A lease that is
// free already counts as released; one that is another's now is left alone and
// stands in the reply as stale. The reply also counts beside an error: it says
// what was released all the same.
//
// If ctx ends by a deadline after an attempt that failed without an HTTP answer, or
// before any came, the error is [ErrUnreachable]. A version-1 proxy ignores what it
// does not know, so where leases with generations, request ids or a delay are given to
// one, the error is [errors.ErrUnsupported], and nothing was done for these.
//
// If a version-1 proxy does not know a name, somebody else has released it; but if
// an earlier release of it got an error, or no answer, the error is an
// [UnconfirmedReleaseError]. See [Client.ReleaseAttempted] and the package's
// comment.
func (c *Client) Release(ctx context.Context, req leaseapi.ReleaseRequest) (leaseapi.ReleaseReply, error) {
	r := release{client: c, patience: patience{limits: noLimits, maxPause: maxPauseBefore(ctx)}}
	err := r.run(ctx, req)
	return r.reply, err // the caller says of what
}

// ReleaseAttempted tells the client that an earlier one may have sent a release of
// these bare names that did not succeed. If a version-1 proxy then does not know
// one of them, its release is unconfirmed.
func (c *Client) ReleaseAttempted(names []string) { c.released.set(names, attempted) }

// MayHaveReached reports whether a release of one of these bare names may have
// reached the proxy without success.
func (c *Client) MayHaveReached(names []string) bool {
	return slices.ContainsFunc(names, func(n string) bool { return c.released.of(n) == attempted })
}

// release is one Release.
type release struct {
	client   *Client
	patience patience
	reply    leaseapi.ReleaseReply
}

// run sends bare names in requests of their own: their answers mean other
// things.
func (r *release) run(ctx context.Context, req leaseapi.ReleaseRequest) error {
	names := leaseapi.ReleaseRequest{Names: once(req.Names), Owner: req.Owner, Delay: req.Delay}
	rest := req
	rest.Names, rest.Owner, rest.Leases = nil, "", once(req.Leases)
	var errs []error
	if len(rest.Leases)+len(rest.RequestIDs) > 0 {
		errs = append(errs, r.identified(ctx, rest))
	}
	if len(names.Names) > 0 {
		n := nameRelease{client: r.client, patience: &r.patience, reply: r.reply}
		errs = append(errs, n.run(ctx, names))
		r.reply = n.reply
	}
	return errors.Join(errs...)
}

// once returns a list without repetitions. A version-1 proxy that is told a name twice
// ends the lease, and then that of the next holder.
func once[T comparable](list []T) (out []T) {
	seen := make(map[T]bool, len(list))
	for _, v := range list {
		if !seen[v] {
			seen[v], out = true, append(out, v)
		}
	}
	return out
}

// identified releases by generation and by request id, which only our server
// knows. No two grants share one, so the request may be sent any number of times.
func (r *release) identified(ctx context.Context, req leaseapi.ReleaseRequest) error {
	if req.Delay > 0 && len(req.RequestIDs) > 0 {
		return errors.New("a release by request id cannot be put off")
	}
	var reply leaseapi.ReleaseReply
	var ours bool
	// unfinished reports a success that was no release: a login page, or, for a server
	// that is known to be ours, anything but its reply.
	unfinished := func(a answer) bool {
		reply, ours = a.releaseReply()
		return a.foreign() || !ours && r.client.known().RequestIDs()
	}
	o := r.client.do(ctx, post(leaseapi.PathRelease, req, idempotent{misrouted: true, unfinished: unfinished}), &r.patience)
	if o.err != nil || o.StatusCode/100 != 2 || o.foreign() {
		return r.client.failure(ctx, o, &r.patience)
	}
	if !ours {
		return fmt.Errorf("%w by this proxy: the release of %s (it answered %s and ignored them)",
			errors.ErrUnsupported, describe(req), o.Status)
	}
	r.reply = reply
	return nil
}

func describe(req leaseapi.ReleaseRequest) string {
	var what []string
	if len(req.Leases) > 0 {
		what = append(what, "leases with generations")
	}
	if len(req.RequestIDs) > 0 {
		what = append(what, "request ids")
	}
	return strings.Join(what, " and ")
}
