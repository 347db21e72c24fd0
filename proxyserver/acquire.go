package proxyserver

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"strconv"
	"time"

	"github.com/leasectl/leasectl/leaseapi"
	"github.com/leasectl/leasectl/pool"
)

func (s *Server) serveAcquire(c caller, w http.ResponseWriter, r *http.Request) {
	p, ok := parseAcquire(w, r.URL.Query())
	if !ok {
		s.metrics.refused(p.Type, "bad-request")
		return
	}
	p.Owner = holder(c.token, p.Owner)
	// Only once the body is read does net/http watch the connection, and end
	// the context when the client goes.
	if _, ok := readBody(w, r); !ok {
		return
	}
	if p.Count == 0 {
		answer(w, http.StatusOK, leaseapi.AcquireReply{Names: []string{}})
		return
	}
	out := s.acquire(r.Context(), p)
	// A client without a request id that is gone cannot be told, nor come
	// back: what it got would be held by nobody.
	if p.Anonymous && len(out.leases) > 0 && r.Context().Err() != nil {
		if err := s.giveBack(out.leases); err != nil {
			unavailable(w, err)
			return
		}
		out = outcome{err: errGone}
	}
	s.answerAcquire(w, p, out)
}

// acquire returns what became of the request, which is durable; with
// errSlice it is still queued.
func (s *Server) acquire(ctx context.Context, p *acquireParams) outcome {
	var out outcome
	c := &conn{told: make(chan outcome, 1)}
	queued := false
	err := s.do(func(now time.Duration) {
		if p.Anonymous {
			s.onces++
			p.ID = onceID(s.onces)
		}
		out.leases, out.err = s.set.Acquire(now, p.Request)
		if queued = out.err == nil && out.leases == nil; queued {
			p.wait = s.waitOf(now, p)
			s.attach(p.ID, c, until(now, p.wait))
		}
	})
	switch {
	case err != nil:
		return outcome{err: err}
	case !queued:
		return out
	}
	return s.await(ctx, p, c)
}

// onceID is the id under which the pools know a request that has none. No
// client can send it, since it holds a control character.
func onceID(n uint64) string { return "\x00" + strconv.FormatUint(n, 36) }

// waitOf is how long a request that is queued may still wait.
func (s *Server) waitOf(now time.Duration, p *acquireParams) time.Duration {
	if p.wait >= 0 {
		return p.wait
	}
	st, _ := s.set.Status(now, p.ID)
	return max(0, s.opts.MaxWait-st.Waited)
}

// until returns now + wait, or the end of time if that is later.
func until(now, wait time.Duration) time.Duration { return now + min(wait, never-now) }

var (
	// errSlice is the outcome of a slice that is over before the wait is.
	errSlice = errors.New("still queued")
	// errGone is the outcome of a wait whose client has gone. It is answered
	// all the same: a client that closed only its sending side reads on, and
	// would take the empty answer of a handler that writes none for a success.
	errGone = errors.New("the client closed the connection")
)

// await waits with c until it is told, the client goes, or the time of a slice
// or the whole wait is over.
func (s *Server) await(ctx context.Context, p *acquireParams, c *conn) outcome {
	limit := p.wait
	if !p.Anonymous {
		limit = min(limit, leaseapi.SliceTime)
	}
	timer := time.NewTimer(limit)
	defer timer.Stop()
	select {
	case out := <-c.told:
		return out
	case <-ctx.Done():
		return s.leave(p, c)
	case <-timer.C:
		return s.endSlice(p, c)
	}
}

// leave ends the wait of a connection whose client has gone.
func (s *Server) leave(p *acquireParams, c *conn) outcome {
	out := outcome{err: errGone}
	err := s.do(func(now time.Duration) {
		if s.waits(p.ID, c) {
			s.detach(now, p.ID, c, 0)
		} else {
			out.err = nil
		}
	})
	switch {
	case err == nil && out.err != nil:
		return out
	case err == nil || errors.Is(err, errStopping):
		return <-c.told // it had been decided already, or is by the stop
	}
	return outcome{err: err}
}

// endSlice ends the wait of a connection whose time is over: for the whole
// request, unless a later connection said that it may wait on.
func (s *Server) endSlice(p *acquireParams, c *conn) outcome {
	out := outcome{err: errSlice}
	err := s.do(func(now time.Duration) {
		switch {
		case !s.waits(p.ID, c):
			out.err = nil
		case now >= s.waiting[p.ID].until:
			s.set.Withdraw(now, p.ID) // which tells c, among others
			out.err = nil
		default:
			st, _ := s.set.Status(now, p.ID)
			out.status = &st
			s.detach(now, p.ID, c, leaseapi.SliceGap)
		}
	})
	if err != nil && !errors.Is(err, errStopping) {
		return outcome{err: err}
	}
	if err != nil || out.err == nil {
		return <-c.told
	}
	return out
}

// giveBack ends leases that nobody received.
func (s *Server) giveBack(leases []pool.Lease) error {
	err := s.do(func(now time.Duration) {
		for _, l := range leases {
			s.set.Release(now, pool.Ref{Name: l.Name, Generation: l.Generation}, 0)
		}
	})
	if errors.Is(err, errStopping) {
		err = s.giveBackLast(leases)
	}
	if err != nil {
		s.log.Warn("leases are held by a client that has gone, until their TTL is over", "names", namesOf(leases), "error", err)
	}
	return err
}

// giveBackLast has the last commit of a server that is stopping end leases. The
// pools are not told, which are of no use any more: they would grant to somebody
// who waits, and does not hear of it.
func (s *Server) giveBackLast(leases []pool.Lease) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.finished {
		return errStopping
	}
	now := s.clock.now()
	for _, l := range leases {
		if held, ok := s.set.Held(still, l.Name); ok && held.Generation == l.Generation {
			s.open.changes = append(s.open.changes, pool.Change{Kind: pool.Done, Lease: l, Reason: pool.Released, Took: now - l.Granted})
		}
	}
	return nil
}

func (s *Server) answerAcquire(w http.ResponseWriter, p *acquireParams, out outcome) {
	s.metrics.refused(p.Type, refusal(out.err))
	refuse := func(status int, text string) {
		if status == http.StatusServiceUnavailable {
			w.Header().Set("Retry-After", retryAfter)
		}
		http.Error(w, fmt.Sprintf("%s%q: %s", leaseapi.TextAcquireFailed, p.Type, text), status)
	}
	switch err := out.err; {
	case err == nil:
		answer(w, http.StatusOK, s.acquireReply(p, out.leases))
	case errors.Is(err, errSlice), errors.Is(err, errStopping) && !p.Anonymous && out.status != nil:
		answer(w, http.StatusAccepted, s.queuedReply(p.ID, *out.status))
	case p.Anonymous && (errors.Is(err, errStopping) || errors.Is(err, errGone)):
		refuse(http.StatusServiceUnavailable, err.Error())
	case errors.Is(err, pool.ErrUnknownType):
		refuse(http.StatusNotFound, leaseapi.TextUnknownType)
	case errors.Is(err, pool.ErrTooMany):
		refuse(http.StatusBadRequest, err.Error())
	case errors.Is(err, pool.ErrExhausted):
		refuse(http.StatusInternalServerError, fmt.Sprintf("%s: %s within %v", leaseapi.TextExhausted, leaseapi.TextExhaustedOne, round(out.took)))
	case errors.Is(err, pool.ErrQueueFull) && !p.ours:
		// In the words for an exhausted pool, which clients of version 1 take
		// for a reason to try again later.
		refuse(http.StatusServiceUnavailable, fmt.Sprintf("%s: %s: %v", leaseapi.TextExhausted, leaseapi.TextExhaustedOne, err))
	case errors.Is(err, pool.ErrQueueFull):
		problem(w, http.StatusServiceUnavailable, leaseapi.ProblemQueueFull, err.Error())
	case errors.Is(err, pool.ErrEnded):
		problem(w, http.StatusGone, leaseapi.ProblemEnded, err.Error())
	case errors.Is(err, pool.ErrConflict):
		problem(w, http.StatusConflict, leaseapi.ProblemConflict, err.Error())
	default:
		unavailable(w, err)
	}
}

func (s *Server) acquireReply(p *acquireParams, leases []pool.Lease) leaseapi.AcquireReply {
	reply := leaseapi.AcquireReply{Names: namesOf(leases)}
	if !p.ours {
		return reply
	}
	if !p.Anonymous {
		reply.RequestID = p.ID
	}
	reply.Leases = leasesOf(leases)
	ttl, expires := leases[0].TTL, leases[0].Ends()
	for _, l := range leases {
		ttl, expires = min(ttl, l.TTL), min(expires, l.Ends())
	}
	reply.TTL, reply.RenewEvery = leaseapi.Duration(ttl), renewEvery(ttl)
	reply.ExpiresAt = s.clock.wall(expires)
	return reply
}

// renewEvery leaves room for two renewals that fail.
func renewEvery(ttl time.Duration) leaseapi.Duration { return leaseapi.Duration(ttl / 3) }

func (s *Server) queuedReply(id string, st pool.Status) leaseapi.Queued {
	reply := leaseapi.Queued{
		RequestID: id,
		Place:     st.Place,
		Length:    st.Length,
		InUse:     st.InUse,
		Capacity:  st.Capacity,
		Estimate:  leaseapi.Duration(st.Estimate.Round(time.Second)),
	}
	if st.Oldest != nil {
		oldest := s.poolLease(*st.Oldest)
		reply.Oldest = &oldest
	}
	return reply
}
