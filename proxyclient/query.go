package proxyclient

import (
	"cmp"
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"time"

	"github.com/leasectl/leasectl/leaseapi"
)

// Health asks whether the proxy serves, and which wire it speaks. Like
// [Client.Pools] and [Client.RequestState] it retries until ctx ends, or
// until there was no good answer for too long ([ErrUnreachable]). The error is
// [errors.ErrUnsupported] if the proxy is of version 1.
func (c *Client) Health(ctx context.Context) (leaseapi.Health, error) {
	h, err := c.health(ctx, &patience{limits: usualLimits})
	if err != nil {
		return leaseapi.Health{}, fmt.Errorf("ask for health: %w", err)
	}
	return h, nil
}

func (c *Client) health(ctx context.Context, p *patience) (h leaseapi.Health, err error) {
	_, err = c.get(ctx, leaseapi.PathHealth, &h, p)
	if err == nil && h.Wire < leaseapi.Wire {
		err = unsupported(leaseapi.PathHealth)
	}
	if err == nil {
		c.learn(Ours)
	}
	return h, err
}

// What a peer can make Pools read at most.
const (
	maxPages    = 1000
	maxPaged    = 64 << 20 // bytes of all pages
	leastListed = 300      // bytes that a pool, lease, waiter, … counts for: about what our server writes, and takes in memory
)

// Pools returns the state of all pools. It reads them in pages, each of its own moment. The
// error is [errors.ErrUnsupported] if the proxy is of version 1. More pages than are read are
// an error: a lease on a page that was not read would look free.
func (c *Client) Pools(ctx context.Context) ([]leaseapi.Pool, error) {
	all, err := c.Overview(ctx, "")
	return all.Pools, err
}

// Overview returns the pools, like [Client.Pools], and the server that leads. With a type it returns that pool
// alone, with its names; the error is also [UnknownTypeError].
func (c *Client) Overview(ctx context.Context, typ string) (leaseapi.PoolsReply, error) {
	var all leaseapi.PoolsReply
	size, of := 0, url.Values{}
	if typ != "" {
		of.Set(leaseapi.ParamType, typ)
	}
	for range maxPages {
		var r leaseapi.PoolsReply
		path := leaseapi.PathPools
		if len(of) > 0 {
			path += "?" + of.Encode()
		}
		n, err := c.get(ctx, path, &r, &patience{limits: usualLimits})
		if err == nil && r.Pools == nil {
			err = unsupported(leaseapi.PathPools)
		}
		if errors.Is(err, ErrUnknownType) {
			return leaseapi.PoolsReply{}, &UnknownTypeError{Type: typ, Listed: true}
		}
		if err != nil {
			return leaseapi.PoolsReply{}, fmt.Errorf("ask for the pools: %w", err)
		}
		listed := len(r.Pools)
		for _, p := range r.Pools {
			listed += len(p.Names) + len(p.Leases) + len(p.Waiters) + len(p.Reservations) + len(p.Tally)
		}
		if size += max(n, listed*leastListed); size > maxPaged {
			break
		}
		all.Pools, all.Leader = appendPage(all.Pools, r.Pools), r.Leader
		if r.Next == "" {
			cleanOverview(&all)
			return all, nil
		}
		of.Set(leaseapi.ParamAfter, r.Next)
	}
	return leaseapi.PoolsReply{}, fmt.Errorf("ask for the pools: the proxy has more than %d pages of them, or %d bytes: look at its status page", maxPages, maxPaged)
}

// appendPage appends the pools of the next page to all. If the first of them continues the
// last pool of all, the two are joined.
func appendPage(all, page []leaseapi.Pool) []leaseapi.Pool {
	if len(all) > 0 && len(page) > 0 && all[len(all)-1].Type == page[0].Type {
		last := &all[len(all)-1]
		last.Leases = append(last.Leases, page[0].Leases...)
		last.Waiters = append(last.Waiters, page[0].Waiters...)
		page = page[1:]
	}
	return append(all, page...)
}

// cleanOverview makes the texts of the pools and of the leader printable.
func cleanOverview(all *leaseapi.PoolsReply) {
	for i := range all.Pools {
		cleanPool(&all.Pools[i])
	}
	if all.Leader != nil {
		makePrintable(&all.Leader.URL)
	}
}

// cleanPool makes the texts of a pool, its leases, waiters and reports printable.
func cleanPool(p *leaseapi.Pool) {
	makePrintable(&p.Type, &p.Unit, &p.Paused)
	for i := range p.Reservations {
		r := &p.Reservations[i]
		makePrintable(&r.Name, &r.Owner, &r.Token, &r.Reason, &r.HeldBy)
	}
	for i := range p.Names {
		makePrintable(&p.Names[i].Name, &p.Names[i].State)
	}
	for i := range p.Leases {
		cleanLease(&p.Leases[i])
	}
	for i := range p.Waiters {
		w := &p.Waiters[i]
		makePrintable(&w.RequestID, &w.Owner, &w.Token, &w.Key, &w.KeyMode, &w.Name, &w.Follows)
		cleanReason(&w.Reason)
	}
	if m := p.Moved; m != nil {
		makePrintable(&m.Owner, &m.Token, &m.Detail)
	}
}

// RequestState returns the state of the request with that id. The error is
// [ErrUnknownRequest] if the proxy does not know the request, and
// [errors.ErrUnsupported] if the proxy is of version 1.
func (c *Client) RequestState(ctx context.Context, id string) (leaseapi.RequestReply, error) {
	if err := leaseapi.CheckRequestID(id); err != nil {
		return leaseapi.RequestReply{}, fmt.Errorf("ask for the request: %w", err)
	}
	r, err := c.requestState(ctx, id, false, &patience{limits: usualLimits})
	if err != nil {
		return leaseapi.RequestReply{}, fmt.Errorf("ask for the request: %w", err)
	}
	return r, nil
}

// Capabilities returns what the proxy can do. The client remembers every answer
// that proves a capability: a grant, a place in the queue, the state of a request, the
// health. Before the first such answer, Capabilities asks for the state of a request
// that does not exist. Like [Client.Pools] it retries until ctx ends, or
// until there was no good answer for too long ([ErrUnreachable]).
//
// A proxy that has neither the path of requests nor a health of ours is of version 1. The
// client does not remember this, since a gateway that does not find the proxy at the
// moment answers in the same way.
func (c *Client) Capabilities(ctx context.Context) (Capabilities, error) {
	can, err := c.identify(ctx, rand.Text(), &patience{limits: usualLimits})
	if err != nil {
		return Unknown, fmt.Errorf("ask what the proxy can do: %w", err)
	}
	return can, nil
}

// identify is Capabilities, and asks for the state of the request with that id.
func (c *Client) identify(ctx context.Context, id string, p *patience) (Capabilities, error) {
	if can := c.known(); can != Unknown {
		return can, nil
	}
	_, err := c.requestState(ctx, id, false, p)
	switch {
	case err == nil || errors.Is(err, ErrUnknownRequest), errors.Is(err, ErrNotLeader): // each proves the wire
		return c.known(), nil
	case !errors.Is(err, errors.ErrUnsupported):
		return Unknown, err
	}
	// The proxy is of version 1, or a gateway replaced our server's 404 by its own page. A
	// health is no error, so a gateway lets it through. One question is enough: a health
	// that fails is not from our server.
	_, err = c.health(ctx, &patience{end: Now()})
	can := c.known()
	switch {
	case can != Unknown:
		return can, nil
	case ctx.Err() != nil: // the question was cut short, and says nothing
		return Unknown, because(ctx, err)
	}
	return NamesOnly, nil
}

// requestState is RequestState, and learns what the proxy can do. A proxy that recognises
// request ids answers with the same id, or with our server's problem that there is no
// such request. A version-1 proxy lacks the path. Any other answer proves nothing. With
// fresh, the question is sent on a connection of its own.
func (c *Client) requestState(ctx context.Context, id string, fresh bool, p *patience) (r leaseapi.RequestReply, err error) {
	answers := func(a answer) bool {
		r = leaseapi.RequestReply{} // an earlier attempt may have had another answer
		return a.StatusCode == http.StatusOK && a.decode(&r) == nil && r.RequestID == id
	}
	q := query(leaseapi.PathRequests + id)
	q.fresh = fresh
	q.repeat = idempotent{unfinished: func(a answer) bool { return a.StatusCode == http.StatusOK && !answers(a) }}
	o := c.do(ctx, q, p)
	switch {
	case o.err != nil:
		return leaseapi.RequestReply{}, c.failure(ctx, o, p)
	case answers(o.answer):
		c.learn(Ours)
		r.Page = c.pageURL(r.Page)
		makePrintable(&r.State, &r.Follows)
		cleanReason(&r.Reason)
		for i := range r.Names {
			makePrintable(&r.Names[i])
		}
		for i := range r.Leases {
			makePrintable(&r.Leases[i].Name, &r.Leases[i].RequestID, &r.Leases[i].Type)
		}
		if r.Oldest != nil {
			cleanLease(r.Oldest)
		}
		return r, nil
	case o.is(leaseapi.ProblemUnknownRequest):
		c.learn(Ours)
		return leaseapi.RequestReply{}, fmt.Errorf("%w %s", ErrUnknownRequest, id)
	case o.StatusCode == http.StatusNotFound || o.StatusCode == http.StatusMethodNotAllowed:
		return leaseapi.RequestReply{}, unsupported(leaseapi.PathRequests)
	}
	return leaseapi.RequestReply{}, c.failure(ctx, o, p)
}

// get reads the answer of path, which version 1 does not know, into v, and returns its bytes. Any JSON
// object can be read into v, so the caller checks that it is the expected one.
func (c *Client) get(ctx context.Context, path string, v any, p *patience) (size int, err error) {
	o := c.do(ctx, query(path), p)
	switch {
	case o.err != nil:
		return 0, c.failure(ctx, o, p)
	case o.StatusCode == http.StatusOK && o.decode(v) == nil:
		return len(o.body), nil
	case o.is(leaseapi.ProblemUnknownType):
		return 0, ErrUnknownType
	case o.foreign():
		return 0, fmt.Errorf("%w: %w: it is no lease proxy, or of version 1, which has no %s", errors.ErrUnsupported, o.failure(), path)
	case o.misrouted() || o.StatusCode == http.StatusOK:
		return 0, unsupported(path)
	}
	return 0, c.failure(ctx, o, p)
}

// unsupported returns the error for a feature that a version-1 proxy does not have.
func unsupported(what string) error {
	return fmt.Errorf("%w: the proxy is of version 1, which has no %s", errors.ErrUnsupported, what)
}

// The calls of operators. Like [Client.Health] they retry until ctx ends, or until there
// was no good answer for too long ([ErrUnreachable]). A request that arrives twice has no
// further effect. The errors are [ErrUnknownType] for an unknown pool, [ErrUnknownRequest]
// for an unknown request, and [errors.ErrUnsupported] if the proxy is of version 1.

// Break takes the lease of name away from its holder. From then on the holder's renewals
// fail with reason. The name becomes free when the holder releases it or its TTL ends, or
// at once if now is set.
//
// Break means the lease that is held when it begins. Retries never hit a later holder. The
// error is [ErrNotHeld] if nobody holds the name then, or if the lease ends meanwhile; or [ErrReserved],
// with who has it and why, if nobody holds it and somebody has reserved it.
func (c *Client) Break(ctx context.Context, name, reason string, now bool) (reply leaseapi.BreakReply, err error) {
	pools, err := c.Pools(ctx)
	if err != nil {
		return reply, fmt.Errorf("break: %w", err)
	}
	req := leaseapi.BreakRequest{Name: name, Generation: generationOf(pools, name), Reason: reason, Now: now}
	if req.Generation == 0 {
		for _, p := range pools {
			for _, r := range p.Reservations {
				if r.Name == name {
					text := fmt.Sprintf("nobody holds %q, which is reserved by %s: %s", name, cmp.Or(r.Owner, r.Token, "another"), r.Reason)
					return reply, fmt.Errorf("break: %w", &reworded{text: text, err: ErrReserved})
				}
			}
		}
		return reply, fmt.Errorf("break: %w %q", ErrNotHeld, leaseapi.Shorten(name))
	}
	err = c.operate(ctx, "break", leaseapi.PathBreak, req, &reply)
	cleanLease(&reply.Lease)
	return reply, err
}

// generationOf returns the generation of name's lease; 0 if nobody holds it.
func generationOf(pools []leaseapi.Pool, name string) uint64 {
	for _, p := range pools {
		for _, l := range p.Leases {
			if l.Name == name {
				return l.Generation
			}
		}
	}
	return 0
}

// Pause stops the grants of a pool until [Client.Resume]; waiters are told reason.
func (c *Client) Pause(ctx context.Context, typ, reason string) (reply leaseapi.PauseReply, err error) {
	err = c.operatePool(ctx, "pause", leaseapi.PathPause, typ, leaseapi.PauseRequest{Type: typ, Reason: reason}, &reply)
	return reply, err
}

// Resume ends a pause. The reply has the ended pause, or no reason if the pool was not
// paused.
func (c *Client) Resume(ctx context.Context, typ string) (reply leaseapi.PauseReply, err error) {
	err = c.operatePool(ctx, "resume", leaseapi.PathResume, typ, leaseapi.ResumeRequest{Type: typ}, &reply)
	makePrintable(&reply.Reason)
	return reply, err
}

// Remove takes a waiter off the queue. The waiter's client is told reason ([ErrRemoved]).
func (c *Client) Remove(ctx context.Context, req leaseapi.RemoveRequest) (reply leaseapi.RemoveReply, err error) {
	err = c.operate(ctx, "remove", leaseapi.PathRemove, req, &reply)
	if errors.Is(err, ErrUnknownRequest) {
		err = fmt.Errorf("%w %s", err, req.RequestID)
	}
	makePrintable(&reply.Owner, &reply.Token, &reply.Type)
	return reply, err
}

// Move gives a waiter another priority. Its reason is for the server's log.
func (c *Client) Move(ctx context.Context, req leaseapi.MoveRequest) (reply leaseapi.MoveReply, err error) {
	err = c.operate(ctx, "move", leaseapi.PathMove, req, &reply)
	if errors.Is(err, ErrUnknownRequest) {
		err = fmt.Errorf("%w %s", err, req.RequestID)
	}
	makePrintable(&reply.Owner, &reply.Token, &reply.Type)
	return reply, err
}

// Reserve takes a name out of its pool for req.Owner, at once if it is free, else when its holder
// ends. The errors are also [ErrUnknownName], if no pool has the name, and [ErrReserved].
func (c *Client) Reserve(ctx context.Context, req leaseapi.ReserveRequest) (reply leaseapi.ReserveReply, err error) {
	err = c.operate(ctx, "reserve", leaseapi.PathReserve, req, &reply)
	r := &reply.Reservation
	makePrintable(&reply.Type, &r.Name, &r.Owner, &r.Token, &r.Reason, &r.HeldBy)
	return reply, err
}

// operatePool is operate for the pool of a type.
func (c *Client) operatePool(ctx context.Context, what, path, typ string, req, reply any) error {
	err := c.operate(ctx, what, path, req, reply)
	if errors.Is(err, ErrUnknownType) {
		return fmt.Errorf("%s: %w", what, &UnknownTypeError{Type: typ, Listed: true})
	}
	return err
}

func (c *Client) operate(ctx context.Context, what, path string, req, reply any) error {
	return c.carryOut(ctx, what, post(path, req, idempotent{}), func(o outcome) bool {
		return o.StatusCode == http.StatusOK && o.decode(reply) == nil
	})
}

// carryOut makes a call. It succeeds if done returns true for the answer.
func (c *Client) carryOut(ctx context.Context, what string, q call, done func(outcome) bool) error {
	p := patience{limits: usualLimits}
	o := c.do(ctx, q, &p)
	var err error
	switch {
	case o.err != nil:
		err = c.failure(ctx, o, &p)
	case done(o):
		return nil
	case o.misrouted():
		err = unsupported(q.path)
	case o.is(leaseapi.ProblemUnknownType):
		err = ErrUnknownType
	case o.is(leaseapi.ProblemUnknownRequest):
		err = ErrUnknownRequest
	case o.is(leaseapi.ProblemUnknownName):
		err = &reworded{text: o.text(), err: ErrUnknownName}
	case o.is(leaseapi.ProblemReserved):
		err = &reworded{text: o.text(), err: ErrReserved}
	case o.is(leaseapi.ProblemNotHeld):
		err = &reworded{text: o.text(), err: ErrNotHeld}
	default:
		err = c.failure(ctx, o, &p)
	}
	return fmt.Errorf("%s: %w", what, err)
}

// backupSilence is how long a proxy may send nothing: while it makes the copy, before the
// first byte, and between two parts of the copy.
const backupSilence = time.Minute

// maxBackup is the largest copy that is taken. A store has hundreds of megabytes at most.
const maxBackup = 4 << 30

// Backup writes a copy of the proxy's current store to w, and returns the number of bytes
// written. Like the other operators' calls it retries, but not after a copy has begun to
// arrive. A copy whose length the answer does not say is refused, since half of it would look
// whole. The caller checks what arrived.
func (c *Client) Backup(ctx context.Context, w io.Writer) (size int64, err error) {
	b := backup{proxy: c.name, w: w}
	q := post(leaseapi.PathBackup, nil, &b)
	q.timeout, q.receive = backupSilence, b.receive
	err = c.carryOut(ctx, "backup", q, func(outcome) bool { return b.begun })
	return b.size, err
}

// backup receives a copy, and is the policy of the call that asks for it.
type backup struct {
	proxy string // the proxy's URLs, without passwords
	w     io.Writer
	begun bool // the header of a copy has arrived
	size  int64
}

func (b *backup) mayRepeat(o outcome) bool {
	// A 500 means that the proxy tried and failed; each try costs it a copy.
	return !b.begun && (o.err != nil || o.StatusCode != http.StatusInternalServerError) && idempotent{}.mayRepeat(o)
}

// receive takes the body of r if it is a copy.
func (b *backup) receive(r *http.Response) (taken bool, err error) {
	if r.StatusCode != http.StatusOK || r.Header.Get("Content-Type") != "application/octet-stream" {
		return false, nil
	}
	b.begun = true
	if n := r.ContentLength; n <= 0 || n > maxBackup {
		text := "does not say how long the copy is"
		if n >= 0 {
			text = fmt.Sprintf("says that the copy has %d bytes", n)
		}
		return true, fmt.Errorf("the answer of %s %s: name the server with --proxy, and no gateway before it", b.proxy, text)
	}
	body := &watchedBody{body: r.Body}
	b.size, err = io.Copy(b.w, body)
	if body.err != nil && r.Request.Context().Err() == nil {
		text := fmt.Sprintf("%v: %s: %v after %d bytes of the copy: try again", ErrUnreachable, b.proxy, body.err, b.size)
		err = &reworded{text: text, err: errors.Join(ErrUnreachable, body.err)}
	}
	return true, err
}

// watchedBody is a body whose reads fail after backupSilence without data.
type watchedBody struct {
	body io.ReadCloser
	err  error // of the last read, if it failed
}

func (w *watchedBody) Read(p []byte) (int, error) {
	silent := time.AfterFunc(backupSilence, func() { w.body.Close() })
	n, err := w.body.Read(p)
	if inTime := silent.Stop(); err != nil && !inTime {
		err = fmt.Errorf("silent for %s", leaseapi.Duration(backupSilence))
	}
	if err != io.EOF {
		w.err = err
	}
	return n, err
}
