package proxyclient

import (
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/leasectl/leasectl/leaseapi"
)

// nameRelease is the release of bare names, as in version 1. A version-1 proxy releases
// names in order, stops at the first name that it cannot release, and answers an error
// for a name that it does not know. It forgets a name before it asks the pool behind
// it. So "unknown" proves that the name was released only if no release of ours failed
// before.
type nameRelease struct {
	client   *Client
	patience *patience
	learned  time.Time // as in [NamesRelease]
	reply    leaseapi.ReleaseReply
	refused  []error  // errors for names that the proxy will never release
	unknown  []string // names that the proxy does not know, after a release that did not succeed
	stopped  bool     // the proxy has stopped at a name, so its errors may be about the name only
}

// run sends requests until each name is released, or refused for good, or ctx ends.
func (r *nameRelease) run(ctx context.Context, req leaseapi.ReleaseRequest) error {
	if err := r.mayDelay(ctx, req); err != nil {
		return err
	}
	for round := 0; ; round++ {
		later, failed, err := r.pass(ctx, req)
		if err != nil {
			return r.result(err)
		}
		if len(later) == 0 {
			return r.result(nil)
		}
		if Sleep(ctx, r.patience.pause(round, nil)) != nil {
			return r.result(because(ctx, failed))
		}
		req.Names = later
	}
}

// result returns the error of the whole release, whose last request ended with err.
func (r *nameRelease) result(err error) error {
	all := append(r.refused, err)
	if len(r.unknown) > 0 {
		all = append(all, &UnconfirmedReleaseError{Names: r.unknown})
	}
	return errors.Join(all...)
}

// pass tries each name once. It returns the names that the proxy could not release
// now, and the last error about them. It notes the names that the proxy will never
// release.
func (r *nameRelease) pass(ctx context.Context, req leaseapi.ReleaseRequest) (later []string, failed, err error) {
	for len(req.Names) > 0 {
		t := r.try(ctx, req)
		if t.o.err == nil && t.o.StatusCode/100 == 2 && !t.o.foreign() {
			r.succeeded(t.o, req.Names)
			return later, failed, nil
		}
		at := stoppedAt(t.o, req.Names)
		if at < 0 {
			err := r.client.failure(ctx, t.o, r.patience)
			if failing, is := errors.AsType[*FailingError](err); is && r.stopped {
				err = failing.Err
			}
			return nil, nil, err
		}
		r.stopped = true
		name := req.Names[at]
		r.noteReleased(req.Names[:at])
		if strings.Contains(string(t.o.body), leaseapi.TextNoName) {
			r.noteUnknown(ctx, name, t)
		} else {
			later, failed = append(later, name), t.o.failure()
			r.client.released.set([]string{name}, attempted) // unknown how far the release came
		}
		req.Names = req.Names[at+1:]
	}
	return later, failed, nil
}

// noteUnknown decides whether a name that the proxy does not know counts as released, as
// unconfirmed or as refused.
func (r *nameRelease) noteUnknown(ctx context.Context, name string, t *nameTry) {
	if can, err := r.client.identify(ctx, rand.Text(), r.patience); err == nil && can.ChecksOwners() {
		// Our server answers this only for a name that it has never had.
		r.refused = append(r.refused, &reworded{text: fmt.Sprintf("the proxy has no lease %q", name), err: t.o.failure()})
		return
	}
	if r.client.released.of(name) != released && t.attemptedBefore(name) {
		r.unknown = append(r.unknown, name)
		return
	}
	if r.client.released.of(name) != released { // not by this client, but by somebody else
		r.reply.Over = append(r.reply.Over, leaseapi.Lost{Lease: leaseapi.Lease{Name: name}, Reason: UnknownName})
	}
	r.noteReleased([]string{name})
}

// noteReleased adds names to the reply, and remembers that they are released.
func (r *nameRelease) noteReleased(names []string) {
	r.reply.Released = append(r.reply.Released, names...)
	r.client.released.set(names, released)
}

// succeeded notes a success: our server's reply, or an answer of version 1, which means
// that all names are released.
func (r *nameRelease) succeeded(o outcome, names []string) {
	reply, ours := o.releaseReply()
	if !ours {
		reply.Released = names
	}
	r.noteReleased(reply.Released)
	r.reply.Stale = append(r.reply.Stale, reply.Stale...)
	r.reply.Over = append(r.reply.Over, reply.Over...)
}

// try sends one request.
func (r *nameRelease) try(ctx context.Context, req leaseapi.ReleaseRequest) *nameTry {
	t := &nameTry{names: req.Names, client: r.client}
	for _, n := range req.Names {
		if r.client.released.of(n) == attempted {
			t.before = append(t.before, n)
		}
	}
	q := post(leaseapi.PathRelease, req, t)
	q.mine = mineByNames(req.Names)
	if !r.learned.IsZero() {
		q.body = func() any { return r.withAge(req) }
	}
	if !r.client.servers.several() {
		q.timeout = 0 // for each name a version-1 proxy asks the pool behind it, which may take long
	}
	t.o = r.client.do(ctx, q, r.patience)
	return t
}

// withAge returns req with the present age of its names. Names from the future are new.
func (r *nameRelease) withAge(req leaseapi.ReleaseRequest) leaseapi.ReleaseRequest {
	age := leaseapi.Duration(max(0, time.Since(r.learned).Round(time.Millisecond)))
	req.KnownFor = &age
	return req
}

// nameTry is one request to release names, which may take several attempts.
type nameTry struct {
	names  []string
	client *Client
	before []string // names that an earlier request may have released
	o      outcome

	earlierArrived bool // an attempt before the last one may have arrived
	lastArrived    bool // the last attempt may have arrived
}

// mayRepeat implements [repeatPolicy]. It also notes the names that the attempt may have
// released, before a further attempt.
func (t *nameTry) mayRepeat(o outcome) bool {
	stopped := stoppedAt(o, t.names) >= 0
	mayPass := o.transient() || o.foreign()
	t.earlierArrived = t.earlierArrived || t.lastArrived
	t.lastArrived = o.sent && mayPass && !stopped
	if t.lastArrived {
		t.client.released.set(t.names, attempted)
	}
	return !stopped && (mayPass || o.misrouted())
}

// attemptedBefore reports whether an earlier attempt or request, of this call or of
// another one, may have released name.
func (t *nameTry) attemptedBefore(name string) bool {
	return t.earlierArrived || slices.Contains(t.before, name)
}

// stoppedAt returns the index in names of the name that a version-1 proxy could not
// release, according to its answer; -1 if the answer is another one.
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

// mayDelay returns an error if the proxy would ignore the delay of req, and release the
// names at once, while their holder still uses them.
func (r *nameRelease) mayDelay(ctx context.Context, req leaseapi.ReleaseRequest) error {
	if req.Delay <= 0 {
		return nil
	}
	can, err := r.client.Capabilities(ctx)
	if err == nil && !can.ReleasesLate() {
		err = unsupported("late release")
	}
	if err != nil {
		return fmt.Errorf("put off: %w", err)
	}
	return nil
}
