package proxyserver

import (
	"bytes"
	"cmp"
	"encoding/json"
	"errors"
	"fmt"
	"math"
	"net/http"
	"net/url"
	"slices"
	"strconv"
	"strings"
	"time"
	"unicode/utf8"

	"github.com/leasectl/leasectl/internal/pool"
	"github.com/leasectl/leasectl/leaseapi"
)

// acquireParams is what an acquire asks for, and how it is to be answered.
type acquireParams struct {
	acquireRequest
	came time.Time

	nothing      bool // a count of 0: it asks for no leases at all
	refuseToWait bool // there are too many connections
}

// acquireRequest is what an acquire asks of the pools.
type acquireRequest struct {
	pool.Request               // Anonymous if it has no request id
	ours         bool          // it has a parameter that version 1 does not have
	wait         time.Duration // how long it may wait from now on; negative: not said
	by           caller        // who makes it
	keepsNone    bool          // its caller has more than its share of the connections
	crowded      bool          // its connection is needed for others
	untold       bool          // this server has not told it its place
	replaces     []pool.Ref    // leases of its owner that end when it is taken

	// These are set when the pools are asked. They are here, and not in the outcome, since all calls that
	// wait have room for an outcome.
	counted countedTypes // those of its types whose pools are counted
	unit    string       // what a unit of its pool is
	stale   []pool.Stale // those of replaces that had ended before
}

// parseAcquire reads an acquire, of ours or of version 1. It answers an error itself, as text if version 1
// knows it, else as a problem; then ok is false.
func parseAcquire(w http.ResponseWriter, r *http.Request, body []byte) (p *acquireParams, ok bool) {
	p = &acquireParams{}
	query, err := acquireQuery(r)
	switch {
	case err != nil:
	case query.Has(leaseapi.ParamAsk):
		if err = checkNoFields(body); err == nil {
			err = p.readOurs([]byte(query.Get(leaseapi.ParamAsk)))
		}
	case isOurs(r, body):
		takeTurn(w, body)
		err = p.readOurs(body)
		endTurn(w) // before it waits for a lease
	default: // version 1 ignores a body
		return p, p.readVersion1(w, query)
	}
	if err != nil {
		badRequest(w, err)
		return p, false
	}
	return p, true
}

// isOurs reports whether an acquire is its body, beside which the parameters of version 1 count for nothing.
// Version 1 ignores a body, so one beside a query must say that it is JSON.
func isOurs(r *http.Request, body []byte) bool {
	isJSON := r.URL.RawQuery == "" || strings.HasPrefix(r.Header.Get("Content-Type"), contentTypeJSON)
	return isJSON && bytes.HasPrefix(bytes.TrimLeft(body, " \t\r\n"), []byte{'{'})
}

// readVersion1 reads the parameters of version 1. After a count of 0 it ignores the rest. It answers an error
// itself; then ok is false.
func (p *acquireParams) readVersion1(w http.ResponseWriter, query url.Values) (ok bool) {
	p.Anonymous, p.wait = true, -1
	p.Type = query.Get(leaseapi.ParamType)
	if p.Type == "" {
		http.Error(w, "type is required", http.StatusBadRequest)
		return false
	}
	count := 1
	if raw := query.Get(leaseapi.ParamCount); raw != "" {
		n, err := strconv.ParseUint(raw, 10, strconv.IntSize)
		if err != nil {
			http.Error(w, leaseapi.InvalidParam(leaseapi.ParamCount, raw).Error(), http.StatusBadRequest)
			return false
		}
		count = int(min(n, math.MaxInt))
	}
	p.Count, p.nothing = count, count == 0
	return true
}

// readOurs reads a [leaseapi.AcquireRequest].
func (p *acquireParams) readOurs(body []byte) error {
	var r leaseapi.AcquireRequest
	if err := checkSize(body); err != nil {
		return err
	}
	if err := decodeBody(body, &r); err != nil {
		return err
	}
	if err := checkTexts(body); err != nil {
		return err
	}
	if err := leaseapi.CheckAcquire(&r); err != nil {
		return err
	}
	p.ours = true
	p.Type, p.Owner, p.ID, p.TTL = r.Type, r.Owner, r.RequestID, time.Duration(r.TTL)
	p.Anonymous, p.wait = r.RequestID == "", -1
	if r.Wait != nil {
		p.wait = time.Duration(*r.Wait)
		p.Try = p.wait == 0
	}
	for _, l := range r.Replaces {
		p.replaces = append(p.replaces, pool.Ref{Name: l.Name, Generation: l.Generation, Request: l.RequestID})
	}
	return p.Ask.Set(&r.Ask)
}

// checkTexts refuses an acquire with a text that would pass for another, or for none: a script whose variable is
// empty would get a lease without its key.
func checkTexts(body []byte) error {
	if !utf8.Valid(body) {
		return errors.New("the body is not valid UTF-8")
	}
	if !bytes.Contains(body, []byte(`""`)) {
		return nil
	}
	var fields map[string]json.RawMessage
	if err := json.Unmarshal(body, &fields); err != nil {
		return err
	}
	for name, value := range fields {
		if string(value) == `""` && name != "owner" {
			return fmt.Errorf("%s is empty", leaseapi.Shorten(name))
		}
	}
	return nil
}

// parseQuery returns the parameters of r; r.URL.Query would drop invalid parts silently.
func parseQuery(r *http.Request) (url.Values, error) {
	query, err := url.ParseQuery(r.URL.RawQuery)
	if err != nil {
		return nil, fmt.Errorf("the query is not valid: %w", err)
	}
	return query, nil
}

// acquireQuery returns the query of an acquire, which has the parameters of version 1 and [leaseapi.ParamAsk]
// only. Those of version 1 may be there twice: the first counts.
func acquireQuery(r *http.Request) (url.Values, error) {
	query, err := parseQuery(r)
	for name, values := range query {
		switch {
		case name == leaseapi.ParamType, name == leaseapi.ParamCount:
		case name != leaseapi.ParamAsk:
			return nil, fmt.Errorf("unknown parameter %q: a query has type and count; to ask for more, send all of it as JSON in the body", leaseapi.Shorten(name))
		case len(values) > 1:
			return nil, fmt.Errorf("parameter %q is there %d times", name, len(values))
		}
	}
	return query, err
}

// checkParameters refuses parameters that are not among known: the server could not do what they ask
// for. A newer client must not take its answer for that to what was asked. The same goes for all but the
// first of those with one name.
func checkParameters(query url.Values, known []string) error {
	for name, values := range query {
		switch {
		case !slices.Contains(known, name):
			return fmt.Errorf("unknown parameter %q: this call has %s", leaseapi.Shorten(name), cmp.Or(strings.Join(known, ", "), "none"))
		case len(values) > 1:
			return fmt.Errorf("parameter %q is there %d times", name, len(values))
		}
	}
	return nil
}

func notNegative(name string, d time.Duration) error {
	if d < 0 {
		return fmt.Errorf("%s %v is negative", name, d)
	}
	return nil
}
