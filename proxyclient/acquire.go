package proxyclient

import (
	"context"
	"crypto/rand"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"net/url"
	"slices"
	"strconv"
	"time"

	"github.com/leasectl/leasectl/leaseapi"
)

// Acquire blocks until the leases are granted, for Wait at most. If the proxy has not
// answered by then, Acquire waits five seconds more, or one if the proxy is not known to be
// leasectl's own, and then takes the request back, for at most three seconds. If ctx ends
// first, Acquire takes the request back in the same way and returns the cause. Giving back
// leases that it got and cannot hand over may take ten seconds.
//
// If a first request gets no answer for 28 s, Acquire asks about it on another connection.
// It sends the request again to leasectl's server, and goes on waiting for a version-1
// proxy. After the end of Wait it asks leasectl's server about an unanswered request, and
// sends the request again if the server answers the question.
//
// With a list of servers, Acquire asks about a first request after one second. If the
// server with the request is silent and another server leads, the leader gets the request.
//
// Errors, each of which may be [ErrUnconfirmed] as well, are
//
//   - [ErrUnknownType], [ErrUnknownName], [ErrNeverGranted], [ErrEnded], [ErrVersion1], [ErrRemoved],
//     [ErrSuperseded], a [CoalescedError], or any other error that the proxy answered;
//   - [ErrUnreachable]: since its last good answer the proxy refused connections for 30 s
//     or was silent for a minute (either for Wait, if that is shorter), or it answered with
//     errors for a minute; or leasectl's server did not say in time whether a lease was free; or
//     no server led at the end of Wait, which is also [ErrNotLeader];
//   - at the end of Wait: [ErrExhausted] if the proxy's last answer was that the request is
//     queued or that nothing is free, or if a version-1 proxy has not answered yet, which
//     answers only with a grant; otherwise the last error that it answered.
func (c *Client) Acquire(ctx context.Context, r Request) (*Grant, error) {
	if r.RequestID == "" {
		r.RequestID = rand.Text()
	}
	if err := r.check(); err != nil {
		return nil, fmt.Errorf("acquire: %w", err)
	}
	a := &acquisition{client: c, request: r, patience: patience{
		end:       Now().Add(r.Wait),
		limits:    usualLimits.within(r.Wait),
		onRetry:   r.OnRetry,
		onTrouble: r.OnTrouble,
	}}
	g, err := a.run(ctx)
	if err != nil {
		return nil, fmt.Errorf("acquire: %w", err)
	}
	c.released.forget(Releasing(g.Leases, "").Names)
	return g, nil
}

// run asks for all leases at once, or one by one if the proxy cannot grant them
// together.
func (a *acquisition) run(ctx context.Context) (*Grant, error) {
	wait, cancel := a.waitContext(ctx)
	defer cancel()
	needs := a.request.needs()
	if needs == "" && a.request.Count <= 1 {
		return a.acquireAll(ctx, wait)
	}
	can, err := a.identify(wait)
	switch {
	case ctx.Err() != nil:
		return nil, context.Cause(ctx)
	case err != nil:
		return nil, fmt.Errorf("ask what the proxy can do: %w", err)
	case can == Ours:
		return a.acquireAll(ctx, wait)
	case needs != "":
		return nil, &Version1Error{Proxy: a.client.name, Needs: needs}
	}
	return a.acquireEach(ctx, wait)
}

// waitContext returns the context that ends with the wait and the time for a last answer:
// answerTime if the proxy is known to answer at the end of the wait, else noAnswerTime.
func (a *acquisition) waitContext(ctx context.Context) (context.Context, context.CancelFunc) {
	if a.request.Coalesce != "" {
		return a.movableWait(ctx)
	}
	ctx, cancel := context.WithTimeout(ctx, a.request.Wait+answerTime)
	wait, end := context.WithCancelCause(ctx)
	early := time.AfterFunc(a.request.Wait+noAnswerTime, func() {
		if !a.client.isOurs() {
			end(context.DeadlineExceeded)
		}
	})
	return wait, func() {
		early.Stop()
		end(nil)
		cancel()
	}
}

// movableWait is waitContext for a request that coalesces: the end of the wait moves when
// the request joins a run. Its proxy is leasectl's own, so it answers at the end of the wait.
func (a *acquisition) movableWait(ctx context.Context) (context.Context, context.CancelFunc) {
	wait, end := context.WithCancelCause(ctx)
	timer := time.AfterFunc(a.request.Wait+answerTime, func() { end(context.DeadlineExceeded) })
	a.moveEnd = func(left time.Duration) { timer.Reset(left + answerTime) }
	return wait, func() {
		timer.Stop()
		end(nil)
	}
}

// acquireAll sends the request and takes the steps that follow, until there is a
// grant or an error. ctx is the caller's context, wait the one of waitContext.
func (a *acquisition) acquireAll(ctx, wait context.Context) (*Grant, error) {
	for {
		o := a.send(wait)
		switch a.next() {
		case accept:
			return a.handOver(ctx, o)
		case fail:
			return nil, a.takeBack(ctx, a.refusal(ctx, o))
		case retry: // send has retried until its patience ran out
			return nil, a.stop(ctx, o)
		case identify:
			if wait.Err() != nil {
				return nil, a.stop(ctx, o)
			}
			if can, err := a.identify(wait); err != nil || can != Ours {
				return nil, a.unconfirmed(ctx, o, err)
			}
		case resume:
		}
		// An unanswered request is sent once more, even after the end of the wait. So is one that another
		// server of the list has not seen.
		if a.patience.ended() && a.last.kind != unanswered && !o.another || Sleep(wait, a.pause(o)) != nil {
			return nil, a.stop(ctx, o)
		}
	}
}

// identify finds out what the proxy can do, by asking for the state of this request.
func (a *acquisition) identify(ctx context.Context) (Capabilities, error) {
	return a.client.identify(ctx, a.request.RequestID, &a.patience)
}

// pause returns how long to wait before the request is sent again, after an attempt that
// came to o.
func (a *acquisition) pause(o outcome) time.Duration {
	switch a.last.kind {
	case queued:
		// A server that answers "queued" at once is stopping, or is not ours: it must
		// not be asked as fast as it answers. One that is short of connections says when it may be asked.
		asked, _ := retryAfter(o.Response)
		return max(0, minPause+Until(o.asked), min(asked, leaseapi.SliceGap/2))
	case unanswered:
		return 0
	}
	return a.patience.pause(0, o.Response)
}

const (
	answerTime = leaseapi.AnswerTime
	// noAnswerTime replaces answerTime for a proxy that is of version 1 or not
	// identified yet: it may not know when the wait ends.
	noAnswerTime = time.Second
	// sliceTime is how long a request may stay without answer at a proxy that
	// answers in slices. If the answer to a grant was lost, there is still time to ask
	// again before the unconfirmed grant ends.
	sliceTime = leaseapi.ProvisionalTTL - leaseapi.SliceGap
)

// acquisition is one Acquire: the request, and its progress so far.
type acquisition struct {
	client   *Client
	request  Request
	patience patience
	// oneByOne is set when several leases are wanted from a version-1 proxy. Each
	// attempt then asks for one lease, with version 1's parameters only.
	oneByOne bool
	unwatch  []func() // end the questions about the attempt under way

	last       attempt          // the last attempt, classified
	lastAnswer error            // the proxy's last answer, as an error; nil: none
	place      *leaseapi.Queued // the last known state of the queue; nil: not known
	stale      []leaseapi.Lost  // of Request.Replaces, as the first answer says: leases that had ended before
	// pending is set while the proxy may hold a grant or a waiter for this
	// request that was not taken back.
	pending bool
	// answerLost is set once an answer was lost, for example by a broken connection: the
	// result of that attempt is unknown.
	answerLost bool

	// joined is set while the request has joined a run that is under way.
	joined bool
	// moveEnd(left) moves the end of the wait's context to left and answerTime from now;
	// nil if the request does not coalesce.
	moveEnd func(time.Duration)
}

// count is how many leases one attempt asks for.
func (a *acquisition) count() int {
	if a.oneByOne {
		return 1
	}
	return a.request.count()
}

// recognised reports whether the proxy is known to recognise the request when
// it is sent again.
func (a *acquisition) recognised() bool { return !a.oneByOne && a.client.isOurs() }

func (a *acquisition) next() step { return a.last.kind.next(a.recognised()) }

// mayRepeat implements [repeatPolicy].
func (a *acquisition) mayRepeat(o outcome) bool {
	a.endWatch()
	a.observe(o)
	return a.next() == retry
}

// endWatch ends the questions about an attempt that is over, and waits for those under way.
func (a *acquisition) endWatch() {
	for _, end := range a.unwatch {
		end()
	}
	a.unwatch = nil
}

// body returns what an attempt asks of our server, with the rest of the wait.
func (a *acquisition) body() leaseapi.AcquireRequest {
	r := &a.request
	wait := leaseapi.Duration(max(0, Until(a.patience.end)).Round(time.Millisecond))
	return leaseapi.AcquireRequest{
		Ask: r.Ask, RequestID: r.RequestID, Owner: r.Owner, TTL: leaseapi.Duration(r.TTL), Wait: &wait, Replaces: r.Replaces,
	}
}

// prepare writes the query: what a version-1 proxy reads, and for our server the request, unless that is the body.
func (a *acquisition) prepare(req *http.Request, hasBody bool) error {
	v := url.Values{leaseapi.ParamType: {a.request.Type}}
	if a.request.Count > 0 || a.oneByOne {
		v.Set(leaseapi.ParamCount, strconv.Itoa(a.count()))
	}
	if !a.oneByOne && !hasBody {
		ask, err := json.Marshal(a.body())
		if err != nil {
			return err
		}
		v.Set(leaseapi.ParamAsk, string(ask))
	}
	u := *req.URL // a copy: an earlier attempt may still use the URL
	u.RawQuery = v.Encode()
	req.URL = &u
	return nil
}

// observe notes what an attempt shows about the request and the proxy.
func (a *acquisition) observe(o outcome) {
	a.last = classify(o, a.request.RequestID, a.client.known())
	if o.notLeader() {
		a.lastAnswer = o.failure()
	}
	a.patience.maxPause = 0
	if k := a.last.kind; k != unsent && k != refused && a.request.OnTaken != nil {
		a.patience.tell(a.request.OnTaken)
		a.request.OnTaken = nil
	}
	switch a.last.kind {
	case ambiguous:
		a.pending, a.answerLost = true, a.answerLost || !o.cut
		if o.err != nil || !o.is(leaseapi.ProblemUnavailable) {
			// A gateway may have set Retry-After, without regard to a grant that the
			// proxy made and that would end before.
			a.patience.maxPause = leaseapi.ProvisionalTTL / 3
		}
		if o.err == nil {
			a.lastAnswer = o.failure()
		}
	case denied:
		a.pending = false
		before, _ := errors.AsType[*ExhaustedError](a.lastAnswer)
		a.lastAnswer = o.failure()
		p, _ := o.problem()
		switch exhausted := p.Type == leaseapi.ProblemExhausted || leaseapi.SaysExhausted(o.text()); {
		case p.Type == leaseapi.ProblemQueueFull, p.Type == leaseapi.ProblemShareUsed:
			a.lastAnswer = &ExhaustedError{Type: a.request.Type, Wait: a.request.Wait, Refused: leaseapi.Printable(p.Detail)}
		case exhausted && before != nil && before.Refused != "":
			a.lastAnswer = before // the last attempt does not wait: the reason is why the others could not
		case exhausted:
			if p.Queued != nil {
				a.notePlace(p.Queued)
			}
			a.lastAnswer = a.exhausted()
		}
	case queued:
		a.pending = true
		a.client.learn(Ours)
		a.last.place.Page = a.client.pageURL(a.last.place.Page)
		a.noteQueued(a.last.place)
	case granted:
		a.learnFrom(a.last.reply)
	case refused:
		// A refusal that is not our server's, such as a gateway's 400, says nothing of an earlier attempt.
		_, ours := o.problem()
		a.pending = a.pending && a.answerLost && !ours
	}
}

// notePlace keeps the state of the queue, as the proxy reports it.
func (a *acquisition) notePlace(place *leaseapi.Queued) {
	makePrintable(&place.Follows)
	cleanReason(&place.Reason)
	if place.Oldest != nil {
		cleanLease(place.Oldest)
	}
	a.place = place
}

// noteStale notes which of Request.Replaces had ended before. The proxy cannot name others.
func (a *acquisition) noteStale(stale []leaseapi.Lost) {
	for _, l := range stale {
		if slices.Contains(a.request.Replaces, l.Lease) {
			a.stale = append(a.stale, l)
		}
	}
}

// noteQueued notes that the request waits in the queue.
func (a *acquisition) noteQueued(place *leaseapi.Queued) {
	a.notePlace(place)
	a.noteStale(place.Stale)
	a.followRun(place.Reason.Kind == leaseapi.WaitJoined)
	a.lastAnswer = a.exhausted()
	if a.request.OnQueued != nil {
		a.patience.tell(func() { a.request.OnQueued(*place) })
	}
}

// learnFrom notes what a grant proves about the proxy: our server repeats the request id.
func (a *acquisition) learnFrom(reply leaseapi.AcquireReply) {
	switch {
	case a.oneByOne: // there was no id to repeat
	case reply.RequestID == a.request.RequestID:
		a.client.learn(Ours)
	case reply.RequestID == "":
		a.client.learn(NamesOnly)
	}
}

// followRun lifts the bound of the wait while the request has joined a run that is
// under way, since a run may take any time. If the run passes no result on, and the
// request waits again, the wait begins anew.
func (a *acquisition) followRun(joined bool) {
	if joined == a.joined || a.moveEnd == nil { // a request without Coalesce joins nothing
		return
	}
	a.joined = joined
	wait := a.request.Wait
	if joined {
		wait = unbounded
	}
	a.patience.end = Now().Add(wait)
	a.moveEnd(wait)
}

// unbounded is longer than any run.
const unbounded = 10 * 365 * 24 * time.Hour

func (a *acquisition) exhausted() error {
	return &ExhaustedError{Type: a.request.Type, Wait: a.request.Wait, Last: a.place}
}

// outcomeKind is the kind of result of one attempt to acquire.
type outcomeKind int

const (
	unsent    outcomeKind = iota // no byte of the request can have arrived, or only at a standby, which did nothing
	ambiguous                    // the request may have been carried out, or may still be
	denied                       // the proxy says that it granted nothing; it may be asked again
	queued                       // the request has a place in the proxy's queue
	granted
	refused    // for good
	unanswered // the proxy recognises the request, but has not answered it for too long
	abandoned  // the proxy is gone, so no answer will come
)

// attempt is the result of an attempt to acquire.
type attempt struct {
	kind  outcomeKind
	reply leaseapi.AcquireReply // if granted
	place *leaseapi.Queued      // if queued
}

// classify returns the result of an attempt to acquire that came to o. It is the only
// place that decides whether leases may have been granted. id is the request's id, known
// what the proxy has shown before.
func classify(o outcome, id string, known Capabilities) attempt {
	switch {
	case o.err != nil && !o.sent && !o.heard:
		return attempt{kind: unsent}
	case o.err != nil:
		return attempt{kind: ambiguous}
	case o.StatusCode == http.StatusOK:
		a := attempt{kind: granted}
		if o.decode(&a.reply) == nil && a.reply.Names != nil {
			return a
		}
	case o.StatusCode == http.StatusAccepted:
		a := attempt{kind: queued, place: new(leaseapi.Queued)}
		if o.decode(a.place) == nil && a.place.RequestID == id {
			return a
		}
	case o.standby(), o.another && o.misrouted() && known != Ours:
		return attempt{kind: unsent}
	case o.is(leaseapi.ProblemExhausted), o.is(leaseapi.ProblemQueueFull), o.is(leaseapi.ProblemShareUsed), o.StatusCode >= 500 && o.begins(leaseapi.TextAcquireFailed):
		return attempt{kind: denied}
	}
	if o.StatusCode/100 == 2 || o.passing() || known == Ours && o.misrouted() {
		return attempt{kind: ambiguous}
	}
	return attempt{kind: refused}
}

// step is what follows an attempt to acquire.
type step int

const (
	retry    step = iota // make it again after a pause, while patience lasts
	identify             // find out what the proxy can do, to decide whether to repeat the attempt
	resume               // make it again, to go on waiting in the queue
	accept               // hand the grant over
	fail                 // give up
)

// steps is the next step after each kind of outcome: recognised if the proxy recognises
// the id of the request, so that a repetition takes no second lease, and elsewhere if not.
var steps = [...]struct{ recognised, elsewhere step }{
	unsent:    {retry, retry},
	ambiguous: {retry, identify},
	denied:    {retry, retry},
	queued:    {resume, resume},
	granted:   {accept, accept},
	refused:   {fail, fail},
	// When send has returned, retry means that its patience ran out.
	unanswered: {resume, resume},
	abandoned:  {retry, retry},
}

func (k outcomeKind) next(recognised bool) step {
	if recognised {
		return steps[k].recognised
	}
	return steps[k].elsewhere
}
