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

// releaseTime is how long a release is tried when no caller set a bound.
const releaseTime = 10 * time.Second

// Releasing returns the request that gives leases back: by generation, or, if they are
// from a version-1 proxy, by bare name and owner.
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

// Release gives leases back. It retries until the proxy has settled all of them or ctx
// ends: give ctx a deadline, usually ten seconds. A lease that is free already counts as
// released. A lease that another owner holds now is left alone, and is stale in the
// reply. The reply is valid even with an error: it has the leases that were released
// nevertheless.
//
// If ctx ends by a deadline after an attempt that failed without an HTTP answer, or
// before there was any answer, the error is [ErrUnreachable]. A version-1 proxy ignores
// leases with generations, request ids and delays. For these the error is
// [errors.ErrUnsupported], and nothing was done.
//
// If a version-1 proxy does not know a name, somebody else has released it. But if
// an earlier release of the name got an error, or no answer, the error is an
// [UnconfirmedReleaseError]. See the package's comment.
func (c *Client) Release(ctx context.Context, req leaseapi.ReleaseRequest) (leaseapi.ReleaseReply, error) {
	r := release{client: c, patience: patience{limits: noLimits, maxPause: maxPauseBefore(ctx)}}
	err := r.run(ctx, req)
	return r.reply, err // the caller adds what was to be released
}

// NamesRelease gives leases back by their names alone.
type NamesRelease struct {
	Names []string
	Owner string
	// Learned is when the caller learned of the names, by the clock of this machine, such as the
	// time of the file that has them. Leases of Owner that were granted later are stale. Zero: any
	// lease of Owner is meant, as with servers before wire 4.
	Learned time.Time
	Delay   time.Duration // from now on; zero: at once
}

// ReleaseNames is [Client.Release] for names. Each attempt says anew how long ago they were
// learned. A name in the reply is stale if another owner has it, or the owner got it later.
func (c *Client) ReleaseNames(ctx context.Context, n NamesRelease) (leaseapi.ReleaseReply, error) {
	r := nameRelease{client: c, patience: &patience{limits: noLimits, maxPause: maxPauseBefore(ctx)}, learned: n.Learned}
	err := r.run(ctx, leaseapi.ReleaseRequest{Names: distinct(n.Names), Owner: n.Owner, Delay: leaseapi.Duration(n.Delay)})
	return r.reply, err
}

// UnknownName is the reason in the Over of a reply for a name that a version-1 proxy did not know at
// its first release. The name counts as released: somebody else released it, or the proxy was
// restarted and forgot it.
const UnknownName = "the proxy does not know the name"

// MayHaveReached reports whether a release of any of these bare names may have
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

// run sends bare names in requests of their own, since their answers have another
// meaning.
func (r *release) run(ctx context.Context, req leaseapi.ReleaseRequest) error {
	names := leaseapi.ReleaseRequest{Names: distinct(req.Names), Owner: req.Owner, Delay: req.Delay}
	rest := req
	rest.Names, rest.Owner, rest.Leases = nil, "", distinct(req.Leases)
	var errs []error
	if len(rest.Leases)+len(rest.RequestIDs) > 0 {
		errs = append(errs, r.releaseIdentified(ctx, rest))
	}
	if len(names.Names) > 0 {
		n := nameRelease{client: r.client, patience: &r.patience, reply: r.reply}
		errs = append(errs, n.run(ctx, names))
		r.reply = n.reply
	}
	return errors.Join(errs...)
}

// distinct returns list without repetitions. A version-1 proxy that gets a name twice ends
// the lease, and then the lease of the next holder.
func distinct[T comparable](list []T) (out []T) {
	seen := make(map[T]bool, len(list))
	for _, v := range list {
		if !seen[v] {
			seen[v], out = true, append(out, v)
		}
	}
	return out
}

// releaseIdentified releases by generation and by request id, which only our server knows. No
// two grants share a generation or an id, so the request may be sent any number of times.
func (r *release) releaseIdentified(ctx context.Context, req leaseapi.ReleaseRequest) error {
	if req.Delay > 0 && len(req.RequestIDs) > 0 {
		return errors.New("a release by request id cannot be put off")
	}
	var reply leaseapi.ReleaseReply
	var ours bool
	// unfinished reports a success that was no release: a login page, or, if the server
	// is known to be ours, anything but our server's reply.
	unfinished := func(a answer) bool {
		reply, ours = a.releaseReply()
		return a.foreign() || !ours && r.client.known().RequestIDs()
	}
	attempts := 0
	q := post(leaseapi.PathRelease, req, idempotent{misrouted: true, unfinished: unfinished})
	q.body = func() any { attempts++; return req }
	if len(req.RequestIDs) == 0 { // otherwise the names are not known
		var names []string
		for _, l := range req.Leases {
			names = append(names, l.Name)
		}
		q.mine = mineByNames(names)
	}
	o := r.client.do(ctx, q, &r.patience)
	if o.err != nil || o.StatusCode/100 != 2 || o.foreign() {
		return r.client.failure(ctx, o, &r.patience)
	}
	if !ours {
		return fmt.Errorf("%w by this proxy: the release of %s (it answered %s and ignored them)",
			errors.ErrUnsupported, describe(req), o.Status)
	}
	if attempts > 1 && req.Delay == 0 {
		reply.Over = nil // an attempt whose answer was lost may have ended them
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
