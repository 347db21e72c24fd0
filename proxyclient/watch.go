package proxyclient

import (
	"context"
	"errors"
	"net/http"
	"time"

	"github.com/leasectl/leasectl/leaseapi"
)

// An acquire without an answer may be waiting at a version-1 proxy, for hours. Or its
// answer was lost, or its peer is gone, although the connection looks open. So the
// client asks about the request on another connection.
const (
	// askAfter is longer than leasectl's server leaves a request unanswered.
	askAfter = sliceTime
	// askAgain is the longest pause between two questions to a proxy that looks like
	// version 1: it may be a gateway that does not find the proxy at the moment.
	askAgain = 10 * time.Minute
	// askEarly is when the client asks about an attempt in two cases. One is an attempt
	// after failures at a proxy that recognises the request: the request may be queued,
	// and the next failure may come before its answer. The other is an attempt at a server
	// of a list: if this server is silent, another one answers the question.
	askEarly = time.Second
	// lateAfter is how long after the end of the wait the client asks about a request
	// that the proxy recognises. It leaves time for the answer within answerTime.
	lateAfter = answerTime / 2
)

// Why an attempt was cut short.
var (
	errUnanswered = errors.New("no answer to a request that the proxy recognises")
	errGone       = errors.New("no answer, and nobody to ask")
)

// send sends the request, and repeats it while the next step is retry and patience
// lasts. Then a.next() is the next step.
func (a *acquisition) send(ctx context.Context) outcome {
	ctx, cut := context.WithCancelCause(ctx)
	defer cut(nil)
	q := post(leaseapi.PathAcquire, nil, a)
	if a.recognised() {
		q.body = func() any { return a.body() }
	}
	q.prepare = func(req *http.Request) error {
		a.endWatch()
		if !a.oneByOne { // a request without an id cannot be asked about
			a.watch(ctx, cut, q.timeout > 0)
			a.watchEnd(ctx, cut)
		}
		return a.prepare(req, q.body != nil)
	}
	defer a.endWatch()
	q.timeout = 0 // version 1 blocks until it grants
	if a.recognised() {
		q.timeout = sliceTime
	}
	a.last = attempt{kind: unsent}
	o := a.client.do(ctx, q, &a.patience)
	switch next := a.next(); {
	case next != retry && next != identify: // an answer to go on with came before the cut
	case context.Cause(ctx) == errUnanswered:
		a.last.kind = unanswered
	case context.Cause(ctx) == errGone:
		if t, is := a.patience.troubled(); is && t.last != nil {
			o.err = t.last
		}
		a.last.kind = abandoned
	}
	return o
}

// watch starts the questions about the attempt that begins now. They go on until endWatch
// is called or ctx ends. bounded says that the attempt has a timeout: the proxy was known to
// recognise the request when the call began, not only since a standby's answer.
func (a *acquisition) watch(ctx context.Context, cut context.CancelCauseFunc, bounded bool) {
	_, troubled := a.patience.troubled()
	server, _ := a.client.servers.ask()
	switch begun := Now(); {
	case a.client.known() == NamesOnly: // version 1 cannot be asked
	case !bounded && a.client.servers.several(), a.recognised() && troubled:
		a.askLater(ctx, askEarly, func(ctx context.Context) {
			if !bounded {
				a.patience.suspect(begun)
			}
			a.askForPlace(ctx, cut, server)
			if !bounded && Sleep(ctx, askAfter-askEarly) == nil {
				a.askUntilRecognised(ctx, cut, begun)
			}
		})
	case !bounded:
		a.askLater(ctx, askAfter, func(ctx context.Context) { a.askUntilRecognised(ctx, cut, begun) })
	}
}

// watchEnd starts the question about the attempt that begins now, for the case that the
// attempt is unanswered after the end of the wait.
func (a *acquisition) watchEnd(ctx context.Context, cut context.CancelCauseFunc) {
	if a.moveEnd == nil { // otherwise the end of the wait moves
		a.askLater(ctx, max(0, Until(a.patience.end))+lateAfter, func(ctx context.Context) { a.askLate(ctx, cut) })
	}
}

// askLater runs fn, which asks about the attempt that begins now, after d, unless endWatch is
// called before.
func (a *acquisition) askLater(ctx context.Context, d time.Duration, fn func(context.Context)) {
	a.unwatch = append(a.unwatch, After(ctx, d, fn))
}

// ask returns the state of the request. answered says that the proxy answered, even if it
// does not know the request.
func (a *acquisition) ask(ctx context.Context) (r leaseapi.RequestReply, answered bool) {
	r, err := a.client.requestState(ctx, a.request.RequestID, true, &a.patience)
	return r, err == nil || errors.Is(err, ErrUnknownRequest)
}

// askUntilRecognised asks about an attempt that began askAfter ago, at a proxy that is not
// known to recognise the request. It cuts the attempt short as soon as the proxy is known
// to recognise it, or if the proxy is gone.
func (a *acquisition) askUntilRecognised(ctx context.Context, cut context.CancelCauseFunc, begun Instant) {
	for pause := askAfter; ; {
		a.patience.suspect(begun)
		if !a.recognised() { // the answer to another call may have shown it
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
		// A version-1 proxy, or a gateway that answers for the proxy: go on waiting.
		pause = min(2*pause, askAgain)
		if Sleep(ctx, pause) != nil {
			return
		}
	}
}

// askForPlace asks once for the place in the queue of an attempt at server. It cuts the
// attempt short if the proxy is gone, or if another server of the list answers, since that
// one leads.
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

// askLate asks about an attempt that is unanswered after the end of the wait. If the proxy
// answers the question, the answer to the attempt counts as lost, and the attempt is made
// again. If the proxy is slow with all answers, the attempt goes on.
func (a *acquisition) askLate(ctx context.Context, cut context.CancelCauseFunc) {
	if !a.recognised() {
		return
	}
	if _, answered := a.ask(ctx); answered && ctx.Err() == nil {
		cut(errUnanswered)
	}
}
