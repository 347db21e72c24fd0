package proxyclient

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"mime"
	"net/http"
	"strconv"
	"strings"
	"time"

	"github.com/leasectl/leasectl/leaseapi"
)

// answer is a whole HTTP answer, its body read.
type answer struct {
	*http.Response
	body      []byte
	from      string // the proxy, as it may be shown
	through   string // the HTTP proxy on the way to it, which may have given the answer; empty: none
	tokenFile string // that the token was read from; may be empty
}

// outcome is what came of an attempt.
type outcome struct {
	answer         // if err is nil
	err    error   // why there is no whole answer
	sent   bool    // a byte of the request can have left
	heard  bool    // there was an answer, if only a part of one
	cut    bool    // there was no answer yet when the client stopped listening
	asked  Instant // when the attempt began
}

// failed returns what is wrong with an outcome that is no success.
func (o outcome) failed() error {
	if o.err != nil {
		return o.err
	}
	err := o.answer.err()
	if _, ours := o.problem(); o.through != "" && !ours {
		return fmt.Errorf("%w (through %s)", err, o.through)
	}
	return err
}

// onTheWay says through which HTTP proxy the attempt went that came to text.
func (o outcome) onTheWay(text string) string {
	if o.through == "" {
		return text
	}
	return "through " + o.through + ": " + text
}

// transient reports an outcome that may be another if the request is sent
// again.
func (o outcome) transient() bool { return o.err != nil || o.passing() }

// bodyTime is how long the body may take once the header is there. Answers are
// small and written at once; a peer that stops in the middle has hung.
const bodyTime = 10 * time.Second

// readAnswer reads the body of r and closes it. An error means that the answer
// is incomplete, or longer than any that a proxy has reason to send. JSON that breaks
// off is incomplete, too: HTTP/1.0 does not say how long an answer is, so a gateway
// that speaks it passes on the part that it got.
func readAnswer(r *http.Response) (answer, error) {
	if r.StatusCode == http.StatusSwitchingProtocols {
		// What follows is no body, but another protocol, whose end never comes.
		r.Body.Close()
		r.Body = http.NoBody
		return answer{Response: r}, nil
	}
	hung := time.AfterFunc(bodyTime, func() { r.Body.Close() })
	body, err := io.ReadAll(io.LimitReader(r.Body, leaseapi.MaxBody+1))
	hung.Stop()
	r.Body.Close()
	r.Body = http.NoBody // retryablehttp drains it once more
	switch {
	case err != nil:
		return answer{}, fmt.Errorf("read the answer: %w", err)
	case len(body) > leaseapi.MaxBody:
		return answer{}, fmt.Errorf("read the answer: longer than %d bytes", leaseapi.MaxBody)
	case breaksOff(body):
		return answer{}, fmt.Errorf("read the answer: %w", io.ErrUnexpectedEOF)
	}
	return answer{Response: r, body: body}, nil
}

// breaksOff reports whether body is the beginning of an object in JSON, and no more.
func breaksOff(body []byte) bool {
	if !brokenObject(body) {
		return false
	}
	err := json.NewDecoder(bytes.NewReader(body)).Decode(new(json.RawMessage))
	return errors.Is(err, io.ErrUnexpectedEOF)
}

// brokenObject reports whether body begins as an object in JSON does, and is none.
func brokenObject(body []byte) bool {
	text := bytes.TrimSpace(body)
	return bytes.HasPrefix(text, []byte("{")) && !json.Valid(text)
}

// decode reads the body as one JSON value, whatever its content type: version 1
// does not always set one.
func (a answer) decode(v any) error {
	if err := json.Unmarshal(a.body, v); err != nil {
		return fmt.Errorf("the answer %s is not as expected: %q", a.Status, a.text())
	}
	return nil
}

// problem returns the body as one of our server's problems. Other software
// answers application/problem+json too, hence the look at the type.
func (a answer) problem() (p leaseapi.Problem, ok bool) {
	t, _, err := mime.ParseMediaType(a.Header.Get("Content-Type"))
	if err != nil || t != leaseapi.ContentTypeProblem {
		return p, false
	}
	if json.Unmarshal(a.body, &p) != nil || !strings.HasPrefix(p.Type, "urn:leasectl:problem:") {
		return leaseapi.Problem{}, false
	}
	return p, true
}

// is reports whether the answer is our server's problem of type t.
func (a answer) is(t string) bool {
	p, ok := a.problem()
	return ok && p.Type == t
}

// text is what the answer says to a person, on one short line.
func (a answer) text() string {
	if p, ok := a.problem(); ok {
		if p.Detail != "" {
			return shortLine(p.Detail)
		}
		return shortLine(p.Title)
	}
	if a.isPage() {
		return "an HTML or XML page"
	}
	t := string(bytes.TrimSpace(a.body))
	if at := strings.LastIndex(t, "Released:"); at > 0 && a.begins(leaseapi.TextReleaseFailed) {
		t = strings.TrimRight(t[:at], " \n.,") // what was released before is in the reply of [Client.Release]
	}
	return shortLine(t)
}

// err describes an answer that is no success.
func (a answer) err() error {
	switch {
	case a.is(leaseapi.ProblemNotLeader):
		p, _ := a.problem()
		return &NotLeaderError{Leader: leaseapi.Printable(p.Leader), text: fmt.Sprintf("the proxy answered %s: %s", a.Status, a.text())}
	case a.is(leaseapi.ProblemForbidden): // the token is good, but not for this
		return fmt.Errorf("the proxy answered %s: %s", a.Status, a.text())
	case a.StatusCode == http.StatusUnauthorized || a.StatusCode == http.StatusForbidden:
		if a.Request.Header.Get("Authorization") == "" {
			return fmt.Errorf("%w (%s)", ErrNoToken, a.Status)
		}
		if a.tokenFile != "" {
			return fmt.Errorf("the proxy %s refused the token of %s (%s)", a.from, a.tokenFile, a.Status)
		}
		return fmt.Errorf("the proxy %s refused the token (%s)", a.from, a.Status)
	case a.wantsTLS():
		return fmt.Errorf("the proxy %s answered %s: %w", a.from, a.Status, ErrWantsTLS)
	case a.redirects():
		if to := a.Header.Get("Location"); to != "" {
			return fmt.Errorf("the proxy answered %s and redirects to %q, which is not followed", a.Status, shortLine(to))
		}
		return fmt.Errorf("the proxy answered %s, a redirect to nowhere", a.Status)
	}
	if text := a.text(); text != "" {
		return fmt.Errorf("the proxy answered %s: %s", a.Status, text)
	}
	return fmt.Errorf("the proxy answered %s", a.Status)
}

// wantsTLS reports an answer to http of what speaks https: as net/http answers on a port
// for https, or a redirect to the same host and port. The one of another port has to be read.
func (a answer) wantsTLS() bool {
	if a.StatusCode/100 != 3 {
		return a.StatusCode == http.StatusBadRequest && a.begins("Client sent an HTTP request to an HTTPS server")
	}
	to, err := a.Location()
	return err == nil && to.Scheme == "https" && a.Request.URL.Scheme == "http" && strings.TrimSuffix(to.Host, ":443") == a.Request.URL.Host
}

// redirects reports an answer that sends the caller elsewhere, as to a page to log in at.
func (a answer) redirects() bool { return a.StatusCode/100 == 3 && !a.wantsTLS() }

// neverGranted is the error of an acquire that a server of ours refuses for good since the
// pool cannot grant it, or nil.
func (a answer) neverGranted(typ string) error {
	begin := leaseapi.TextAcquireFailed + strconv.Quote(leaseapi.Shorten(typ)) + ": "
	if a.StatusCode != http.StatusBadRequest || !a.begins(begin) {
		return nil
	}
	text := shortLine(strings.TrimSpace(string(a.body[len(begin):])))
	return &reworded{text: fmt.Sprintf("no lease of type %q: %s", typ, text), err: ErrNeverGranted}
}

// notLeader reports the answer of a server that does not lead.
func (o outcome) notLeader() bool { return o.err == nil && o.is(leaseapi.ProblemNotLeader) }

// standby reports the answer of a server that did nothing of the call, since it stood by.
func (a answer) standby() bool {
	p, _ := a.problem()
	return a.StatusCode == http.StatusServiceUnavailable && p.Type == leaseapi.ProblemNotLeader && p.Standby
}

// passing reports whether the answer tells of a state that may pass, not of the
// request: too many requests, or any failure of a server or gateway.
func (a answer) passing() bool {
	return a.StatusCode == http.StatusTooManyRequests || a.StatusCode >= 500
}

// busy reports a failure that is the proxy's own word that it has nothing to
// give now: it works as it should.
func (a answer) busy() bool {
	return a.is(leaseapi.ProblemQueueFull) || a.is(leaseapi.ProblemExhausted) || a.begins(leaseapi.TextAcquireFailed) && leaseapi.SaysExhausted(string(a.body))
}

// begins reports whether the body begins with text.
func (a answer) begins(text string) bool { return bytes.HasPrefix(a.body, []byte(text)) }

// misrouted reports a 404 that no lease proxy wrote: the address is wrong, or a
// gateway does not find the proxy for now.
func (a answer) misrouted() bool {
	_, problem := a.problem()
	return a.StatusCode == http.StatusNotFound && !problem && !a.begins(leaseapi.TextAcquireFailed)
}

// foreign reports a success that no lease proxy wrote: a page, such as that of a
// login on the way, or a broken object.
func (a answer) foreign() bool {
	return a.StatusCode/100 == 2 && (a.isPage() || brokenObject(a.body))
}

// isPage reports whether the body is HTML or XML.
func (a answer) isPage() bool { return bytes.HasPrefix(bytes.TrimSpace(a.body), []byte("<")) }

// releaseReply returns our server's reply to a release, if the answer is one.
func (a answer) releaseReply() (reply leaseapi.ReleaseReply, ok bool) {
	if a.decode(&reply) != nil || reply.Released == nil {
		return leaseapi.ReleaseReply{}, false
	}
	return reply, true
}
