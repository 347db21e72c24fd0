package proxyserver

import (
	"bytes"
	"cmp"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"strings"
	"time"

	"github.com/leasectl/leasectl/leaseapi"
)

const (
	// bodyTime is how long a caller that is known may take to send a body of at most
	// [leaseapi.MaxBody]. It bounds how long a slow or silent peer holds a connection.
	bodyTime = 10 * time.Second
	// strangerTime is how long anybody else may take. The server reads nothing of such a body
	// but the form with which a browser signs in.
	strangerTime = time.Second
)

// boundBody bounds the time in which the body of r must come. It is for every request:
// if no handler reads the body, net/http does, and would wait for it without end.
func boundBody(w http.ResponseWriter, r *http.Request, most time.Duration) {
	if r.ContentLength != 0 { // a recorder in a test has no deadlines; a connection always has
		http.NewResponseController(w).SetReadDeadline(time.Now().Add(most))
	}
}

// readBody reads a body of at most [leaseapi.MaxBody], and removes its deadline. It answers an
// error itself; then ok is false.
func readBody(w http.ResponseWriter, r *http.Request) (body []byte, ok bool) {
	return readBodyOf(w, r, leaseapi.MaxBody)
}

// readBodyOf is readBody for a body of at most so many bytes.
func readBodyOf(w http.ResponseWriter, r *http.Request, most int64) (body []byte, ok bool) {
	if r.ContentLength == 0 {
		return nil, true
	}
	inner := w
	if a, ok := w.(*answerWriter); ok {
		inner = a.ResponseWriter // else http.MaxBytesReader could not close the connection
	}
	body, err := readAll(inner, r, most)
	if err == nil {
		// After an error the deadline stays: net/http reads what is left of
		// the body, and must not wait for it either.
		http.NewResponseController(w).SetReadDeadline(time.Time{})
	}
	if tooLarge := (*http.MaxBytesError)(nil); errors.As(err, &tooLarge) {
		problem(w, http.StatusRequestEntityTooLarge, leaseapi.ProblemBadRequest,
			fmt.Sprintf("the body has more than %d bytes", tooLarge.Limit))
		return nil, false
	}
	if errors.Is(err, errBodies) {
		w.Header().Set("Connection", "close") // nobody waits for the rest
		problem(w, http.StatusServiceUnavailable, leaseapi.ProblemUnavailable, err.Error())
		return nil, false
	}
	if err != nil {
		badRequest(w, fmt.Errorf("read the body: %w", err))
		return nil, false
	}
	return body, true
}

// readAll reads the body of r, of at most so many bytes.
func readAll(w http.ResponseWriter, r *http.Request, most int64) ([]byte, error) {
	if r.ContentLength > most {
		return nil, &http.MaxBytesError{Limit: most}
	}
	if r.ContentLength > 0 && r.ContentLength <= usualBody {
		body := make([]byte, r.ContentLength)
		_, err := io.ReadFull(r.Body, body) // the body ends there
		return body, err
	}
	return io.ReadAll(http.MaxBytesReader(w, r.Body, most))
}

// usualBody is the largest body whose memory is allocated at once. A client may announce a
// larger body and never send it.
const usualBody = 4 << 10

// readJSON reads a body into req, and checks it. It answers an error itself; then ok
// is false.
func readJSON(w http.ResponseWriter, r *http.Request, req any, check func() error) (ok bool) {
	body, ok := readBody(w, r)
	if !ok {
		return false
	}
	takeTurn(w, body)
	err := checkSize(body)
	if err != nil {
		badRequest(w, err)
		return false
	}
	if err = decodeBody(body, req); err == nil {
		err = check()
	}
	if err != nil {
		badRequest(w, err)
	}
	return err == nil
}

// errInvalidBody is a body that is not the JSON of its call. Version 1 knows this error.
var errInvalidBody = errors.New("the body is not valid")

// decodeBody reads a body into req, which must have all fields of it: the server could not do what others
// ask for.
func decodeBody(body []byte, req any) error {
	d := json.NewDecoder(bytes.NewReader(body))
	d.DisallowUnknownFields()
	err := d.Decode(req)
	if err == nil {
		if _, err = d.Token(); err == io.EOF {
			return nil
		}
	}
	if invalid := json.Unmarshal(body, req); invalid != nil { // in the words of version 1, and with what follows the value
		return fmt.Errorf("%w: %s", errInvalidBody, leaseapi.Shorten(invalid.Error()))
	}
	err = cmp.Or(err, errInvalidBody)
	return errors.New(leaseapi.Shorten(strings.TrimPrefix(err.Error(), "json: "))) // unknown field "…"
}

// checkNoFields refuses the body of a call that has none, except an empty object.
func checkNoFields(body []byte) error {
	if len(body) == 0 {
		return nil
	}
	return decodeBody(body, new(struct{}))
}
