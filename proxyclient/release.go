package proxyclient

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"math"
	"net/http"
	"strings"
	"time"

	"github.com/leasectl/leasectl/leaseapi"
)

const (
	// releaseTime is how long a release is tried when nobody else set a bound.
	releaseTime = 10 * time.Second
	// quickTime is how long one attempt may stay without answer where there is
	// nothing to wait for and a repetition does no harm: more than a slow
	// commit takes, and short enough to try a second connection.
	quickTime = 4 * time.Second
)

// Releasing returns the request that gives leases back: by generation, and by
// bare name, bound to owner, those of a version-1 proxy.
func Releasing(leases []leaseapi.Lease, owner string) leaseapi.ReleaseRequest {
	var r leaseapi.ReleaseRequest
	for _, l := range leases {
		if l.Generation == 0 {
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
// free already counts as released; one that is another's by now is left alone
// and stands in the reply as stale. The reply also counts beside an error: it
// says what was released all the same.
//
// If ctx ends without any HTTP answer, the error is [ErrUnreachable]. A
// version-1 proxy ignores what it does not know, so where leases with
// generations, request ids or a delay are given to one, the error is
// [errors.ErrUnsupported], and nothing was done for these.
//
// Against a version-1 proxy, releasing the same names twice is harmless within
// this client only; see the package's comment.
func (c *Client) Release(ctx context.Context, req leaseapi.ReleaseRequest) (leaseapi.ReleaseReply, error) {
	r := release{c: c, p: patience{silence: math.MaxInt64, longest: longestBefore(ctx)}}
	if err := r.run(ctx, req); err != nil {
		return r.reply, fmt.Errorf("release: %w", err)
	}
	return r.reply, nil
}

// release is one Release.
type release struct {
	c     *Client
	p     patience
	reply leaseapi.ReleaseReply
}

// run sends bare names apart from the rest: their answers mean other things.
func (r *release) run(ctx context.Context, req leaseapi.ReleaseRequest) error {
	names := leaseapi.ReleaseRequest{Names: req.Names, Owner: req.Owner, Delay: req.Delay}
	rest := req
	rest.Names, rest.Owner = nil, ""
	var errs []error
	if len(rest.Leases)+len(rest.RequestIDs) > 0 {
		errs = append(errs, r.extended(ctx, rest))
	}
	if len(names.Names) > 0 {
		errs = append(errs, r.names(ctx, names))
	}
	return join(errs...)
}

// extended releases what only our server knows, and by a name of its own: it
// may be sent any number of times.
func (r *release) extended(ctx context.Context, req leaseapi.ReleaseRequest) error {
	if req.Delay > 0 && len(req.RequestIDs) > 0 {
		return errors.New("a release by request id cannot be put off")
	}
	o, err := r.send(ctx, req, quickTime, func(o outcome) bool {
		// What answers for a server that is known to be ours, and says nothing
		// of the release, is something before it.
		return unreleased(o) || o.StatusCode/100 == 2 && r.c.knowsIDs.Load() && !says(o)
	})
	switch {
	case err != nil:
		return err
	case o.err != nil || o.StatusCode/100 != 2 || o.foreign():
		return r.c.failure(ctx, o, &r.p)
	case !r.settled(o):
		return fmt.Errorf("%w by this proxy: the release of %s (it answered %s and ignored them)",
			errors.ErrUnsupported, described(req), o.Status)
	}
	return nil
}

// says reports whether an answer is the reply of our server.
func says(o outcome) bool {
	var has struct{ Released json.RawMessage }
	return o.decode(&has) == nil && has.Released != nil
}

// settled takes over the reply of our server, and reports whether there is one.
func (r *release) settled(o outcome) bool {
	var reply leaseapi.ReleaseReply
	if !says(o) || o.decode(&reply) != nil {
		return false
	}
	r.reply.Released = append(r.reply.Released, reply.Released...)
	r.reply.Stale = append(r.reply.Stale, reply.Stale...)
	return true
}

func (r *release) send(ctx context.Context, req leaseapi.ReleaseRequest, timeout time.Duration, again func(outcome) bool) (outcome, error) {
	body, err := json.Marshal(req)
	if err != nil {
		return outcome{}, err
	}
	q := call{method: http.MethodPost, path: leaseapi.PathRelease, body: body, timeout: timeout, again: again}
	return r.c.exchange(ctx, q, &r.p), nil
}

// transient reports an outcome that may be another if the request is sent
// again; for requests that may be sent twice.
func transient(o outcome) bool { return o.err != nil || o.passing() }

// unsettled is transient for what only a proxy can have granted: if nobody is
// found at its address, that may pass.
func unsettled(o outcome) bool { return transient(o) || o.misrouted() }

// unreleased is unsettled for releases: a success that is none passes too, once
// somebody has logged in.
func unreleased(o outcome) bool { return unsettled(o) || o.foreign() }

func described(req leaseapi.ReleaseRequest) string {
	var what []string
	if len(req.Leases) > 0 {
		what = append(what, "leases with generations")
	}
	if len(req.RequestIDs) > 0 {
		what = append(what, "request ids")
	}
	return strings.Join(what, " and ")
}
