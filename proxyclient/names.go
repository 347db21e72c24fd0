package proxyclient

import (
	"context"
	"fmt"
	"slices"
	"strings"

	"github.com/leasectl/leasectl/leaseapi"
)

// nameRelease is the release of bare names, as version 1 knows it. Such a proxy
// releases in order, stops at the first name that it cannot release, and
// calls it an error if a name is free already.
type nameRelease struct {
	client   *Client
	patience *patience
	reply    leaseapi.ReleaseReply
	refused  []error // names that the proxy will never release
}

// run releases until each name is released, or refused for good.
func (r *nameRelease) run(ctx context.Context, req leaseapi.ReleaseRequest) error {
	if err := r.mayDelay(ctx, req); err != nil {
		return err
	}
	for round := 0; ; round++ {
		later, failed, err := r.pass(ctx, req)
		if err != nil {
			return join(append(r.refused, err)...)
		}
		if len(later) == 0 {
			return join(r.refused...)
		}
		if err := Sleep(ctx, r.patience.pause(round, nil)); err != nil {
			return join(append(r.refused, fmt.Errorf("%w (%w)", failed, err))...)
		}
		req.Names = later
	}
}

// pass tries each name once. It returns the names that the proxy could not
// release now, and why; it notes those that it never will.
func (r *nameRelease) pass(ctx context.Context, req leaseapi.ReleaseRequest) (later []string, failed, err error) {
	for len(req.Names) > 0 {
		t := r.try(ctx, req)
		if t.o.err == nil && t.o.StatusCode/100 == 2 && !t.o.foreign() {
			r.settle(t.o, req.Names)
			return later, failed, nil
		}
		at := stoppedAt(t.o, req.Names)
		if at < 0 {
			return nil, nil, r.client.failure(ctx, t.o, r.patience)
		}
		name := req.Names[at]
		r.reply.Released = append(r.reply.Released, req.Names[:at]...)
		r.client.released.mark(req.Names[:at])
		switch {
		case !strings.Contains(string(t.o.body), leaseapi.TextNoName):
			later, failed = append(later, name), t.o.failed()
			r.client.released.mark([]string{name}) // nobody knows how far the release came
		case t.repeats(name):
			r.reply.Released = append(r.reply.Released, name)
		default:
			r.refused = append(r.refused, &reworded{text: fmt.Sprintf("the proxy has no lease %q", name), err: t.o.failed()})
		}
		req.Names = req.Names[at+1:]
	}
	return later, failed, nil
}

// settle notes a success: our server's reply, or that of version 1, which has
// released all names.
func (r *nameRelease) settle(o outcome, names []string) {
	reply, ours := o.releaseReply()
	if !ours {
		reply.Released = names
	}
	r.reply.Released = append(r.reply.Released, reply.Released...)
	r.reply.Stale = append(r.reply.Stale, reply.Stale...)
}

// try sends one request.
func (r *nameRelease) try(ctx context.Context, req leaseapi.ReleaseRequest) *nameTry {
	t := &nameTry{names: req.Names, client: r.client, before: r.client.released.marked(req.Names)}
	q := post(leaseapi.PathRelease, req, t)
	q.timeout = 0 // the proxy asks what is behind it for each name
	t.o = r.client.do(ctx, q, r.patience)
	return t
}

// nameTry is one request to release names, which may take several attempts.
type nameTry struct {
	names  []string
	client *Client
	before []string // names that an earlier request of this client may have released
	o      outcome

	arrived bool // an attempt before the last one may have arrived
	last    bool // the last one may have
}

// mayRepeat implements [repeatPolicy]. It notes in time what may be released.
func (t *nameTry) mayRepeat(o outcome) bool {
	stopped := stoppedAt(o, t.names) >= 0
	mayPass := o.transient() || o.foreign()
	t.arrived, t.last = t.arrived || t.last, o.sent && mayPass && !stopped
	if t.last || o.err == nil && o.StatusCode/100 == 2 {
		t.client.released.mark(t.names)
	}
	return !stopped && (mayPass || o.misrouted())
}

// repeats reports whether an earlier request, of this call or of another one of
// this client, may have released name.
func (t *nameTry) repeats(name string) bool { return t.arrived || slices.Contains(t.before, name) }

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
