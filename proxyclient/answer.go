package proxyclient

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"mime"
	"net/http"
	"strings"
	"time"
	"unicode"

	"github.com/leasectl/leasectl/leaseapi"
)

// answer is a whole HTTP answer, its body read.
type answer struct {
	*http.Response
	body []byte
}

// bodyTime is how long the body may take once the header is there. Answers are
// small and written at once; a peer that stops in the middle has hung.
const bodyTime = 10 * time.Second

// readAnswer reads the body of r and closes it. An error means that the answer
// is not all there, or is more than any proxy has to say.
func readAnswer(r *http.Response) (answer, error) {
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
	}
	return answer{Response: r, body: body}, nil
}

// decode reads the body as one JSON value. The status has to say that it is
// one: the content type is not looked at.
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
			return printable(p.Detail)
		}
		return printable(p.Title)
	}
	t := bytes.TrimSpace(a.body)
	if bytes.HasPrefix(t, []byte("<")) {
		return "an HTML or XML page"
	}
	return printable(string(t))
}

// err describes an answer that is no success.
func (a answer) err() error {
	switch {
	case a.is(leaseapi.ProblemForbidden): // the token is good, but not for this
		return fmt.Errorf("the proxy answered %s: %s", a.Status, a.text())
	case a.StatusCode == http.StatusUnauthorized || a.StatusCode == http.StatusForbidden:
		if a.Request.Header.Get("Authorization") == "" {
			return fmt.Errorf("the proxy wants a token (%s)", a.Status)
		}
		return fmt.Errorf("the proxy refused the token (%s)", a.Status)
	case a.StatusCode/100 == 3:
		if to := a.Header.Get("Location"); to != "" {
			return fmt.Errorf("the proxy answered %s and redirects to %q, which is not followed", a.Status, printable(to))
		}
		return fmt.Errorf("the proxy answered %s, a redirect to nowhere", a.Status)
	}
	if text := a.text(); text != "" {
		return fmt.Errorf("the proxy answered %s: %s", a.Status, text)
	}
	return fmt.Errorf("the proxy answered %s", a.Status)
}

// passing reports whether the answer speaks of a state that may pass, rather
// than of the request: too many requests, or any failure of a server or of
// what stands before it.
func (a answer) passing() bool {
	return a.StatusCode == http.StatusTooManyRequests || a.StatusCode >= 500
}

// begins reports whether the body begins with text.
func (a answer) begins(text string) bool { return bytes.HasPrefix(a.body, []byte(text)) }

// misrouted reports a 404 that is nobody's word on the request: the address is
// wrong, or what stands before the proxy does not find it for now.
func (a answer) misrouted() bool {
	_, problem := a.problem()
	return a.StatusCode == http.StatusNotFound && !problem && !a.begins(leaseapi.TextAcquireFailed)
}

// foreign reports a success that no proxy speaks of: a page, such as that of a
// login before it, or JSON that breaks off.
func (a answer) foreign() bool {
	if a.StatusCode/100 != 2 {
		return false
	}
	t := bytes.TrimSpace(a.body)
	return bytes.HasPrefix(t, []byte("<")) || bytes.HasPrefix(t, []byte("{")) && !json.Valid(t)
}

// maxText is how much of a text of the proxy goes into an error.
const maxText = 300

// printable makes a text of the proxy fit for an error: one short clean line.
func printable(s string) string {
	if len(s) > maxText {
		s = s[:maxText] + "…"
	}
	return strings.Join(strings.Fields(clean(s)), " ")
}

// clean replaces in a text of the proxy, or of another client, what a terminal
// would obey.
func clean(s string) string {
	return strings.Map(func(r rune) rune {
		if !unicode.IsPrint(r) {
			return ' '
		}
		return r
	}, strings.ToValidUTF8(s, "?"))
}

// checkNames refuses what must not get into a handle, a shell or a terminal,
// and any number of names but want.
func checkNames(names []string, want int) error {
	if len(names) != want {
		return fmt.Errorf("the proxy granted %d names instead of %d", len(names), want)
	}
	seen := make(map[string]bool, len(names))
	for _, n := range names {
		switch {
		case n == "":
			return errors.New("the proxy granted an empty name")
		case len(n) > leaseapi.MaxName:
			return fmt.Errorf("the proxy granted a name of %d bytes; at most %d are allowed", len(n), leaseapi.MaxName)
		case strings.ContainsFunc(n, badInName):
			return fmt.Errorf("the proxy granted a name that is not allowed: %q", n)
		case seen[n]:
			return fmt.Errorf("the proxy granted %q twice", n)
		}
		seen[n] = true
	}
	return nil
}

// badInName: JSON decoding turns invalid UTF-8 into the replacement character.
func badInName(r rune) bool {
	return r == '/' || r == unicode.ReplacementChar || unicode.IsControl(r)
}
