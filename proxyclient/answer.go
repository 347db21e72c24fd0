package proxyclient

import (
	"bytes"
	"context"
	"crypto/tls"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"mime"
	"net/http"
	"slices"
	"strconv"
	"strings"
	"time"
	"unicode"
	"unicode/utf8"

	"github.com/leasectl/leasectl/leaseapi"
)

// answer is a whole HTTP answer, with the body read.
type answer struct {
	*http.Response
	body    []byte
	from    string // the proxy's URLs, without passwords
	through string // the HTTP proxy on the way, which may have given the answer; empty: none

	tokenOrigin string // where the token comes from; may be empty
	noToken     error  // why another token cannot be had; nil: nobody looked for one
}

// outcome is the result of an attempt.
type outcome struct {
	answer          // if err is nil
	err     error   // why there is no whole answer
	sent    bool    // a byte of the request can have left
	heard   bool    // there was an answer, or a part of one
	cut     bool    // the client stopped listening before there was an answer
	asked   Instant // when the attempt began
	another bool    // another server of the list has not been asked in this round
}

// failure returns the error of an outcome that is no success.
func (o outcome) failure() error {
	if o.err != nil {
		return o.err
	}
	err := o.answer.statusError()
	if _, ours := o.problem(); o.through != "" && !ours {
		return fmt.Errorf("%w (through %s)", err, o.through)
	}
	return err
}

// onTheWay adds to text, the error of the attempt, the HTTP proxy on the way.
func (o outcome) onTheWay(text string) string {
	if o.through == "" {
		return text
	}
	return "through " + o.through + ": " + text
}

// transient reports whether the outcome may be a better one if the request is sent again.
func (o outcome) transient() bool { return o.err != nil || o.passing() }

// bodyTime is how long the body may take after the header. Answers are small and
// written at once, so a peer that stops in the middle has hung.
const bodyTime = 10 * time.Second

// readAnswer reads the body of r and closes it. An error means that the answer is
// incomplete, longer than [leaseapi.MaxBody], or one that [leaseapi.CheckLists] refuses. Truncated JSON is incomplete, too:
// HTTP/1.0 has no length of an answer, so a gateway that speaks HTTP/1.0 passes on the
// part that it got.
func readAnswer(r *http.Response) (answer, error) {
	if r.StatusCode == http.StatusSwitchingProtocols {
		// After the header comes another protocol, which may never end.
		r.Body.Close()
		r.Body = http.NoBody
		return answer{Response: r}, nil
	}
	hung := time.AfterFunc(bodyTime, func() { r.Body.Close() })
	body, err := io.ReadAll(io.LimitReader(r.Body, leaseapi.MaxBody+1))
	hung.Stop()
	r.Body.Close()
	r.Body = http.NoBody // retryablehttp drains the body again
	switch {
	case err != nil:
		return answer{}, fmt.Errorf("read the answer: %w", err)
	case len(body) > leaseapi.MaxBody:
		return answer{}, fmt.Errorf("read the answer: longer than %d bytes", leaseapi.MaxBody)
	case breaksOff(body):
		return answer{}, fmt.Errorf("read the answer: %w", io.ErrUnexpectedEOF)
	}
	if err := leaseapi.CheckLists(body); err != nil {
		return answer{}, fmt.Errorf("read the answer: %w", err)
	}
	return answer{Response: r, body: body}, nil
}

// breaksOff reports whether body is a truncated JSON object.
func breaksOff(body []byte) bool {
	if !brokenObject(body) {
		return false
	}
	err := json.NewDecoder(bytes.NewReader(body)).Decode(new(json.RawMessage))
	return errors.Is(err, io.ErrUnexpectedEOF)
}

// brokenObject reports whether body begins like a JSON object, but is not valid JSON.
func brokenObject(body []byte) bool {
	text := bytes.TrimSpace(body)
	return bytes.HasPrefix(text, []byte("{")) && !json.Valid(text)
}

// decode reads the body as one JSON value. It ignores the content type, since version 1
// does not always set one.
func (a answer) decode(v any) error {
	if err := json.Unmarshal(a.body, v); err != nil {
		return fmt.Errorf("the answer %s is not as expected: %q", a.Status, a.text())
	}
	return nil
}

// problem returns the body as one of our server's problems. Other software
// answers application/problem+json too, so problem checks the type.
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

// text returns the answer's text for people, as one short line.
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
		t = strings.TrimRight(t[:at], " \n.,") // the reply of [Client.Release] has these names
	}
	return shortLine(t)
}

// statusError describes an answer that is no success.
func (a answer) statusError() error {
	switch {
	case a.is(leaseapi.ProblemNotLeader):
		p, _ := a.problem()
		return &NotLeaderError{Leader: leaseapi.Printable(p.Leader), text: fmt.Sprintf("the proxy answered %s: %s", a.Status, a.text())}
	case a.is(leaseapi.ProblemForbidden): // the token is valid, but not for this call
		return &reworded{fmt.Sprintf("the proxy answered %s: %s", a.Status, a.text()), ErrRefused}
	case a.StatusCode == http.StatusUnauthorized || a.StatusCode == http.StatusForbidden:
		if a.Request.Header.Get("Authorization") == "" {
			return fmt.Errorf("%w (%s)", ErrNoToken, a.Status)
		}
		text := fmt.Sprintf("the proxy %s refused the token (%s)", a.from, a.Status)
		if a.tokenOrigin != "" {
			text = fmt.Sprintf("the proxy %s refused the token of %s (%s)", a.from, a.tokenOrigin, a.Status)
		}
		if a.noToken != nil {
			text = fmt.Sprintf("%s, and there is no other one: %v", text, a.noToken)
		}
		return &reworded{text, ErrRefused}
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

// wantsTLS reports whether the answer to http means that the server speaks https: the text
// of net/http on a port for https, or a redirect to https on the same host and port. A
// redirect to another port does not count, since the user must see its target.
func (a answer) wantsTLS() bool {
	if a.StatusCode/100 != 3 {
		return a.StatusCode == http.StatusBadRequest && a.begins("Client sent an HTTP request to an HTTPS server")
	}
	to, err := a.Location()
	return err == nil && to.Scheme == "https" && a.Request.URL.Scheme == "http" && strings.TrimSuffix(to.Host, ":443") == a.Request.URL.Host
}

// redirects reports whether the answer sends the caller elsewhere, for example to a login
// page.
func (a answer) redirects() bool { return a.StatusCode/100 == 3 && !a.wantsTLS() }

// neverGranted returns an [ErrNeverGranted] if a server of ours refuses an acquire because
// the pool can never grant it, and nil otherwise.
func (a answer) neverGranted(typ string) error {
	begin := leaseapi.TextAcquireFailed + strconv.Quote(leaseapi.Shorten(typ)) + ": "
	if a.StatusCode != http.StatusBadRequest || !a.begins(begin) {
		return nil
	}
	text := shortLine(strings.TrimSpace(string(a.body[len(begin):])))
	return &reworded{text: fmt.Sprintf("no lease of type %q: %s", typ, text), err: ErrNeverGranted}
}

// notLeader reports whether the answer is that of a server that does not lead.
func (o outcome) notLeader() bool { return o.err == nil && o.is(leaseapi.ProblemNotLeader) }

// untrusted reports whether the certificate of the server could not be verified.
func (o outcome) untrusted() bool {
	_, untrusted := errors.AsType[*tls.CertificateVerificationError](o.err)
	return untrusted
}

// instead reports whether something else than a server of ours wrote the answer, such as a gateway
// that does not reach it, and another time the server may answer.
func (a answer) instead() bool {
	_, problem := a.problem()
	ours := problem || a.Header.Get(leaseapi.HeaderWire) != "" || a.begins(leaseapi.TextAcquireFailed)
	return !ours && (a.passing() || a.misrouted() || a.foreign())
}

// standby reports whether the server did nothing of the call, since it stood by.
func (a answer) standby() bool {
	p, _ := a.problem()
	return a.StatusCode == http.StatusServiceUnavailable && p.Type == leaseapi.ProblemNotLeader && p.Standby
}

// passing reports whether the answer is about a state that may pass, not about the
// request: too many requests, or any failure of a server or gateway.
func (a answer) passing() bool {
	return a.StatusCode == http.StatusTooManyRequests || a.StatusCode >= 500
}

// busy reports whether the proxy itself says that nothing is free now. Such a proxy
// works as it should.
func (a answer) busy() bool {
	return a.is(leaseapi.ProblemQueueFull) || a.is(leaseapi.ProblemShareUsed) || a.is(leaseapi.ProblemExhausted) || a.begins(leaseapi.TextAcquireFailed) && leaseapi.SaysExhausted(string(a.body))
}

// begins reports whether the body begins with text.
func (a answer) begins(text string) bool { return bytes.HasPrefix(a.body, []byte(text)) }

// misrouted reports whether the answer is a 404 that no lease proxy wrote: the address is
// wrong, or a gateway does not find the proxy at the moment.
func (a answer) misrouted() bool {
	_, problem := a.problem()
	return a.StatusCode == http.StatusNotFound && !problem && !a.begins(leaseapi.TextAcquireFailed)
}

// foreign reports whether the answer is a success that no lease proxy wrote: a page, such
// as a login page on the way, or a broken object.
func (a answer) foreign() bool {
	return a.StatusCode/100 == 2 && (a.isPage() || brokenObject(a.body))
}

// isPage reports whether the body is HTML or XML.
func (a answer) isPage() bool { return bytes.HasPrefix(bytes.TrimSpace(a.body), []byte("<")) }

// releaseReply returns our server's reply to a release, if the answer is one. What cannot be the name of
// a lease is left out: released names are printed for scripts.
func (a answer) releaseReply() (reply leaseapi.ReleaseReply, ok bool) {
	if a.decode(&reply) != nil || reply.Released == nil {
		return leaseapi.ReleaseReply{}, false
	}
	return onlyNames(reply, func(name string) bool { return leaseapi.CheckName(name) == nil }), true
}

// onlyNames returns a reply to a release without the names that keep refuses, and with reasons that can be
// printed.
func onlyNames(reply leaseapi.ReleaseReply, keep func(name string) bool) leaseapi.ReleaseReply {
	reply.Released = slices.DeleteFunc(reply.Released, func(name string) bool { return !keep(name) })
	for _, list := range []*[]leaseapi.Lost{&reply.Stale, &reply.Over} {
		*list = slices.DeleteFunc(*list, func(l leaseapi.Lost) bool { return !keep(l.Name) })
		for i := range *list {
			(*list)[i].Reason = shortLine((*list)[i].Reason)
		}
	}
	return reply
}

// failure returns the error of a call without success. If the call's time ended in the
// middle of an attempt, the error is the proxy's answer to the attempt before, if that was
// answered.
func (c *Client) failure(ctx context.Context, o outcome, p *patience) error {
	err := o.failure()
	if errors.Is(o.err, ErrNoTokenGiven) { // which is not the proxy's fault
		return because(ctx, err)
	}
	if !hopeless(o.err) && (p.exhausted() || o.err != nil && (p.ended() || timedOut(ctx))) {
		if t, _ := p.troubled(); o.cut && t.answered {
			return &FailingError{because(ctx, t.last)}
		}
		return c.unreachable(ctx, o, p)
	}
	if timedOut(ctx) {
		return &FailingError{because(ctx, err)}
	}
	return because(ctx, err)
}

// because returns err. If ctx has ended, the error also wraps the cause of ctx, and its
// text has the cause if that adds anything.
func because(ctx context.Context, err error) error {
	if ctx.Err() == nil || errors.Is(err, ctx.Err()) {
		return err
	}
	cause := context.Cause(ctx)
	if cause == ctx.Err() || cause == context.DeadlineExceeded || strings.Contains(err.Error(), cause.Error()) {
		return &reworded{text: err.Error(), err: errors.Join(err, cause)}
	}
	return fmt.Errorf("%w (%w)", err, cause)
}

// timedOut reports whether ctx ended by a deadline: its own, or one that was set later
// with a [context.CancelCauseFunc] and [context.DeadlineExceeded].
func timedOut(ctx context.Context) bool {
	return errors.Is(ctx.Err(), context.DeadlineExceeded) || errors.Is(context.Cause(ctx), context.DeadlineExceeded)
}

// unreachable returns the error for a proxy that gave no good answer. o is the last
// attempt, which shows nothing about the proxy if ctx cut it short.
func (c *Client) unreachable(ctx context.Context, o outcome, p *patience) error {
	err := o.failure()
	u := &UnreachableError{Proxy: c.name, Refused: !o.sent && !o.heard, Err: err}
	if t, is := p.troubled(); is {
		u.Refused, u.Errors = t.refused, t.errors && o.err == nil
	}
	ended := ctx.Err() != nil
	switch {
	case o.cut && !o.sent:
		u.text = o.onTheWay("no connection in time")
	case ended && (errors.Is(err, context.Canceled) || errors.Is(err, context.DeadlineExceeded)):
		u.text = o.onTheWay("no answer in time")
	default:
		u.text = err.Error()
	}
	if ended {
		u.Err = errors.Join(err, context.Cause(ctx)) // for errors.Is
	}
	return u
}

// maxText is how many bytes of the proxy's text an error may have.
const maxText = 300

// shortLine makes the proxy's text fit for an error: one short printable line.
func shortLine(text string) string {
	if len(text) <= maxText {
		return leaseapi.Printable(text)
	}
	return leaseapi.Clip(text, maxText) + "…"
}

// makePrintable makes texts of an answer printable. Those that are stay as they are, since the type of
// a pool may have two spaces in a row.
func makePrintable(texts ...*string) {
	for _, s := range texts {
		if !utf8.ValidString(*s) || strings.Contains(*s, "##") || strings.ContainsFunc(*s, func(r rune) bool { return !unicode.IsPrint(r) }) {
			*s = leaseapi.Printable(*s)
		}
	}
}

// cleanReason makes the texts of a reason printable.
func cleanReason(r *leaseapi.WaitReason) {
	makePrintable(&r.Kind, &r.Name, &r.By, &r.Token, &r.Text, &r.Type)
}

// cleanLease makes the texts of a lease printable.
func cleanLease(l *leaseapi.PoolLease) {
	makePrintable(&l.Name, &l.RequestID, &l.Type, &l.Owner, &l.Token, &l.Key, &l.KeyMode, &l.Broken)
}

func quoted(names []string) string {
	q := make([]string, len(names))
	for i, n := range names {
		q[i] = fmt.Sprintf("%q", n)
	}
	return strings.Join(q, ", ")
}
