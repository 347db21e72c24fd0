package proxyclient

import (
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"slices"
	"strings"
	"sync"
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
		if CapabilitiesOf([]leaseapi.Lease{l}) == NamesOnly {
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
	// lease of Owner is meant.
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
	var names []string
	for _, l := range req.Leases {
		names = append(names, l.Name)
	}
	others := func(l leaseapi.Lost) bool { return !contains(req.Leases, l.Lease) }
	if len(req.RequestIDs) > 0 { // those of the requests are not known
		names, others = nil, func(leaseapi.Lost) bool { return false }
	}
	// unfinished reports a success that was no release: a login page, or, if the server
	// is known to be ours, anything but our server's whole reply.
	unfinished := func(a answer) bool {
		reply, ours = a.releaseReply()
		reply.Stale, reply.Over = slices.DeleteFunc(reply.Stale, others), slices.DeleteFunc(reply.Over, others)
		return a.foreign() || !ours && r.client.isOurs() || ours && !settles(reply, names)
	}
	attempts := 0
	q := post(leaseapi.PathRelease, req, idempotent{misrouted: true, unfinished: unfinished})
	q.body = func() any { attempts++; return req }
	o := r.client.do(ctx, q, &r.patience)
	if o.err != nil || o.StatusCode/100 != 2 || unfinished(o.answer) {
		return r.client.failure(ctx, o, &r.patience)
	}
	if !ours {
		return fmt.Errorf("%w by this proxy: the release of %s (it answered %s and ignored them)",
			errors.ErrUnsupported, describe(req), o.Status)
	}
	if attempts > 1 && req.Delay == 0 {
		reply.Over = nil // an attempt whose answer was lost may have ended them
	}
	if len(req.RequestIDs) == 0 {
		reply = onlyNames(reply, func(name string) bool { return slices.Contains(names, name) })
	}
	r.reply = reply
	return nil
}

// contains reports whether a list has a lease, as an answer names it: another generation is another lease.
func contains(leases []leaseapi.Lease, l leaseapi.Lease) bool {
	return slices.ContainsFunc(leases, func(ours leaseapi.Lease) bool { return ours.Name == l.Name && ours.Generation == l.Generation })
}

// settles reports whether a reply to a release says of each of these names what became of it.
func settles(reply leaseapi.ReleaseReply, names []string) bool {
	settled := slices.Clone(reply.Released)
	for _, l := range reply.Stale {
		settled = append(settled, l.Name)
	}
	return len(without(names, settled)) == 0
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
		if t.o.err == nil && t.o.StatusCode/100 == 2 && !unsettled(t.o.answer, req.Names) {
			r.succeeded(t, req.Names)
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
	if can, err := r.client.identify(ctx, rand.Text(), r.patience); err == nil && can == Ours {
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
func (r *nameRelease) succeeded(t *nameTry, names []string) {
	reply, ours := t.o.releaseReply()
	if !ours {
		reply.Released = names
	}
	reply = onlyNames(reply, func(name string) bool { return slices.Contains(names, name) })
	r.noteReleased(reply.Released)
	r.reply.Stale = append(r.reply.Stale, reply.Stale...)
	for _, l := range reply.Over {
		if !t.attemptedBefore(l.Name) { // else this call may have ended it
			r.reply.Over = append(r.reply.Over, l)
		}
	}
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
	mayPass := o.transient() || unsettled(o.answer, t.names)
	t.earlierArrived = t.earlierArrived || t.lastArrived
	t.lastArrived = o.sent && mayPass && !stopped
	if t.lastArrived {
		t.client.released.set(t.names, attempted)
	}
	return !stopped && (mayPass || o.misrouted())
}

// unsettled reports whether a success says nothing of some of the names: a page, or a part of our
// server's reply. A success of version 1 is about all of them.
func unsettled(a answer, names []string) bool {
	if a.StatusCode/100 != 2 {
		return false
	}
	reply, ours := a.releaseReply()
	return a.foreign() || ours && !settles(reply, names)
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
	if err == nil && can != Ours {
		err = unsupported("late release")
	}
	if err != nil {
		return fmt.Errorf("put off: %w", err)
	}
	return nil
}

// releasedNames remembers the results of releases of bare names. They decide what it
// means that a version-1 proxy does not know a name.
type releasedNames struct {
	mu    sync.Mutex
	names map[string]releaseState
}

// releaseState is the best result of this client's releases of a name.
type releaseState int

const (
	untouched releaseState = iota
	attempted              // a release may have reached the proxy without success
	released               // the proxy said that it released the name
)

// set notes the result of a release of names. A released name stays released until
// forget, when it is granted anew.
func (r *releasedNames) set(names []string, s releaseState) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.names == nil {
		r.names = make(map[string]releaseState)
	}
	for _, n := range names {
		r.names[n] = max(r.names[n], s)
	}
}

// of returns the state of name.
func (r *releasedNames) of(name string) releaseState {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.names[name]
}

// forget drops the notes on names that were granted anew.
func (r *releasedNames) forget(names []string) {
	r.mu.Lock()
	defer r.mu.Unlock()
	for _, n := range names {
		delete(r.names, n)
	}
}

// ReleaseAll ends all leases of owner, and takes all requests of owner off the queue. It
// retries like [Client.Release], so a retry also ends leases that owner got meanwhile.
// lost says that the answer to an earlier try was lost: the reply lacks the leases that
// this try ended. The error is [errors.ErrUnsupported] for a version-1 proxy, which does nothing.
func (c *Client) ReleaseAll(ctx context.Context, owner string) (reply leaseapi.ReleaseReply, lost bool, err error) {
	tries := &allTries{repeat: idempotent{misrouted: true}}
	reply, err = c.releaseAll(ctx, leaseapi.ReleaseRequest{Owner: owner, All: true}, tries)
	if err != nil {
		return leaseapi.ReleaseReply{}, false, fmt.Errorf("release all of %s: %w", leaseapi.Shorten(owner), err)
	}
	return reply, tries.lost, nil
}

func (c *Client) releaseAll(ctx context.Context, request leaseapi.ReleaseRequest, tries *allTries) (leaseapi.ReleaseReply, error) {
	p := patience{limits: noLimits, maxPause: maxPauseBefore(ctx)}
	o := c.do(ctx, post(leaseapi.PathRelease, request, tries), &p)
	if o.err != nil || o.StatusCode/100 != 2 || o.foreign() {
		return leaseapi.ReleaseReply{}, c.failure(ctx, o, &p)
	}
	reply, ours := o.releaseReply()
	if !ours || !reply.All {
		return reply, unsupported("owners")
	}
	return reply, nil
}

// allTries is the policy of a ReleaseAll. It notes whether a try may have been carried out
// although the proxy itself did not answer it.
type allTries struct {
	repeat idempotent
	lost   bool
}

func (t *allTries) mayRepeat(o outcome) bool {
	refused := false // by our server itself, with a problem
	if o.err == nil {
		_, refused = o.problem()
	}
	t.lost = t.lost || o.sent && o.transient() && !refused
	return t.repeat.mayRepeat(o)
}
