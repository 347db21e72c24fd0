package proxyclient

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"net/http"
	"slices"
	"time"

	"github.com/leasectl/leasectl/leaseapi"
)

// Renewal is the result of a successful renewal.
type Renewal struct {
	TTL        time.Duration // the shortest TTL of the leases
	RenewEvery time.Duration // time from Asked to the next renewal
	Asked      Instant       // when the attempt began that was answered
	// ReleaseAt is set while a delayed release is pending. It is by the proxy's
	// clock, for people. Renewals no longer move the end of the leases.
	ReleaseAt time.Time
	// Deadline is the earliest end of the leases: TTL after Asked, or
	// when the delayed release is due, if that is sooner. A later one needs further renewals, so that
	// one false answer keeps no lease.
	Deadline Instant
}

// releases tells whether the leases end by their delayed release unless they are renewed again.
func (r Renewal) releases() bool {
	return !r.ReleaseAt.IsZero() && r.Deadline.Sub(r.Asked) < r.TTL
}

// Renew renews leases, each for ttl from now; with zero each lease keeps its own TTL.
// The first renewal confirms a grant. Renew retries until ctx ends, or until there was
// no good answer for too long ([ErrUnreachable]).
//
// If the proxy says that leases are lost, the error is a [LostError]; the leases that
// it does not name were renewed. The error is [errors.ErrUnsupported] if a lease has no
// generation, since such a lease is from a version-1 proxy.
func (c *Client) Renew(ctx context.Context, leases []leaseapi.Lease, ttl time.Duration) (Renewal, error) {
	r := renewal{client: c, leases: leases, ttl: ttl, patience: patience{limits: usualLimits, maxPause: maxPauseBefore(ctx)}}
	n, err := r.run(ctx)
	if err != nil {
		return Renewal{}, fmt.Errorf("renew: %w", err)
	}
	return n, nil
}

// errLate ends a renewal that is too late, or no longer needed.
var errLate = errors.New("no answer in time")

// renewal is one Renew.
type renewal struct {
	client   *Client
	leases   []leaseapi.Lease
	ttl      time.Duration
	granted  time.Duration // the longest TTL to believe if ttl is zero; zero: any
	patience patience
	late     func() bool // no attempt begins once it is true; may be nil
}

func (r *renewal) run(ctx context.Context) (Renewal, error) {
	if err := renewable(r.leases); err != nil {
		return Renewal{}, err
	}
	q := post(leaseapi.PathRenew, leaseapi.RenewRequest{Leases: r.leases, TTL: leaseapi.Duration(r.ttl)}, idempotent{misrouted: true})
	q.prepare = r.prepare
	o := r.client.do(ctx, q, &r.patience)
	if lost := lostOf(o, r.leases); lost != nil {
		return Renewal{}, lost
	}
	var reply leaseapi.RenewReply
	if o.err != nil || o.StatusCode != http.StatusOK {
		return Renewal{}, r.client.failure(ctx, o, &r.patience)
	}
	if err := o.decode(&reply); err != nil {
		return Renewal{}, err
	}
	if reply.TTL <= 0 {
		return Renewal{}, fmt.Errorf("the proxy renewed for %s", time.Duration(reply.TTL))
	}
	return renewalOf(reply, o, cmp.Or(r.ttl, r.granted)), nil
}

// prepare stops a renewal that is too late.
func (r *renewal) prepare(*http.Request) error {
	if r.late != nil && r.late() {
		return errLate
	}
	return nil
}

// renewable returns an error if no proxy would renew leases.
func renewable(leases []leaseapi.Lease) error {
	if len(leases) == 0 {
		return errors.New("there is no lease to renew")
	}
	if CapabilitiesOf(leases) != Ours {
		return unsupported("renewals")
	}
	return nil
}

// lostOf returns which of leases are lost, as an answer with [leaseapi.ProblemLost] says: all, if it
// names none; nil: none.
func lostOf(o outcome, leases []leaseapi.Lease) *LostError {
	if o.err != nil || !o.is(leaseapi.ProblemLost) {
		return nil
	}
	p, _ := o.problem()
	e := &LostError{}
	for _, l := range leases {
		if len(p.Lost) == 0 {
			e.Lost = append(e.Lost, leaseapi.Lost{Lease: l, Reason: o.text()})
		}
	}
	for _, lost := range p.Lost {
		if contains(leases, lost.Lease) {
			e.Lost = append(e.Lost, lost)
		}
	}
	if len(e.Lost) == 0 {
		return nil
	}
	return e
}

// renewalOf turns reply, the answer of o, into a Renewal for asked at most; zero: not known.
func renewalOf(reply leaseapi.RenewReply, o outcome, asked time.Duration) Renewal {
	n := Renewal{
		TTL:       atMost(reply.TTL, asked),
		Asked:     o.asked,
		ReleaseAt: reply.ReleaseAt,
	}
	// With a pause between renewals, so that no proxy keeps the machine busy.
	n.RenewEvery = max(renewEvery(reply.RenewEvery, n.TTL), min(time.Second, n.TTL/3))
	n.Deadline = n.Asked.Add(n.TTL)
	if !n.ReleaseAt.IsZero() {
		// Both times are by the proxy's clock, so the local clock may be wrong.
		now, err := http.ParseTime(o.Header.Get("Date"))
		if err != nil {
			now = time.Now()
		}
		n.Deadline = n.Asked.Add(min(n.TTL, n.ReleaseAt.Sub(now)))
	}
	return n
}

// Heartbeat keeps leases of leasectl's server from ending, by renewing them. It
// treats them as one: they were granted together, and end together. Fill in the
// first four fields and call Run.
//
// The leases are lost when the proxy says so, or when Deadline is over: from
// then on the proxy may have granted them to somebody else. A user of the leases must
// have stopped at the deadline, not only begin to stop. Hence Margin.
type Heartbeat struct {
	Client *Client
	Leases []leaseapi.Lease
	// Deadline is when the leases end unless they are renewed, from
	// [Grant.Deadline] or an earlier [Renewal]. Zero: not known; Run then assumes
	// [leaseapi.ProvisionalTTL] from its start.
	Deadline Instant
	// TTL is that of the [Grant]. A renewal counts for no longer, whatever its answer says.
	// Zero: not known.
	TTL time.Duration

	// Margin is how long before the deadline Run returns, to leave time to stop the
	// users of the leases. If the leases live less than twice Margin, half of their
	// time to live is used instead, so that there is time to renew.
	Margin time.Duration
	// OnRenew is called after each renewal, OnRetry before a failed renewal is
	// repeated. Both may be nil. They are never called at the same time, and
	// Run waits for them.
	OnRenew func(Renewal)
	OnRetry func(error)
}

// Forget makes h ready for another Run after one that ended with e, for a caller that goes on with what is left of
// its leases, none perhaps: a proxy that was down all the time may still know them, and the leases that e does not name
// may be held. If e is about a delayed release, which may not be of all that it names, Forget blocks until that is due, or ctx ends.
func (h *Heartbeat) Forget(ctx context.Context, e *LostError) error {
	h.Deadline = Instant{} // not known
	if len(e.Lost) > 0 && !e.Deadline.IsZero() {
		return Sleep(ctx, max(time.Second, Until(e.Deadline)))
	}
	h.Leases = slices.DeleteFunc(slices.Clone(h.Leases), func(l leaseapi.Lease) bool {
		return slices.ContainsFunc(e.Lost, func(lost leaseapi.Lost) bool { return contains([]leaseapi.Lease{l}, lost.Lease) })
	})
	return nil
}

// Run renews at once, which confirms a grant, and then at the interval RenewEvery of
// each [Renewal], or sooner after a failed renewal. It blocks until
//
//   - ctx ends: it returns the cause;
//   - the proxy says that leases are lost, or no renewal succeeded until
//     Margin before the deadline: it returns a [LostError] that tells which.
//     The deadline may still be ahead, or long over if the machine was
//     suspended or the process stopped: see [Until];
//   - a pending delayed release is due Margin from now, or earlier: it returns a [LostError]
//     that names all leases, and when it is due.
//
// Leases that a LostError does not name may still be held: the caller releases
// them, or they end with their TTL, or [Heartbeat.Forget] goes on with them.
//
// After a suspend or a stop of the process Run checks the deadline before it renews.
func (h *Heartbeat) Run(ctx context.Context) error {
	if err := renewable(h.Leases); err != nil {
		return fmt.Errorf("heartbeat: %w", err)
	}
	resumed, stop := watchResumes()
	defer stop()
	l := heartbeatLoop{Heartbeat: h, schedule: newSchedule(h.Deadline, h.Margin)}
	defer l.stopRenewal()
	return fmt.Errorf("heartbeat: %w", l.run(ctx, resumed))
}

// heartbeatLoop is one [Heartbeat.Run].
type heartbeatLoop struct {
	*Heartbeat
	schedule
	lastErr error // of the last renewal

	running chan renewalResult // the renewal under way; nil: none
	cancel  context.CancelCauseFunc
}

// renewalResult is what the goroutine of a renewal hands back.
type renewalResult struct {
	renewal Renewal
	err     error
}

// run blocks until the heartbeat ends, and returns why.
func (l *heartbeatLoop) run(ctx context.Context, resumed <-chan struct{}) error {
	for {
		// Check the limit first: leases past their deadline must not be renewed.
		if over(l.limit) {
			if err := l.atLimit(); err != nil {
				return err
			}
			continue
		}
		if l.running == nil && over(l.next) {
			l.startRenewal(ctx)
		}
		select {
		case r := <-l.running:
			l.running = nil
			if err := l.follow(r); err != nil {
				return err
			}
			if r.err != nil && l.OnRetry != nil {
				l.OnRetry(r.err)
			}
		case <-resumed: // the timer below stood still in the suspend
		case <-time.After(Until(l.wake(l.running != nil))):
		case <-ctx.Done():
			return context.Cause(ctx)
		}
	}
}

// startRenewal starts a renewal, which goes on until it is answered or stopped.
func (l *heartbeatLoop) startRenewal(ctx context.Context) {
	ctx, l.cancel = context.WithCancelCause(ctx)
	limit := l.limit
	r := renewal{
		client: l.Client, leases: l.Leases, granted: l.TTL,
		patience: patience{limits: noLimits, onRetry: l.OnRetry, maxPause: maxPauseWithin(Until(limit))},
		// After a stop of the process all timers fire, in any order. The pause
		// before a further attempt may end before the loop wakes, so each attempt
		// checks the limit itself.
		late: func() bool { return over(limit) },
	}
	done := make(chan renewalResult, 1)
	go func() {
		n, err := r.run(ctx)
		done <- renewalResult{n, err}
	}()
	l.running = done
}

// stopRenewal stops the renewal under way, if there is one, and waits for its end.
func (l *heartbeatLoop) stopRenewal() (r renewalResult, stopped bool) {
	if l.running == nil {
		return renewalResult{}, false
	}
	l.cancel(errLate)
	r = <-l.running
	l.running = nil
	return r, true
}

// atLimit decides whether the heartbeat ends at the limit: a renewal under way may have
// been answered in time. Nil means that it goes on.
func (l *heartbeatLoop) atLimit() error {
	if r, stopped := l.stopRenewal(); stopped {
		if err := l.follow(r); err != nil || !over(l.limit) {
			return err
		}
	}
	if l.releasing {
		return l.releasedLate()
	}
	return &LostError{Deadline: l.deadline, Err: l.lastErr}
}

// releasedLate is the loss of leases by a delayed release, which may still be ahead.
func (l *heartbeatLoop) releasedLate() error {
	reason, left := leaseapi.ReasonReleased, Until(l.deadline)
	if left > 0 {
		reason = "released late, at " + time.Now().Add(left).Format(time.TimeOnly)
	}
	lost := &LostError{Deadline: l.deadline}
	for _, lease := range l.Leases {
		lost.Lost = append(lost.Lost, leaseapi.Lost{Lease: lease, Reason: reason})
	}
	return lost
}

// follow handles the result of a renewal. Its error ends the heartbeat: the leases are
// lost, or a delayed release has released them.
func (l *heartbeatLoop) follow(r renewalResult) error {
	l.cancel(nil)
	l.lastErr = r.err
	if r.err == nil {
		l.renewed(r.renewal)
		if l.OnRenew != nil {
			l.OnRenew(r.renewal)
		}
		return nil
	}
	if errors.Is(r.err, ErrLost) {
		return r.err
	}
	l.failed()
	return nil
}

// Resize makes a lease of a counted pool hold another number of units. A shrink always
// succeeds. A growth is granted at once or refused; it does not queue. Resize retries
// until ctx ends, or until there was no good answer for too long ([ErrUnreachable]). If
// r.After is set, the proxy recognises a second copy, however late it arrives.
//
// Errors are [ErrNoRoom], [ErrTooMany], [ErrNotCounted], a [StaleError]
// if the lease does not hold r.From units, or was resized after r.After, and a [LostError]
// if it has ended, or cannot grow since an operator broke it. None of these errors
// changes the lease. With the first two and a StaleError the reply has the units that
// the lease holds, if the proxy sent them.
func (c *Client) Resize(ctx context.Context, r leaseapi.ResizeRequest) (leaseapi.ResizeReply, error) {
	p := &patience{limits: usualLimits, maxPause: maxPauseBefore(ctx)}
	reply, err := c.resize(ctx, r, p)
	if err != nil {
		return reply, fmt.Errorf("resize: %w", err)
	}
	return reply, nil
}

func (c *Client) resize(ctx context.Context, r leaseapi.ResizeRequest, p *patience) (reply leaseapi.ResizeReply, err error) {
	attempts := 0
	q := post(leaseapi.PathResize, r, idempotent{misrouted: true})
	q.body = func() any { attempts++; return r }
	o := c.do(ctx, q, p)
	if o.err != nil {
		return reply, c.failure(ctx, o, p)
	}
	if o.StatusCode == http.StatusOK && o.decode(&reply) == nil && reply.Units > 0 && (r.Count == 0 || reply.Units == r.Count) {
		return reply, nil
	}
	said, _ := o.problem()
	held := leaseapi.ResizeReply{Units: max(said.Held, 0), Resizes: max(said.Resizes, 0)}
	switch said.Type {
	case leaseapi.ProblemNoRoom:
		text := fmt.Sprintf("need %d more, %d free; %d stay held", said.Need, said.Free, said.Held)
		if keeps := said.Keeps.String(); keeps != "" {
			text += ": " + shortLine(keeps)
		}
		return held, &reworded{text: text, err: ErrNoRoom}
	case leaseapi.ProblemTooMany:
		return held, &reworded{text: o.text(), err: ErrTooMany}
	case leaseapi.ProblemStale:
		if attempts > 1 && r.After != nil && said.Held == r.From && held.Resizes == *r.After+1 {
			// An earlier attempt was refused, and the answer was lost. There may be room by now.
			r.After = &held.Resizes
			return c.resize(ctx, r, p)
		}
		return held, &StaleError{Held: said.Held}
	case leaseapi.ProblemNotCounted:
		return leaseapi.ResizeReply{}, &reworded{text: o.text(), err: ErrNotCounted}
	}
	if lost := lostOf(o, []leaseapi.Lease{{Name: r.Name, Generation: r.Generation}}); lost != nil {
		return leaseapi.ResizeReply{}, lost
	}
	return leaseapi.ResizeReply{}, c.failure(ctx, o, p)
}

// Report tells the proxy the outcome of a lease, and returns whether the report counts:
// see [leaseapi.ReportReply]. It retries until ctx ends, or until there was no good
// answer for too long ([ErrUnreachable]), since a second copy changes nothing.
//
// Errors are [ErrUnknownRequest] if the proxy has forgotten the lease, [ErrNoLease],
// and [ErrVersion1] if the proxy takes no reports.
func (c *Client) Report(ctx context.Context, r leaseapi.ReportRequest) (counts bool, err error) {
	p := &patience{limits: usualLimits, maxPause: maxPauseBefore(ctx)}
	switch can, err := c.identify(ctx, r.RequestID, p); {
	case err != nil:
		return false, fmt.Errorf("report: %w", err)
	case can != Ours:
		return false, fmt.Errorf("report: %w", &Version1Error{Proxy: c.name, Needs: "a report"})
	}
	o := c.do(ctx, post(leaseapi.PathReport, r, idempotent{misrouted: true}), p)
	var reply leaseapi.ReportReply
	switch {
	case o.err != nil:
		err = c.failure(ctx, o, p)
	case o.StatusCode == http.StatusOK && o.decode(&reply) == nil:
		return reply.Counts, nil
	case o.is(leaseapi.ProblemUnknownRequest):
		err = fmt.Errorf("%w %s: the lease ended more than two hours ago, or is of another proxy: name that with --proxy", ErrUnknownRequest, r.RequestID)
	case o.is(leaseapi.ProblemNoLease):
		err = &reworded{text: o.text(), err: ErrNoLease}
	default:
		err = c.failure(ctx, o, p)
	}
	return false, fmt.Errorf("report: %w", err)
}
