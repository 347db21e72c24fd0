package proxyserver

import (
	"context"
	"errors"
	"log/slog"
	"net"
	"net/http"
	"sync"
	"time"

	"github.com/leasectl/leasectl/internal/proxyserver/auth"
	"github.com/leasectl/leasectl/internal/proxyserver/metrics"
	"github.com/leasectl/leasectl/leaseapi"
)

// asksForTokens reports whether calls need a token.
func (h *handler) asksForTokens() bool { return h.gate.Asks() }

// identify returns the sender of r, or why it is not let in.
func (h *handler) identify(r *http.Request) (caller, *auth.Refusal) {
	if !h.gate.Asks() {
		return everybody, nil
	}
	if r.URL.Path == leaseapi.PathAcquire && h.term().lastWaits.Load() {
		return h.identifyAside(r)
	}
	return h.identifyHere(r)
}

func (h *handler) identifyHere(r *http.Request) (caller, *auth.Refusal) {
	return h.identifyAsOf(r, time.Now())
}

// identifyAsOf is identify by the tokens, issuers and rules of now, for an r that came earlier.
func (h *handler) identifyAsOf(r *http.Request, came time.Time) (caller, *auth.Refusal) {
	if !h.gate.Asks() {
		return everybody, nil
	}
	c, refusal := h.gate.AdmitAsOf(r.Context(), r.Header.Get("Authorization"), came)
	if refusal != nil {
		return caller{}, refusal
	}
	return callerOf(c), nil
}

// identifyAside is identifyHere on the stack of another goroutine, for a request that will probably
// wait: checking a token takes more stack than waiting. See [term.askAside].
func (h *handler) identifyAside(r *http.Request) (c caller, refusal *auth.Refusal) {
	aside(func() { c, refusal = h.identifyHere(r) })
	return c, refusal
}

// aside calls f on the stack of another goroutine.
func aside(f func()) {
	var cause any
	done := make(chan struct{})
	go func() {
		defer close(done)
		defer func() { cause = recover() }() // nobody else can
		f()
	}()
	<-done
	if cause != nil {
		panic(cause)
	}
}

// connKey is the key of a context's value: the connection that a request came on.
type connKey struct{}

// withConn adds the connection of a request to the parent of its context.
func withConn(ctx context.Context, conn net.Conn) context.Context {
	return context.WithValue(ctx, connKey{}, conn)
}

// errCalls refuses a call whose caller has more than its share of the connections.
var errCalls = errors.New("this caller has too many calls under way: try again soon")

// known notes that the sender of r is known, by the id of the caller: its connection is busy until the answer, and it may
// take its time for the body. Until then the connection may be closed for another one; if it was,
// known ends the call. It returns errCalls if the caller has too many calls under way, and errAnswers if
// too many long lists are not read yet.
func (h *handler) known(caller string, w http.ResponseWriter, r *http.Request) error {
	if !h.calls.begin(caller, h.connections.Most()) {
		w.Header().Set("Connection", "close")
		return errCalls
	}
	a, ok := w.(*answerWriter)
	if ok {
		a.caller = caller
	}
	if conn, ok := r.Context().Value(connKey{}).(net.Conn); ok && !h.connections.Admit(conn) {
		panic(http.ErrAbortHandler)
	}
	boundBody(w, r, bodyTime)
	h.bodies.countBody(r, caller)
	if ok && lists(r) {
		if err := h.roomForList(a, r); err != nil {
			return err
		}
	}
	w.Header().Del("Connection")
	return nil
}

// answered notes that r was answered. If its connection is closed now, which may take a while, it may be
// closed for another one.
func (h *handler) answered(w *answerWriter, r *http.Request) {
	w.giveBackTurn()
	h.calls.end(w.caller)
	h.answers.giveBack(w.caller, w.room)
	giveBackBody(r)
	if conn, ok := r.Context().Value(connKey{}).(net.Conn); ok && w.Header().Get("Connection") == "close" {
		h.connections.Answered(conn)
	}
}

// admit returns the sender of r. If it is not let in, admit answers r, and ok is false. The log and
// the metrics have the reason, which the answer does not tell a stranger.
func (h *handler) admit(w http.ResponseWriter, r *http.Request) (c caller, ok bool) {
	c, refusal := h.identify(r)
	if refusal == nil {
		if err := h.known(c.id, w, r); err != nil {
			unavailable(w, err)
			return caller{}, false
		}
		return c, true
	}
	h.refuse(w, r, refusal)
	return caller{}, false
}

// refuse answers r, whose sender is not let in. The answer is the last on its connection, so that
// nobody waits for the rest of a body.
func (h *handler) refuse(w http.ResponseWriter, r *http.Request, refusal *auth.Refusal) {
	h.refused(r, refusal)
	boundBody(w, r, strangerTime) // anew: the server itself may have waited for keys
	w.Header().Set("Connection", "close")
	status, text := refusal.Status()
	switch status {
	case http.StatusForbidden:
		problem(w, status, leaseapi.ProblemForbidden, text)
	case http.StatusServiceUnavailable:
		problem(w, status, leaseapi.ProblemUnavailable, text)
	default:
		w.Header().Set("WWW-Authenticate", `Bearer realm="leases"`) // RFC 9110, section 11.6.1
		problem(w, status, leaseapi.ProblemUnauthorized, text)
	}
}

// refused counts and logs that the sender of r was not let in.
func (h *handler) refused(r *http.Request, refusal *auth.Refusal) {
	word := "unauthorized"
	switch status, _ := refusal.Status(); status {
	case http.StatusForbidden:
		word = "forbidden"
	case http.StatusServiceUnavailable:
		word = "unavailable"
	}
	h.metrics.Refused("", word)
	h.metrics.NotAdmitted(string(refusal.Reason), refusal.Issuer)
	h.refusals.log(h.log, r, refusal)
}

// refusalEvery is the least time between two lines about refusals for the same reason, so that
// nobody fills the log from outside.
const refusalEvery = time.Second

// refusalLog logs refusals.
type refusalLog struct {
	mu   sync.Mutex
	last map[refusalKind]*refusalCount // as many as there are reasons and configured issuers
}

type refusalKind struct {
	reason auth.Reason
	issuer string
}

// refusalCount is when the last line was written, and how many refusals have had none since.
type refusalCount struct {
	at      time.Time
	without int
}

func (l *refusalLog) log(log *slog.Logger, r *http.Request, refusal *auth.Refusal) {
	without, due := l.due(refusalKind{refusal.Reason, refusal.Issuer})
	if !due {
		return
	}
	attrs := []any{"reason", refusal.Reason, "issuer", refusal.Issuer, "detail", leaseapi.Clip(refusal.Detail, 1000), "from", r.RemoteAddr, "path", leaseapi.Shorten(r.URL.Path)}
	if without > 0 {
		attrs = append(attrs, "not_logged", without)
	}
	log.Warn("not let in", attrs...)
}

// due reports whether a refusal gets a line, and how many before it got none.
func (l *refusalLog) due(kind refusalKind) (without int, due bool) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.last == nil {
		l.last = make(map[refusalKind]*refusalCount)
	}
	c := l.last[kind]
	if c == nil {
		c = new(refusalCount)
		l.last[kind] = c
	}
	if now := time.Now(); c.at.IsZero() || now.Sub(c.at) >= refusalEvery {
		without, c.without, c.at = c.without, 0, now
		return without, true
	}
	c.without++
	return 0, false
}

// writeIssuers writes how the issuers of tokens answer.
func (h *handler) writeIssuers(t *metrics.Text) {
	issuers := h.gate.Issuers()
	if len(issuers) == 0 {
		return
	}
	t.Family("leasectl_issuer_up", "gauge", "Whether the issuer of tokens told its keys when it was last asked: 1 or 0.")
	for _, i := range issuers {
		t.Sample("leasectl_issuer_up", metrics.Bool(i.Err == nil), "issuer", i.URL)
	}
	t.Family("leasectl_issuer_fetches_total", "counter", "How often an issuer of tokens was asked for its keys.")
	for _, i := range issuers {
		t.Sample("leasectl_issuer_fetches_total", float64(i.Fetched), "issuer", i.URL, "result", "ok")
		t.Sample("leasectl_issuer_fetches_total", float64(i.Failed), "issuer", i.URL, "result", "error")
	}
}

// issuerWarnings are about issuers that do not answer.
func (h *handler) issuerWarnings() (all []warning) {
	for _, i := range h.gate.Issuers() {
		if i.Err != nil {
			all = append(all, warning{"issuer " + i.URL, "it does not tell its keys: " + i.Err.Error()})
		}
	}
	return all
}
