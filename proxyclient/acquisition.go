package proxyclient

import (
	"net/http"
	"net/url"
	"strconv"
	"time"

	"github.com/leasectl/leasectl/leaseapi"
)

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
func (a *acquisition) recognised() bool { return !a.oneByOne && a.client.known().RequestIDs() }

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

// prepare writes the query, with the rest of the wait.
func (a *acquisition) prepare(req *http.Request) error {
	r := &a.request
	v := url.Values{leaseapi.ParamType: {r.Type}}
	if r.Count > 0 || !r.saysWire() {
		v.Set(leaseapi.ParamCount, strconv.Itoa(a.count()))
	}
	if !a.oneByOne {
		r.addUnits(v)
		v.Set(leaseapi.ParamRequestID, r.RequestID)
		v.Set(leaseapi.ParamWait, max(0, Until(a.patience.end)).Round(time.Millisecond).String())
		if r.Owner != "" {
			v.Set(leaseapi.ParamOwner, r.Owner)
		}
		if r.TTL > 0 {
			v.Set(leaseapi.ParamTTL, r.TTL.String())
		}
		req.Header.Set(leaseapi.HeaderCheck, leaseapi.Checksum(v))
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
		a.lastAnswer = o.failure()
		switch p, _ := o.problem(); {
		case p.Type == leaseapi.ProblemExhausted:
			if p.Queued != nil {
				a.notePlace(p.Queued)
			}
			a.lastAnswer = a.exhausted()
		case leaseapi.SaysExhausted(o.text()):
			a.lastAnswer = a.exhausted()
		}
	case queued:
		a.pending = true
		a.client.learn(wireIDs)
		a.last.place.Page = a.client.pageURL(a.last.place.Page)
		a.noteQueued(a.last.place)
	case granted:
		a.learnFrom(a.last.reply)
	case refused:
		a.pending = false
	}
}

// notePlace keeps the state of the queue, as the proxy reports it.
func (a *acquisition) notePlace(place *leaseapi.Queued) {
	makePrintable(&place.Reason)
	if place.Oldest != nil {
		cleanLease(place.Oldest)
	}
	a.place = place
}

// noteQueued notes that the request waits in the queue.
func (a *acquisition) noteQueued(place *leaseapi.Queued) {
	a.notePlace(place)
	a.stale = append(a.stale, place.Stale...)
	a.followRun(place.Reason == leaseapi.WaitJoined)
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
		a.client.learn(wireIDs)
	case reply.RequestID == "":
		a.client.learn(wireNames)
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
