package proxyclient

import (
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"net/http"
	"net/url"
	"slices"
	"strconv"
	"time"

	"github.com/leasectl/leasectl/leaseapi"
)

const (
	// answerTime is how much later than the end of the wait the proxy's word
	// on it may come: the proxy counts from the arrival of the request, and a
	// name may have to be resolved on the way.
	answerTime = 5 * time.Second
	// sliceTime is how long a request that is answered in slices may stay
	// without answer.
	sliceTime = leaseapi.SliceTime + answerTime
	// cancelTime bounds taking a request back. It has to fit between a TERM
	// and the KILL after it, beside the end of a child.
	cancelTime = 3 * time.Second
)

// Acquire blocks until the leases are granted, for Wait, and for at most eight
// seconds more if the proxy does not answer. If ctx ends before, it takes the
// request back, for at most three seconds, and returns the cause. (Leases that
// it got, and could not keep, may take it ten seconds to give back.)
//
// Errors are [ErrUnknownType], [ErrEnded], [ErrExhausted], [ErrUnreachable]
// (no HTTP answer for 30 s, or for Wait if that is shorter), or the proxy's own
// words. Whether the end of the wait is [ErrExhausted] is decided by the
// proxy's last answer: that the request is queued, or that nothing is free; or
// none yet, as a version-1 proxy answers only with a grant. If that answer was
// a failure, it is the error. Any error may be [ErrUnconfirmed] as well.
func (c *Client) Acquire(ctx context.Context, r Request) (*Grant, error) {
	if r.RequestID == "" {
		r.RequestID = rand.Text()
	}
	if err := r.check(); err != nil {
		return nil, fmt.Errorf("acquire: %w", err)
	}
	a := &acquisition{c: c, r: r, p: patience{
		end:     Now().Add(r.Wait),
		silence: min(maxSilence, r.Wait),
		onRetry: r.OnRetry,
	}}
	g, err := a.run(ctx)
	if err != nil {
		return nil, fmt.Errorf("acquire: %w", err)
	}
	c.forgetReleased(g.Leases)
	return g, nil
}

// acquisition is one Acquire.
type acquisition struct {
	c *Client
	r Request
	p patience

	found verdict // what the last attempt came to
	// oneByOne is set with a version-1 proxy that several leases are wanted
	// of: it is asked for one at a time, in no other words than its own.
	oneByOne bool
	// open is set while the proxy may hold a grant or a waiter for this
	// request that it does not know to be unwanted.
	open bool

	reply leaseapi.AcquireReply // what was granted
	word  error                 // the proxy's last word, as an error; nil: none yet
	last  *leaseapi.Queued      // its last word on the queue
}

// verdict is what one attempt came to.
type verdict int

const (
	unsent  verdict = iota // as if it had not been made
	unclear                // it may have been carried out, or may still be
	nothing                // the proxy says that it granted nothing; it may be asked again
	queued
	granted
	refused // for good
)

func (a *acquisition) run(ctx context.Context) (*Grant, error) {
	bounded, cancel := context.WithTimeout(ctx, a.r.Wait+answerTime)
	defer cancel()
	if a.r.Count > 1 {
		ours, err := a.askVersion(bounded)
		switch {
		case ctx.Err() != nil:
			return nil, context.Cause(ctx)
		case err != nil:
			return nil, fmt.Errorf("find out whether the proxy grants %d at once: %w", a.r.Count, err)
		case !ours:
			return a.together(ctx, bounded)
		}
	}
	for {
		o := a.exchange(bounded)
		switch a.found {
		case granted:
			return a.accept(ctx, o)
		case refused:
			return nil, a.refusal(o)
		case unclear:
			if a.c.knowsIDs.Load() || bounded.Err() != nil {
				return nil, a.stop(ctx, o)
			}
			ours, err := a.askVersion(bounded)
			if err != nil || !ours {
				return nil, a.unconfirmed(ctx, o, err)
			}
		case unsent, nothing: // and exchange found that it is enough
			return nil, a.stop(ctx, o)
		}
		if a.p.ended() || Sleep(bounded, a.rest(o)) != nil {
			return nil, a.stop(ctx, o)
		}
	}
}

// exchange sends the acquire, again as long as that is safe and makes sense.
func (a *acquisition) exchange(ctx context.Context) outcome {
	q := call{
		method:  http.MethodPost,
		path:    leaseapi.PathAcquire,
		prepare: a.prepare,
		again: func(o outcome) bool {
			a.note(o)
			return a.found == unsent || a.found == nothing || a.found == unclear && a.c.knowsIDs.Load()
		},
	}
	if a.c.knowsIDs.Load() {
		q.timeout = sliceTime
	}
	a.found = unsent
	return a.c.exchange(ctx, q, &a.p)
}

// want is how many leases one request asks for.
func (a *acquisition) want() int {
	if a.oneByOne {
		return 1
	}
	return a.r.Count
}

// prepare writes the query, with what remains of the wait.
func (a *acquisition) prepare(req *http.Request) error {
	v := url.Values{
		leaseapi.ParamType:  {a.r.Type},
		leaseapi.ParamCount: {strconv.Itoa(a.want())},
	}
	if !a.oneByOne {
		v.Set(leaseapi.ParamRequestID, a.r.RequestID)
		v.Set(leaseapi.ParamWait, max(0, Until(a.p.end)).Round(time.Millisecond).String())
		if a.r.Owner != "" {
			v.Set(leaseapi.ParamOwner, a.r.Owner)
		}
		if a.r.TTL > 0 {
			v.Set(leaseapi.ParamTTL, a.r.TTL.String())
		}
	}
	u := *req.URL // an attempt before may still hold it
	u.RawQuery = v.Encode()
	req.URL = &u
	return nil
}

// rest is the pause before a request that was answered, or was unclear, is
// sent again. A slice that was answered at once means that the proxy stops, or
// is none of ours: it must not be asked as fast as it answers.
func (a *acquisition) rest(o outcome) time.Duration {
	if a.found == queued {
		return max(0, minPause+Until(o.asked))
	}
	return a.p.pause(0, o.Response)
}

// askVersion reports whether the proxy knows request ids. The error says that
// it could not be found out.
func (a *acquisition) askVersion(ctx context.Context) (bool, error) {
	if a.c.knowsIDs.Load() {
		return true, nil
	}
	_, err := a.c.requestState(ctx, a.r.RequestID, &a.p)
	switch {
	case err == nil || errors.Is(err, ErrUnknownRequest):
		return true, nil
	case errors.Is(err, errors.ErrUnsupported):
		return false, nil
	}
	return false, err
}

// accept turns a grant over to the caller, unless there is something wrong
// with it: then it gives it back.
func (a *acquisition) accept(ctx context.Context, o outcome) (*Grant, error) {
	g, err := a.grant(a.reply)
	if err != nil {
		return nil, a.giveBack(ctx, a.reply, err)
	}
	g.Asked = o.asked
	return g, nil
}

func (a *acquisition) grant(reply leaseapi.AcquireReply) (*Grant, error) {
	if err := checkNames(reply.Names, a.want()); err != nil {
		return nil, err
	}
	g := &Grant{RequestID: a.r.RequestID}
	if reply.RequestID == "" {
		g.Version1 = true
		for _, n := range reply.Names {
			g.Leases = append(g.Leases, leaseapi.Lease{Name: n})
		}
		return g, nil
	}
	if reply.RequestID != a.r.RequestID {
		return nil, errors.New("the proxy answered another request than the one that was sent")
	}
	same := func(n string, l leaseapi.Lease) bool { return n == l.Name && l.Generation != 0 }
	if !slices.EqualFunc(reply.Names, reply.Leases, same) {
		return nil, errors.New("the names and the leases that the proxy granted differ")
	}
	g.Leases = reply.Leases
	g.TTL, g.RenewEvery = time.Duration(reply.TTL), time.Duration(reply.RenewEvery)
	if g.TTL <= 0 {
		return nil, fmt.Errorf("the proxy granted leases for %s", g.TTL)
	}
	if g.RenewEvery <= 0 || g.RenewEvery >= g.TTL {
		g.RenewEvery = g.TTL / 3
	}
	return g, nil
}
