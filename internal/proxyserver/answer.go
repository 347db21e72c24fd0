package proxyserver

import (
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"strconv"
	"time"

	"github.com/leasectl/leasectl/leaseapi"
)

// writeTime is how long a client may take to read an answer. It begins with the
// answer, so it cuts no wait.
const writeTime = 30 * time.Second

// answerWriter bounds the time in which an answer must be read, and adds the wire and the ids of
// the store and of the call to it.
type answerWriter struct {
	http.ResponseWriter
	call    string        // id of the call; empty: none
	storeID func() string // empty: not known yet
	begun   bool
	caller  string     // id of the caller whose call counts; empty: of none
	room    int64      // bytes of the answer that count among the large ones
	writeBy time.Time  // by when the answer must be read, if a handler said so; else zero
	large   *turnstile // of calls with large bodies
	endTurn func()     // nil: the call has no turn
}

// newAnswerWriter returns a writer for one answer. Nothing bounds the time until the answer
// begins: net/http has removed the write deadline of the answer before.
func (h *handler) newAnswerWriter(rw http.ResponseWriter, r *http.Request) *answerWriter {
	w := &answerWriter{ResponseWriter: rw, storeID: h.storeID, large: &h.large}
	if id := r.Header.Get(leaseapi.HeaderCall); leaseapi.CheckRequestID(id) == nil {
		w.call = id
	}
	return w
}

// WriteHeader implements [http.ResponseWriter].
func (w *answerWriter) WriteHeader(status int) {
	w.begin()
	w.ResponseWriter.WriteHeader(status)
}

// Write implements [http.ResponseWriter].
func (w *answerWriter) Write(p []byte) (int, error) {
	w.begin()
	return w.ResponseWriter.Write(p)
}

func (w *answerWriter) begin() {
	if w.begun {
		return
	}
	w.begun = true
	w.giveBackTurn()
	w.Header().Set(leaseapi.HeaderWire, strconv.Itoa(leaseapi.Wire))
	if id := w.storeID(); id != "" {
		w.Header().Set(leaseapi.HeaderStore, id) // not earlier, so that a waiter keeps no header
	}
	if w.call != "" {
		w.Header().Set(leaseapi.HeaderCall, w.call)
	}
	if least := time.Now().Add(writeTime); w.writeBy.Before(least) {
		w.SetWriteDeadline(least)
	}
}

// takeTurn waits for the turn of a call with a large body, until its answer begins. What is decoded from a body, and its answer,
// take up to forty times its size while they are made.
func takeTurn(w http.ResponseWriter, body []byte) {
	if a, ok := w.(*answerWriter); ok && len(body) > usualBody {
		a.endTurn = a.large.take(a.caller)
	}
}

// endTurn gives the turn of takeTurn back before the answer begins.
func endTurn(w http.ResponseWriter) {
	if a, ok := w.(*answerWriter); ok {
		a.giveBackTurn()
	}
}

func (w *answerWriter) giveBackTurn() {
	if w.endTurn != nil {
		w.endTurn()
		w.endTurn = nil
	}
}

// SetWriteDeadline serves [http.ResponseController].
func (w *answerWriter) SetWriteDeadline(by time.Time) error {
	w.writeBy = by
	return http.NewResponseController(w.ResponseWriter).SetWriteDeadline(by) // a recorder in a test has none
}

// Unwrap serves [http.ResponseController].
func (w *answerWriter) Unwrap() http.ResponseWriter { return w.ResponseWriter }

// retryAfter is how many seconds a client is asked to wait after a 503. A server that
// restarts is usually back within that time.
const retryAfter = "1"

const contentTypeJSON = "application/json"

// answer writes v as JSON, without a newline at its end.
func answer(w http.ResponseWriter, status int, v any) {
	write(w, status, contentTypeJSON, v)
}

func write(w http.ResponseWriter, status int, contentType string, v any) {
	if body, ok := encode(w, v); ok {
		writeBody(w, status, contentType, body)
	}
}

// encode returns v as JSON. If that cannot be, encode answers with an error, and ok is false.
func encode(w http.ResponseWriter, v any) (body []byte, ok bool) {
	body, err := json.Marshal(v)
	if err != nil { // only a time beyond the year 9999 does that
		http.Error(w, fmt.Sprintf("encode the answer: %v", err), http.StatusInternalServerError)
	}
	return body, err == nil
}

func writeBody(w http.ResponseWriter, status int, contentType string, body []byte) {
	w.Header().Set("Content-Type", contentType)
	// net/http adds the length to short answers only. A gateway that passes on an answer
	// without a length, as HTTP/1.0, cannot show that the answer was cut.
	w.Header().Set("Content-Length", strconv.Itoa(len(body)))
	w.WriteHeader(status)
	w.Write(body) // an error means that the client has gone
}

// problem answers with a problem of a type and a text. It is not inlined: else the frames
// above each waiter would have room for a [leaseapi.Problem], and the stack of a waiter would
// be twice as large.
//
//go:noinline
func problem(w http.ResponseWriter, status int, typ, detail string) {
	writeProblem(w, leaseapi.Problem{Type: typ, Status: status, Detail: detail})
}

// writeProblem answers with p, under the title of its type.
func writeProblem(w http.ResponseWriter, p leaseapi.Problem) {
	if p.Status == http.StatusServiceUnavailable && w.Header().Get("Retry-After") == "" {
		w.Header().Set("Retry-After", retryAfter)
	}
	p.Title = titles[p.Type]
	write(w, p.Status, leaseapi.ContentTypeProblem, p)
}

// titles are the texts that all problems of a type share.
var titles = map[string]string{
	leaseapi.ProblemBadRequest:     "the request is not valid",
	leaseapi.ProblemUnknownRequest: "no such request",
	leaseapi.ProblemEnded:          "the request has ended",
	leaseapi.ProblemLost:           "a lease is lost",
	leaseapi.ProblemConflict:       "the request id is taken",
	leaseapi.ProblemQueueFull:      "the queue is full",
	leaseapi.ProblemShareUsed:      "the caller has its share",
	leaseapi.ProblemUnavailable:    "the server is unavailable",
	leaseapi.ProblemMethod:         "method not allowed",
	leaseapi.ProblemNotFound:       "no such path",
	leaseapi.ProblemUnauthorized:   "no valid token",
	leaseapi.ProblemForbidden:      "not allowed",
	leaseapi.ProblemUnknownName:    "no such name",
	leaseapi.ProblemReserved:       "reserved by another",
	leaseapi.ProblemNotHeld:        "not held",
	leaseapi.ProblemUnknownType:    "no such pool",
	leaseapi.ProblemRemoved:        "removed by an operator",
	leaseapi.ProblemNotQueued:      "not queued",
	leaseapi.ProblemSeveral:        "several requests",
	leaseapi.ProblemNoStore:        "no store",
	leaseapi.ProblemNotLeader:      "another server leads",
	leaseapi.ProblemExhausted:      "nothing that fits is free",
	leaseapi.ProblemCoalesced:      "another's run stood for it",
	leaseapi.ProblemSuperseded:     "a newer request took its place",
	leaseapi.ProblemNoRoom:         "not enough units are free",
	leaseapi.ProblemTooMany:        "more than the pool has",
	leaseapi.ProblemStale:          "the lease holds another number of units, or was resized since",
	leaseapi.ProblemNoLease:        "the request has no lease",
	leaseapi.ProblemNotCounted:     "the lease cannot be resized",
}

func badRequest(w http.ResponseWriter, err error) {
	problem(w, http.StatusBadRequest, leaseapi.ProblemBadRequest, err.Error())
}

// unavailable answers a call that the term refused.
func unavailable(w http.ResponseWriter, err error) {
	if refused, ok := errors.AsType[*notLeaderError](err); ok {
		notLeader(w, refused.election.Leader().URL, refused.standby)
		return
	}
	problem(w, http.StatusServiceUnavailable, leaseapi.ProblemUnavailable, err.Error())
}

// notLeader tells a client who leads, and whether this server stood by when the call
// came. It does not forward the call. It closes the connection, since the next one of a client behind
// a balancer may lead to the leader.
func notLeader(w http.ResponseWriter, leader string, standby bool) {
	detail := "this server does not lead, and nobody is known to: try again soon"
	if leader != "" {
		detail = fmt.Sprintf("this server does not lead: %s does", leader)
	}
	w.Header().Set("Connection", "close")
	writeProblem(w, leaseapi.Problem{
		Type: leaseapi.ProblemNotLeader, Status: http.StatusServiceUnavailable, Detail: detail, Leader: leader, Standby: standby,
	})
}
