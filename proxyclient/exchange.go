package proxyclient

import (
	"context"
	"crypto/tls"
	"encoding/json"
	"errors"
	"fmt"
	"math"
	"math/rand/v2"
	"net/http"
	"net/http/httptrace"
	"net/url"
	"time"

	"github.com/hashicorp/go-retryablehttp"

	"github.com/leasectl/leasectl/leaseapi"
)

// call is one request, which may take several attempts.
type call struct {
	method  string
	path    string
	body    any           // sent as JSON; nil: none
	timeout time.Duration // of one attempt; zero: as long as the context
	repeat  repeatPolicy
	// fresh makes each attempt on a connection of its own: those that are there
	// may lead to a peer that is gone.
	fresh bool
	// prepare completes the request just before each attempt, or stops it;
	// may be nil.
	prepare func(*http.Request) error
	// receive reads the body of an answer as it comes. If it does not take an answer, the
	// body is read whole. With receive the timeout is that of the header. May be nil.
	receive func(*http.Response) (taken bool, err error)
}

// quickTime is how long one attempt may stay without answer where there is
// nothing to wait for and a repetition does no harm: more than a slow commit
// takes, and short enough to try a second connection.
const quickTime = 4 * time.Second

// query is the call that asks for path.
func query(path string) call {
	return call{method: http.MethodGet, path: path, timeout: quickTime, repeat: idempotent{}}
}

// post is the call that sends body to path.
func post(path string, body any, repeat repeatPolicy) call {
	return call{method: http.MethodPost, path: path, body: body, timeout: quickTime, repeat: repeat}
}

// exchange makes the attempts of one call.
type exchange struct {
	client   *Client
	call     call
	patience *patience
	sending  sending
	last     outcome
	request  *http.Request   // of the attempt
	trusted  *http.Transport // of the attempt, as the client has it
	timeout  time.Duration   // of the attempt
	http     http.Client     // that makes the attempt

	// With several servers:
	server    int      // index of the one that is asked
	tried     int      // servers in this round, which ends with a pause
	notLeader *outcome // in this round: what one said that does not lead

	replaced bool // the last attempt failed with credentials that have been replaced since
	atOnce   bool // the next attempt is made without a pause: at another server, or with new credentials
}

// do makes attempts until the policy of the call or p says that it is enough,
// or ctx ends. It returns the outcome of the last one.
func (c *Client) do(ctx context.Context, q call, p *patience) outcome {
	x := exchange{
		client: c, call: q, patience: p,
		sending: sending{ready: c.ready},
		http:    http.Client{CheckRedirect: noRedirects},
	}
	req, err := c.newRequest(httptrace.WithClientTrace(ctx, x.sending.trace()), q)
	if err != nil {
		return outcome{err: err}
	}
	if err := x.begin(req.Request); err != nil {
		return outcome{err: err, asked: x.last.asked}
	}
	rc := retryablehttp.Client{
		HTTPClient:   &x.http,
		RetryMax:     math.MaxInt, // policy, patience and context say when it is enough
		CheckRetry:   x.end,
		Backoff:      x.pause,
		PrepareRetry: x.begin,
		ErrorHandler: retryablehttp.PassthroughErrorHandler,
	}
	// The result of Do is in x.last already; or ctx or prepare ended the pause
	// before a further attempt, and the last one counts.
	_, _ = rc.Do(req)
	return x.last
}

func (c *Client) newRequest(ctx context.Context, q call) (*retryablehttp.Request, error) {
	var body any // nil, or []byte
	if q.body != nil {
		text, err := json.Marshal(q.body)
		if err != nil {
			return nil, err
		}
		body = text
	}
	req, err := retryablehttp.NewRequestWithContext(ctx, q.method, c.servers.bases[0]+q.path, body)
	if err != nil {
		return nil, err
	}
	req.Header.Set("User-Agent", c.userAgent)
	req.Header.Set("Accept-Encoding", "identity") // without it a gateway may compress (RFC 9110, section 12.5.3)
	if body != nil {
		req.Header.Set("Content-Type", "application/json")
	}
	return req, nil
}

func noRedirects(*http.Request, []*http.Request) error { return http.ErrUseLastResponse }

// transport is what makes the attempt. It is no [http.RoundTripper] of our own: for the
// timeout of one that it does not know http.Client has two goroutines more.
func (x *exchange) transport() *http.Transport {
	if !x.call.fresh && x.call.receive == nil {
		return x.trusted
	}
	once := x.trusted.Clone()
	once.DisableKeepAlives = true
	if x.call.receive != nil {
		once.ResponseHeaderTimeout = x.timeout
	}
	return once
}

// timeoutWithin is how long the next attempt may stay without answer. It leaves the servers
// of a list that are asked after this one their share of the time that ctx has: a release has
// 3 s after a signal.
func (x *exchange) timeoutWithin(ctx context.Context) time.Duration {
	end, bounded := ctx.Deadline()
	unasked := len(x.client.servers.bases) - x.tried
	if !bounded || unasked < 2 || x.call.timeout != quickTime {
		return x.call.timeout
	}
	return min(quickTime, time.Until(end)/time.Duration(unasked))
}

// begin prepares an attempt.
func (x *exchange) begin(req *http.Request) error {
	x.sending.begin()
	x.last.asked = Now()
	x.request, x.trusted, x.timeout = req, x.client.current(), x.timeoutWithin(req.Context())
	x.http.Transport = x.transport()
	if x.call.receive == nil { // else it would be that of the body, too
		x.http.Timeout = x.timeout
	}
	x.client.show(req)
	if x.client.servers.several() {
		if err := x.choose(req); err != nil {
			return err
		}
	}
	if x.call.prepare == nil {
		return nil
	}
	return x.call.prepare(req)
}

// end notes the outcome of an attempt, and reports whether another follows. It
// is the CheckRetry of [retryablehttp.Client].
func (x *exchange) end(ctx context.Context, resp *http.Response, err error) (bool, error) {
	x.last = x.outcomeOf(ctx, resp, err)
	return x.follows(ctx, x.last), nil
}

// outcomeOf returns what came of the attempt that has just ended, and notes what its
// answer tells of the proxy.
func (x *exchange) outcomeOf(ctx context.Context, resp *http.Response, err error) outcome {
	o := outcome{asked: x.last.asked, sent: x.sending.sent(), heard: resp != nil}
	if err != nil {
		o.err = withoutURL(ctx, err, x.timeout)
	} else {
		o.answer, o.err = x.read(resp)
		o.from, o.tokenFile = x.client.name, x.client.tokenFile
	}
	if _, untrusted := errors.AsType[*tls.CertificateVerificationError](o.err); untrusted {
		o.err = fmt.Errorf("%s: %w", x.client.name, o.err)
	}
	o.cut = o.err != nil && !o.heard && ctx.Err() != nil
	if o.through = through(x.trusted, x.request); o.through != "" && o.err != nil {
		o.err = &reworded{text: o.onTheWay(o.err.Error()), err: o.err}
	}
	if err := x.client.noteStore(o); err != nil {
		o.err = err
	}
	if o.notLeader() {
		x.client.learn(wireIDs) // no earlier server says so
	}
	return o
}

// read reads the body of an answer.
func (x *exchange) read(resp *http.Response) (answer, error) {
	if x.call.receive != nil {
		if taken, err := x.call.receive(resp); taken {
			resp.Body.Close()
			resp.Body = http.NoBody // retryablehttp drains it once more
			return answer{Response: resp}, err
		}
	}
	return readAnswer(resp)
}

// follows reports whether another attempt follows one that came to o.
func (x *exchange) follows(ctx context.Context, o outcome) bool {
	// All three are asked each time, since they keep count.
	another := x.client.servers.several() && ctx.Err() == nil && x.leaveServer(o)
	mayRepeat := x.call.repeat.mayRepeat(o)
	replaced := ctx.Err() == nil && x.client.replaced(o, x.trusted)
	x.atOnce = another && mayRepeat || replaced && !x.replaced // twice in a row: after a pause
	x.replaced, mayRepeat = replaced, mayRepeat || replaced
	if x.atOnce {
		return true
	}
	if x.notLeader != nil && mayRepeat && (o.err != nil || !o.busy()) {
		o = *x.notLeader // of all that this round came to
	}
	lasts := x.patience.lasts(ctx, o, mayRepeat)
	x.tried, x.notLeader = 0, nil
	if !mayRepeat || !lasts {
		return false
	}
	if x.patience.onRetry != nil {
		x.patience.onRetry(o.failed())
	}
	return true
}

// pause is the Backoff of [retryablehttp.Client].
func (x *exchange) pause(_, _ time.Duration, n int, resp *http.Response) time.Duration {
	if x.atOnce {
		return 0
	}
	if x.client.servers.several() && x.last.notLeader() {
		return electionPause/2 + rand.N(electionPause/2)
	}
	return x.patience.pause(n, resp)
}

// electionPause is the most that passes between two rounds of questions for who
// leads: an election takes seconds, and the first answer of the next leader is waited
// for.
const electionPause = 300 * time.Millisecond

// choose points req at the server to ask.
func (x *exchange) choose(req *http.Request) error {
	index, base := x.client.servers.ask()
	u, err := below(base, x.call.path)
	if err != nil {
		return err
	}
	x.server, req.URL, req.Host = index, u, u.Host
	return nil
}

// leaveServer leaves a server that does not lead, or that gave no answer, for another one
// of the list. It reports whether that is to be asked at once: if not, all were asked.
func (x *exchange) leaveServer(o outcome) bool {
	leader := ""
	switch {
	case hopeless(o.err):
		return false
	case o.notLeader():
		p, _ := o.problem()
		leader = p.Leader
		x.notLeader = &o
	case o.err == nil:
		return false
	}
	x.client.servers.leave(x.server, leader)
	x.tried++
	return x.tried < len(x.client.servers.bases)
}

// withoutURL takes from err what net/http says around it: the method and the
// whole URL with its query.
func withoutURL(ctx context.Context, err error, timeout time.Duration) error {
	ue, ok := errors.AsType[*url.Error](err)
	if !ok {
		return err
	}
	if timeout > 0 && ue.Timeout() && ctx.Err() == nil {
		return &reworded{text: fmt.Sprintf("no answer for %s", leaseapi.Duration(timeout)), err: ue.Err}
	}
	return ue.Err
}
