package proxyclient

import (
	"context"
	"errors"
	"net/http"
	"time"

	"github.com/leasectl/leasectl/leaseapi"
)

// An acquire that stays without an answer may be waiting at a version-1 proxy,
// which may take hours; or its answer was lost, or its peer is gone, on a
// connection that looks open. So it is asked about, on another connection.
const (
	// askAfter is longer than leasectl's server leaves a request unanswered.
	askAfter = sliceTime
	// askAgain is the longest pause between two questions to a proxy of version 1:
	// what looks like one may be a gateway that does not find the proxy for now.
	askAgain = 10 * time.Minute
	// askEarly is when an attempt is asked about that follows failures, where the proxy
	// recognises it: it may be in its queue, and be answered only after the next failure;
	// and one at a server of a list, since another one answers if this is silent.
	askEarly = time.Second
	// lateAfter is how long after the end of the wait a proxy that recognises the
	// request is asked about it: there is time for that within answerTime.
	lateAfter = answerTime / 2
)

// Why an attempt was cut short.
var (
	errUnanswered = errors.New("no answer to a request that the proxy recognises")
	errGone       = errors.New("no answer, and nobody to ask")
)

// send sends the request, and again while the next step is retry and patience
// lasts. The next step after that is a.next().
func (a *acquisition) send(ctx context.Context) outcome {
	ctx, cut := context.WithCancelCause(ctx)
	defer cut(nil)
	q := post(leaseapi.PathAcquire, nil, a)
	q.prepare = func(req *http.Request) error {
		a.endWatch()
		if !a.oneByOne { // without an id there is nothing to ask about
			a.watch(ctx, cut, q.timeout > 0)
		}
		return a.prepare(req)
	}
	defer a.endWatch()
	q.timeout = 0 // version 1 blocks until it grants
	if a.recognised() {
		q.timeout = sliceTime
	}
	if a.moveEnd == nil { // else the end of the wait moves
		stop := After(ctx, max(0, Until(a.patience.end))+lateAfter, func(ctx context.Context) { a.askLate(ctx, cut) })
		defer stop()
	}
	a.last = attempt{kind: unsent}
	o := a.client.do(ctx, q, &a.patience)
	switch context.Cause(ctx) {
	case errUnanswered:
		a.last.kind = unanswered
	case errGone:
		if t, is := a.patience.troubled(); is && t.last != nil {
			o.err = t.last
		}
		a.last.kind = abandoned
	}
	return o
}

// watch has the attempt that begins now asked about until endWatch is called or ctx
// ends. bounded says that the attempt ends by itself: the proxy was known to recognise the
// request when the call began, not only since a standby has answered it.
func (a *acquisition) watch(ctx context.Context, cut context.CancelCauseFunc, bounded bool) {
	_, troubled := a.patience.troubled()
	server, _ := a.client.servers.ask()
	switch begun := Now(); {
	case a.client.known().NamesOnly(): // it is waited for
	case !bounded && a.client.servers.several(), a.recognised() && troubled:
		a.unwatch = After(ctx, askEarly, func(ctx context.Context) {
			if !bounded {
				a.patience.suspect(begun)
			}
			a.askForPlace(ctx, cut, server)
			if !bounded && Sleep(ctx, askAfter-askEarly) == nil {
				a.askUntilRecognised(ctx, cut, begun)
			}
		})
	case !bounded:
		a.unwatch = After(ctx, askAfter, func(ctx context.Context) { a.askUntilRecognised(ctx, cut, begun) })
	}
}

// ask returns what has become of the request. answered says that the proxy did, if only
// that it does not know the request.
func (a *acquisition) ask(ctx context.Context) (r leaseapi.RequestReply, answered bool) {
	r, err := a.client.requestState(ctx, a.request.RequestID, true, &a.patience)
	return r, err == nil || errors.Is(err, ErrUnknownRequest)
}

// askUntilRecognised asks about an attempt that began askAfter ago, at a proxy that is not
// known to recognise the request. It cuts the attempt short once the proxy is, or if the
// proxy has gone.
func (a *acquisition) askUntilRecognised(ctx context.Context, cut context.CancelCauseFunc, begun Instant) {
	for pause := askAfter; ; {
		a.patience.suspect(begun)
		if !a.recognised() { // other answers may have shown it meanwhile
			a.ask(ctx)
		}
		switch {
		case ctx.Err() != nil:
			return
		case a.patience.exhausted():
			cut(errGone)
			return
		case a.recognised():
			cut(errUnanswered)
			return
		}
		// A proxy of version 1, or something that answers for it: both are waited for.
		pause = min(2*pause, askAgain)
		if Sleep(ctx, pause) != nil {
			return
		}
	}
}

// askForPlace asks once for the place in the queue of an attempt at a server, and cuts the
// attempt short if the proxy has gone, or if another server of its list answers, which leads.
func (a *acquisition) askForPlace(ctx context.Context, cut context.CancelCauseFunc, server int) {
	r, answered := a.ask(ctx)
	by, _ := a.client.servers.ask()
	switch {
	case ctx.Err() != nil:
	case a.patience.exhausted():
		cut(errGone)
	case answered && by != server:
		cut(errUnanswered)
	case r.State == leaseapi.StateQueued || r.State == leaseapi.StateJoined:
		place := r.Queued()
		a.noteQueued(&place)
	}
}

// askLate asks about an attempt that the proxy was to answer by the end of the wait. If
// the proxy answers this, the answer to the attempt is lost, or as good as that: it is
// made again. One that is slow with all answers is waited for.
func (a *acquisition) askLate(ctx context.Context, cut context.CancelCauseFunc) {
	if !a.recognised() {
		return
	}
	if _, answered := a.ask(ctx); answered && ctx.Err() == nil {
		cut(errUnanswered)
	}
}
