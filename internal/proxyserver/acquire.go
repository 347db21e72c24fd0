package proxyserver

import (
	"errors"
	"fmt"
	"net/http"
	"strconv"
	"strings"
	"time"

	"github.com/leasectl/leasectl/internal/pool"
	"github.com/leasectl/leasectl/internal/proxyserver/auth"
	"github.com/leasectl/leasectl/internal/proxyserver/store"
	"github.com/leasectl/leasectl/internal/proxyserver/ui"
	"github.com/leasectl/leasectl/leaseapi"
)

// serveAcquire and the functions that wait for it have small frames: the stack is most of a
// waiter's memory, and the runtime doubles a stack that is too small by a byte.
func (h *handler) serveAcquire(c caller, w http.ResponseWriter, r *http.Request) {
	t := h.term()
	p, ok := h.readAcquire(c, w, r)
	if !ok || !h.admitAcquire(c, w, t, p) {
		return
	}
	p.keepsNone = !h.acquires.begin(c.id, h.connections.Most())
	if p.keepsNone && p.Anonymous && !p.Try {
		p.refuseToWait, p.Try = true, true
	}
	t.acquires.Add(1)
	out := h.awaitAcquire(c, r, t, &p.acquireRequest)
	h.acquires.end(c.id)
	out = giveBackUnreceived(r, t, p, h.askAgain(c, r, t, p, out))
	t.acquires.Add(-1)
	h.answerAcquire(w, t, p, out)
}

// awaitAcquire blocks until q has an outcome, its slice is over, or its client has gone.
func (h *handler) awaitAcquire(c caller, r *http.Request, t *term, q *acquireRequest) outcome {
	room := q.room()
	if !h.bodies.take(c.id, room) {
		return outcome{err: errLarge}
	}
	out, wait := t.begin(q)
	h.bodies.giveBack(c.id, room)
	if wait == nil {
		return out
	}
	h.calls.wait(c.id)
	out = t.await(r.Context(), q, wait)
	h.calls.wake(c.id)
	return out
}

// askAgainAfter is the shortest wait after which a caller is asked again who it is.
const askAgainAfter = time.Second

// askAgain returns the outcome of an acquire of c. If that was granted leases after a wait, and c may no longer have
// them, askAgain gives them back. An acquire without an id may have waited for hours. One with an id has shown its
// token at the last slice: that still counts, unless the rules are others since.
func (h *handler) askAgain(c caller, r *http.Request, t *term, p *acquireParams, out outcome) outcome {
	if len(out.leases) == 0 || time.Since(p.came) < askAgainAfter || !p.Anonymous && h.gate.Since().Before(p.came) {
		return out
	}
	now, refusal := h.identifyAsOf(r, p.came)
	if refusal == nil && (now.id == c.id || now.id == "") && now.Role != auth.RoleRead && now.mayAcquire(p) == nil {
		return out
	}
	if refusal != nil && !p.Anonymous {
		if status, _ := refusal.Status(); status == http.StatusServiceUnavailable {
			return out // nobody knows
		}
	}
	if err := t.giveBack(out.leases); err != nil {
		return outcome{err: err}
	}
	return outcome{err: errNotLetIn}
}

// readAcquire returns the parameters of an acquire. It answers an invalid acquire itself; then ok is
// false.
func (h *handler) readAcquire(c caller, w http.ResponseWriter, r *http.Request) (p *acquireParams, ok bool) {
	// net/http watches the connection only once the body is read: then it ends the
	// context when the client goes.
	body, ok := readBody(w, r)
	if !ok {
		return nil, false
	}
	if h.term().lastWaits.Load() { // reading JSON takes more stack than waiting: see [term.askAside]
		aside(func() { p, ok = parseAcquire(w, r, body) })
	} else {
		p, ok = parseAcquire(w, r, body)
	}
	if !ok {
		h.metrics.Refused(p.Type, "bad-request")
		return nil, false
	}
	p.came = time.Now()
	p.Share = c.Share
	p.by, p.Owner = c, pool.BindOwner(c.id, p.Owner)
	p.crowded = h.connections.Crowded()
	p.refuseToWait = p.crowded && p.Anonymous && !p.Try
	p.Try = p.Try || p.refuseToWait // without an id it would keep its connection for the whole wait
	return p, true
}

// admitAcquire reports whether c may make an acquire. It answers itself what c may not do, and an
// acquire of no leases.
func (h *handler) admitAcquire(c caller, w http.ResponseWriter, t *term, p *acquireParams) bool {
	if err := c.mayAcquire(p); err != nil && !p.nothing {
		h.metrics.Refused(p.Type, "forbidden")
		problem(w, http.StatusForbidden, leaseapi.ProblemForbidden, err.Error())
		return false
	}
	if p.nothing {
		answer(w, http.StatusOK, leaseapi.AcquireReply{Names: []string{}})
		return false
	}
	if err := hideReplaced(c, t, p); err != nil {
		unavailable(w, err)
		return false
	}
	return true
}

// hideReplaced marks the leases that c may not know of among those that p takes the place of.
func hideReplaced(c caller, t *term, p *acquireParams) error {
	if c.Pools == nil || p.replaces == nil {
		return nil
	}
	return t.do(func(set *pool.Set, now time.Duration) {
		for i, ref := range p.replaces {
			p.replaces[i].Hidden = c.hides(set, now, ref.Name)
		}
	})
}

// giveBackUnreceived returns the outcome of an acquire. A client without a request id that has gone
// cannot learn of its leases, nor come back for them: giveBackUnreceived gives them back.
func giveBackUnreceived(r *http.Request, t *term, p *acquireParams, out outcome) outcome {
	if !p.Anonymous || len(out.leases) == 0 || r.Context().Err() == nil {
		return out
	}
	if err := t.giveBack(out.leases); err != nil {
		return outcome{err: err}
	}
	return outcome{err: errGone}
}

// answerGrant answers an acquire that got leases. Without an id nobody could ask for the answer again, nor have
// it more than once.
func (h *handler) answerGrant(w http.ResponseWriter, p *acquireParams, reply leaseapi.AcquireReply) {
	if p.Anonymous {
		answer(w, http.StatusOK, reply)
		return
	}
	h.answerAgain(w, reply)
}

// answerAcquire answers an acquire, in the words of version 1 if that has any.
func (h *handler) answerAcquire(w http.ResponseWriter, t *term, p *acquireParams, out outcome) {
	if p.refuseToWait && errors.Is(out.err, pool.ErrExhausted) {
		out.err = fmt.Errorf("%w: too many connections", pool.ErrQueueFull)
	}
	h.metrics.Refused(p.Type, refusal(out.err))
	refuse := func(status int, text string) {
		if status == http.StatusServiceUnavailable {
			w.Header().Set("Retry-After", retryAfter)
		}
		http.Error(w, fmt.Sprintf("%s%q: %s", leaseapi.TextAcquireFailed, leaseapi.Shorten(p.Type), text), status)
	}
	exhausted, _ := errors.AsType[*pool.ExhaustedError](out.err)
	share, _ := errors.AsType[*pool.ShareError](out.err)
	switch err := out.err; {
	case err == nil:
		h.answerGrant(w, p, acquireReply(t.clock, p, out.leases))
	case err == errNotLetIn:
		w.Header().Set("Connection", "close")
		problem(w, http.StatusUnauthorized, leaseapi.ProblemUnauthorized, err.Error())
	case errors.Is(err, errSlice), errors.Is(err, errStopping) && !p.Anonymous && out.status != nil:
		reply := queuedReply(t.clock, pool.PlainID(p.ID), *out.status)
		reply.Stale = lostOf(p.stale)
		if p.keepsNone {
			w.Header().Set("Retry-After", retryAfter)
		}
		answer(w, http.StatusAccepted, reply)
	case p.Anonymous && (errors.Is(err, errStopping) || errors.Is(err, errGone)):
		refuse(http.StatusServiceUnavailable, err.Error())
	case errors.Is(err, pool.ErrUnknownType):
		text := leaseapi.TextUnknownType
		if unknown, ok := errors.AsType[*pool.UnknownTypesError](err); ok {
			text += leaseapi.FormatUnknown(unknown.Types)
		}
		refuse(http.StatusNotFound, text)
	case errors.Is(err, pool.ErrNotInPool):
		answerNotInPool(w, t, p)
	case errors.Is(err, pool.ErrTooMany), errors.Is(err, pool.ErrNoCost), errors.Is(err, pool.ErrNoOvercommit), errors.Is(err, pool.ErrOneName):
		refuse(http.StatusBadRequest, err.Error())
	case p.ours && exhausted != nil:
		answerExhausted(w, t.clock, exhausted)
	case errors.Is(err, pool.ErrExhausted):
		refuse(http.StatusInternalServerError, fmt.Sprintf("%s: %s within %v", leaseapi.TextExhausted, leaseapi.TextExhaustedOne, round(out.took)))
	case (errors.Is(err, pool.ErrQueueFull) || share != nil) && !p.ours:
		// In the words for an exhausted pool: after these, clients of version 1 try
		// again later.
		refuse(http.StatusServiceUnavailable, fmt.Sprintf("%s: %s: %v", leaseapi.TextExhausted, leaseapi.TextExhaustedOne, err))
	case errors.Is(err, pool.ErrQueueFull):
		problem(w, http.StatusServiceUnavailable, leaseapi.ProblemQueueFull, err.Error())
	case share != nil:
		problem(w, http.StatusServiceUnavailable, leaseapi.ProblemShareUsed, err.Error())
	case errors.Is(err, pool.ErrEnded):
		answerEnded(w, err)
	case errors.Is(err, pool.ErrNotOwn):
		problem(w, http.StatusForbidden, leaseapi.ProblemForbidden, err.Error())
	case errors.Is(err, pool.ErrConflict):
		problem(w, http.StatusConflict, leaseapi.ProblemConflict, err.Error())
	default:
		unavailable(w, err)
	}
}

// namesTold is how many names of a pool a request for another name is told: as many as people read.
const namesTold = 10

// answerNotInPool answers an acquire of a name that its pool does not have, with names that it has.
func answerNotInPool(w http.ResponseWriter, t *term, p *acquireParams) {
	var names []string
	all := 0
	if err := t.do(func(set *pool.Set, _ time.Duration) { names, all = set.Names(p.Type, namesTold) }); err != nil {
		unavailable(w, err)
		return
	}
	known := strings.Join(names, ", ")
	if more := all - len(names); more > 0 {
		known += fmt.Sprintf(" and %d more", more)
	}
	problem(w, http.StatusNotFound, leaseapi.ProblemUnknownName, fmt.Sprintf("pool %q has no name %q: it has %s", p.Type, p.Name, known))
}

// answerEnded answers an acquire whose request id has ended and gets no lease.
func answerEnded(w http.ResponseWriter, err error) {
	p := leaseapi.Problem{Type: leaseapi.ProblemEnded, Status: http.StatusGone, Detail: err.Error()}
	if _, removed := errors.AsType[*pool.RemovedError](err); removed {
		p.Type = leaseapi.ProblemRemoved
	}
	if errors.Is(err, pool.ErrUnconfirmed) {
		p.Reason = leaseapi.ReasonUnconfirmed
	}
	if merged, ok := errors.AsType[*pool.CoalescedError](err); ok {
		p.Type = leaseapi.ProblemSuperseded
		if code, ran := merged.Result.ExitCode(); ran {
			p.Type, p.ExitCode = leaseapi.ProblemCoalesced, &code
		}
	}
	writeProblem(w, p)
}

// answerExhausted tells a request that does not wait the state of the queue. So its client
// knows when to try again, without another call.
func answerExhausted(w http.ResponseWriter, clock clock, err *pool.ExhaustedError) {
	queued := queuedReply(clock, "", err.Status)
	queued.Page = "" // the request is not in the queue: no page shows it
	w.Header().Set("Retry-After", strconv.Itoa(int(max(time.Second, time.Duration(queued.Estimate))/time.Second)))
	writeProblem(w, leaseapi.Problem{
		Type: leaseapi.ProblemExhausted, Status: http.StatusServiceUnavailable, Detail: err.Error(), Queued: &queued,
	})
}

func acquireReply(clock clock, p *acquireParams, leases []pool.Lease) leaseapi.AcquireReply {
	reply := leaseapi.AcquireReply{Names: namesOf(leases)}
	if !p.ours {
		return reply
	}
	if !p.Anonymous {
		reply.RequestID = pool.PlainID(p.ID)
	}
	reply.Leases, reply.Unit, reply.Stale = leasesOf(leases, p.counted), p.unit, lostOf(p.stale)
	if p.by.id != "" {
		reply.Caller = leaseapi.Caller{Name: p.by.Name, Issuer: p.by.Issuer}
	}
	ttl, expires := leases[0].TTL, leases[0].Ends()
	for i := range leases {
		l := &leases[i]
		ttl, expires = min(ttl, l.TTL), min(expires, l.Ends())
	}
	reply.TTL, reply.RenewEvery = leaseapi.Duration(ttl), renewEvery(ttl)
	reply.ExpiresAt = clock.wall(expires)
	return reply
}

// queuedReply says where a request that waits, or would wait, stands.
func queuedReply(clock clock, id string, st pool.Status) leaseapi.Queued {
	reply := requestReply(clock, id, st, nil).Queued()
	reply.Page = ui.RequestPath(id)
	return reply
}

// refusals are the words under which refused acquires count in the metrics.
var refusals = []struct {
	err  error
	word string
}{
	{pool.ErrUnknownType, "unknown-type"},
	{pool.ErrTooMany, "too-many"},
	{pool.ErrNoCost, "no-cost"},
	{pool.ErrNoOvercommit, "no-overcommit"},
	{pool.ErrNotInPool, "unknown-name"},
	{pool.ErrOneName, "one-name"},
	{pool.ErrExhausted, "exhausted"},
	{pool.ErrQueueFull, "queue-full"},
	{pool.ErrEnded, "ended"},
	{pool.ErrConflict, "conflict"},
	{pool.ErrNotOwn, "forbidden"},
	{ErrStore, "unavailable"},
	{store.ErrNotLeader, "not-leader"},
	{errPanicked, "unavailable"},
}

// refusal returns the word under which an acquire that ended with err counts; "" if the
// acquire was granted or still waits, its client has gone, or the server stops.
func refusal(err error) string {
	if share, ok := errors.AsType[*pool.ShareError](err); ok {
		if share.Leases {
			return "max-leases"
		}
		return "max-waiters"
	}
	for _, r := range refusals {
		if errors.Is(err, r.err) {
			return r.word
		}
	}
	return ""
}
