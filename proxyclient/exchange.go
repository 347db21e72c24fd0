package proxyclient

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"math"
	"math/rand/v2"
	"net/http"
	"net/http/httptrace"
	"net/url"
	"strconv"
	"time"

	"github.com/hashicorp/go-retryablehttp"

	"github.com/leasectl/leasectl/leaseapi"
)

// call is one request, which may take several attempts.
type call struct {
	method  string
	path    string
	body    func() any    // what each attempt sends as JSON; nil: nothing
	timeout time.Duration // of one attempt; zero: only the context bounds it
	repeat  repeatPolicy
	// fresh makes each attempt on a connection of its own: existing connections may
	// lead to a peer that is gone.
	fresh bool
	// prepare completes the request just before each attempt, or stops it with an
	// error; may be nil.
	prepare func(*http.Request) error
	// receive reads the body of an answer as it arrives. If receive does not take the
	// answer, the body is read whole. With receive the timeout is for the header only. May
	// be nil.
	receive func(*http.Response) (taken bool, err error)
}

// quickTime is how long an attempt may stay without answer if the proxy answers at
// once and a repetition does no harm: longer than a slow commit takes, and short
// enough to try a second connection.
const quickTime = 4 * time.Second

// query is the call that asks for path.
func query(path string) call {
	return call{method: http.MethodGet, path: path, timeout: quickTime, repeat: idempotent{}}
}

// post is the call that sends body to path; a nil body is none.
func post(path string, body any, repeat repeatPolicy) call {
	q := call{method: http.MethodPost, path: path, timeout: quickTime, repeat: repeat}
	if body != nil {
		q.body = func() any { return body }
	}
	return q
}

// exchange makes the attempts of one call.
type exchange struct {
	client   *Client
	call     call
	patience *patience
	sending  sending
	last     outcome
	request  *http.Request   // of the attempt
	trusted  *http.Transport // the client's transport at the start of the attempt
	timeout  time.Duration   // of the attempt
	body     []byte          // of the attempt; nil: none
	id       string          // of the attempt: [leaseapi.HeaderCall]
	http     http.Client     // makes the attempt

	// With several servers:
	server   int      // index of the server to ask
	tried    int      // servers asked in this round, which ends with a pause
	telling  *outcome // the first outcome of this round that tells most: see [outcome.tells]
	electing bool     // in the last round a server said that it does not lead

	replaced bool // the last attempt failed with credentials that were replaced since
	atOnce   bool // no pause before the next attempt: it has another server or new credentials
}

// do makes attempts until the policy of the call or p stops them, or ctx ends. It
// returns the outcome of the last attempt.
func (c *Client) do(ctx context.Context, q call, p *patience) outcome {
	x := exchange{
		client: c, call: q, patience: p,
		http: http.Client{CheckRedirect: noRedirects},
	}
	req, err := x.newRequest(httptrace.WithClientTrace(ctx, x.sending.trace()))
	if err != nil {
		return outcome{err: err}
	}
	if !x.beginFirst(ctx, req.Request) {
		return x.last
	}
	rc := retryablehttp.Client{
		HTTPClient:   &x.http,
		RetryMax:     math.MaxInt, // policy, patience and context bound the attempts
		CheckRetry:   x.end,
		Backoff:      x.pause,
		PrepareRetry: x.begin,
		ErrorHandler: retryablehttp.PassthroughErrorHandler,
	}
	// x.last has the result of Do already. If ctx or prepare ended the call before a
	// further attempt, the last attempt counts.
	_, _ = rc.Do(req)
	return x.last
}

// beginFirst begins the first attempt; false: it cannot be made, as x.last says. Whoever gives tokens
// may fail for a while, like a proxy, so it is asked again while patience lasts. Later attempts have a
// token, if only an old one.
func (x *exchange) beginFirst(ctx context.Context, req *http.Request) bool {
	for {
		if x.last.err = x.begin(req); x.last.err == nil {
			return true
		}
		again := errors.Is(x.last.err, ErrNoTokenGiven) && ctx.Err() == nil && x.patience.lasts(ctx, x.last, true)
		if !again || Sleep(ctx, tokenPause) != nil {
			return false
		}
	}
}

func (x *exchange) newRequest(ctx context.Context) (*retryablehttp.Request, error) {
	var body any // nil, or what reads the body of the attempt
	if x.call.body != nil {
		body = retryablehttp.ReaderFunc(func() (io.Reader, error) { return bytes.NewReader(x.body), nil })
	}
	req, err := retryablehttp.NewRequestWithContext(ctx, x.call.method, x.client.servers.bases[0]+x.call.path, body)
	if err != nil {
		return nil, err
	}
	req.Header.Set("User-Agent", x.client.userAgent)
	req.Header.Set("Accept-Encoding", "identity") // otherwise a gateway may compress (RFC 9110, section 12.5.3)
	if body != nil {
		req.Header.Set("Content-Type", "application/json")
	}
	return req, nil
}

func noRedirects(*http.Request, []*http.Request) error { return http.ErrUseLastResponse }

// transport returns the transport of the attempt. It is always an [http.Transport]: for
// the timeout of any other RoundTripper http.Client needs two more goroutines.
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

// timeoutWithin returns how long the next attempt may stay without answer. It shares the
// time that ctx has left among the servers of a list that were not asked yet: after a
// signal a release has only 3 s.
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
	req.Header = req.Header.Clone() // net/http may still write that of an attempt that was answered early
	x.sending.begin()
	x.last.asked = Now()
	x.request, x.trusted, x.timeout = req, x.client.current(), x.timeoutWithin(req.Context())
	if !x.client.isOurs() {
		x.trusted.CloseIdleConnections() // an answer of version 1 does not tell which request it is for
	}
	x.http.Transport = x.transport()
	if x.call.receive == nil { // otherwise the timeout would include the body
		x.http.Timeout = x.timeout
	}
	if err := x.client.authorize(req); err != nil {
		return err // before the body is made, which counts the attempts
	}
	if x.call.body != nil {
		var err error
		if x.body, err = json.Marshal(x.call.body()); err != nil {
			return err
		}
		req.ContentLength = int64(len(x.body))
	}
	x.id = strconv.FormatUint(rand.Uint64(), 36)
	req.Header.Set(leaseapi.HeaderCall, x.id)
	if x.client.servers.several() {
		if err := x.choose(req); err != nil {
			return err
		}
	}
	if x.call.prepare != nil {
		return x.call.prepare(req)
	}
	return nil
}

// end notes the outcome of an attempt, and reports whether another attempt follows. It
// is the CheckRetry of [retryablehttp.Client].
func (x *exchange) end(ctx context.Context, resp *http.Response, err error) (bool, error) {
	x.last = x.outcomeOf(ctx, resp, err)
	return x.follows(ctx, x.last), nil
}

// outcomeOf returns the outcome of the attempt that has just ended, and notes what its
// answer shows about the proxy.
func (x *exchange) outcomeOf(ctx context.Context, resp *http.Response, err error) outcome {
	o := outcome{asked: x.last.asked, sent: x.sending.sent(), heard: resp != nil}
	if err != nil {
		o.err = withoutURL(ctx, err, x.timeout)
	} else {
		o.answer, o.err = x.read(resp)
		o.from, o.tokenOrigin = x.client.name, x.client.tokenOrigin()
	}
	if o.untrusted() {
		o.err = fmt.Errorf("%s: %w", x.serverName(), o.err)
		if !x.client.verified.Load() {
			o.err = Hopeless(o.err)
		}
	} else if x.sending.verified() {
		x.client.verified.Store(true)
	}
	o.cut = o.err != nil && !o.heard && ctx.Err() != nil
	if o.through = through(x.trusted, x.request); o.through != "" && o.err != nil {
		o.err = &reworded{text: o.onTheWay(o.err.Error()), err: o.err}
	}
	if err := x.client.noteServer(o); err != nil {
		o.err = err
	}
	if o.notLeader() {
		x.client.learn(Ours)
		x.trusted.CloseIdleConnections() // behind a balancer only a new connection leads to another server
	}
	return o
}

// errOutOfStep is the error of an attempt that read an answer to an earlier request: a gateway
// mixed up the answers of a connection. The answer to the attempt counts as lost.
var errOutOfStep = errors.New("the answer belongs to another request")

// read reads the body of an answer. If the answer is to another request, read closes the
// connection.
func (x *exchange) read(resp *http.Response) (answer, error) {
	if id := resp.Header.Get(leaseapi.HeaderCall); id != "" && id != x.id {
		x.sending.close()
		resp.Body.Close()
		resp.Body = http.NoBody // retryablehttp drains the body again
		return answer{}, errOutOfStep
	}
	if x.call.receive != nil {
		if taken, err := x.call.receive(resp); taken {
			resp.Body.Close()
			resp.Body = http.NoBody // retryablehttp drains the body again
			return answer{Response: resp}, err
		}
	}
	return readAnswer(resp)
}

// follows reports whether another attempt follows after the outcome o.
func (x *exchange) follows(ctx context.Context, o outcome) bool {
	// Each of the three is called after each attempt, since they have side effects.
	another := x.client.servers.several() && ctx.Err() == nil && x.leaveServer(o)
	o.another, x.last.another = another, another
	mayRepeat := x.call.repeat.mayRepeat(o)
	var replaced bool
	var noToken error // why another token cannot be had now, which may pass
	if ctx.Err() == nil {
		if replaced, noToken = x.client.reload(ctx, o, x.trusted); noToken != nil {
			x.last.noToken = noToken
			o = x.last
		}
	}
	x.atOnce = another && mayRepeat || replaced && !x.replaced // a second time in a row: after a pause
	x.replaced, mayRepeat = replaced, mayRepeat || replaced || noToken != nil
	if x.atOnce {
		return true
	}
	if t := x.telling; t != nil && mayRepeat && t.tells() >= o.tells() && (o.err != nil || !o.busy()) {
		if o.untrusted() {
			x.last = *t // the call ends with a certificate only if all of the round are bad, and with the first
		}
		o = *t
	}
	lasts := x.patience.lasts(ctx, o, mayRepeat)
	x.electing = o.notLeader()
	x.tried, x.telling = 0, nil
	if !mayRepeat || !lasts {
		return false
	}
	if x.patience.onRetry != nil {
		x.patience.tell(func() { x.patience.onRetry(o.failure()) })
	}
	return true
}

// pause is the Backoff of [retryablehttp.Client].
func (x *exchange) pause(_, _ time.Duration, n int, resp *http.Response) time.Duration {
	if x.atOnce {
		return 0
	}
	if x.client.servers.several() && x.electing {
		return electionPause/2 + rand.N(electionPause/2)
	}
	return x.patience.pause(n, resp)
}

// electionPause is the longest pause between two rounds that search for the leader. It is
// short: an election takes seconds, and a request is waiting for the new leader.
const electionPause = 300 * time.Millisecond

// choose directs req to the current server.
func (x *exchange) choose(req *http.Request) error {
	index, base := x.client.servers.ask()
	u, err := below(base, x.call.path)
	if err != nil {
		return err
	}
	x.server, req.URL, req.Host = index, u, u.Host
	return nil
}

// serverName names the server of the attempt for messages, without its password.
func (x *exchange) serverName() string {
	if !x.client.servers.several() {
		return x.client.name
	}
	return Redacted(x.client.servers.bases[x.server])
}

// leaveServer switches to another server of the list if this one does not lead, cannot be trusted, or
// gave no answer, or if something else answered in its place. It reports whether to ask the other
// server at once; false if all servers of this round were asked, or there is no reason to switch.
func (x *exchange) leaveServer(o outcome) bool {
	leader := ""
	switch {
	case o.notLeader():
		p, _ := o.problem()
		leader = p.Leader
	case o.err == nil && !o.instead(), hopeless(o.err) && !o.untrusted():
		return false
	}
	if x.telling == nil || o.tells() > x.telling.tells() {
		x.telling = &o
	}
	x.client.servers.leave(x.server, leader)
	x.tried++
	return x.tried < len(x.client.servers.bases)
}

// tells ranks the outcomes of a round by how much they say about the servers together: one that does
// not lead says that there are such servers, and a certificate speaks of one server alone.
func (o outcome) tells() int {
	switch {
	case o.notLeader():
		return 2
	case o.untrusted():
		return 0
	}
	return 1
}

// withoutURL removes the text that net/http puts before an error: the method and the
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

// repeatPolicy decides whether a call may be sent again. mayRepeat is called exactly once
// after each attempt, so it may also keep track of the attempts.
type repeatPolicy interface {
	mayRepeat(o outcome) bool
}

// idempotent is the policy of calls that may be sent any number of times: they are
// repeated while the next outcome may be better. The zero value repeats after network
// failures and failures of a server or gateway.
type idempotent struct {
	// misrouted repeats after a 404 that no proxy wrote. It is set for calls about
	// something that the proxy has issued: the address was right then, so the 404 will
	// pass.
	misrouted bool
	// unfinished reports that a success is not the expected answer, which may
	// come next time; nil: every success counts.
	unfinished func(answer) bool
}

func (p idempotent) mayRepeat(o outcome) bool {
	switch {
	case o.transient() || (p.misrouted || o.another) && o.misrouted() || o.another && o.foreign():
		return true
	case o.StatusCode/100 != 2:
		return false
	}
	return p.unfinished != nil && p.unfinished(o.answer)
}
