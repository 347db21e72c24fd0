package proxyserver

import (
	"cmp"
	"errors"
	"fmt"
	"math"
	"net/http"
	"net/url"
	"slices"
	"strconv"
	"strings"
	"time"

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

// parseAcquire reads the parameters of an acquire. After a count of 0 it ignores
// the rest. It answers an error itself, as text if version 1 knows it, else as a
// problem; then ok is false.
func parseAcquire(w http.ResponseWriter, query url.Values) (p *acquireParams, ok bool) {
	p = new(acquireParams)
	p.Type = query.Get(leaseapi.ParamType)
	if p.Type == "" {
		http.Error(w, "type is required", http.StatusBadRequest)
		return p, false
	}
	if raw := query.Get(leaseapi.ParamCount); raw != "" {
		n, err := strconv.ParseUint(raw, 10, strconv.IntSize)
		if err != nil {
			http.Error(w, leaseapi.InvalidParam(leaseapi.ParamCount, raw).Error(), http.StatusBadRequest)
			return p, false
		}
		if p.Count = int(min(n, math.MaxInt)); p.Count == 0 {
			p.nothing = true
			return p, true
		}
	}
	if err := p.parseOurs(query); err != nil {
		badRequest(w, err)
		return p, false
	}
	return p, true
}

func (p *acquireParams) parseOurs(query url.Values) error {
	p.Owner = query.Get(leaseapi.ParamOwner)
	p.ID = query.Get(leaseapi.ParamRequestID)
	p.Anonymous = p.ID == ""
	p.wait = -1
	p.ours = beyondVersion1(query)
	if query.Has(leaseapi.ParamRequestID) {
		if err := leaseapi.CheckRequestID(p.ID); err != nil {
			return err
		}
	}
	if err := leaseapi.CheckOwner(p.Owner); err != nil {
		return err
	}
	var err error
	if query.Has(leaseapi.ParamTTL) {
		if p.TTL, err = parseDuration(leaseapi.ParamTTL, query); err != nil {
			return err
		}
		if err = leaseapi.CheckTTL(p.TTL); err != nil {
			return leaseapi.InvalidParam(leaseapi.ParamTTL, err.Error())
		}
	}
	if query.Has(leaseapi.ParamWait) {
		if p.wait, err = parseDuration(leaseapi.ParamWait, query); err != nil {
			return err
		}
		p.Try = p.wait == 0
	}
	if err := p.parseAsk(query); err != nil {
		return err
	}
	return p.parseReplaces(query)
}

// acquireParameters are all that an acquire may have. The first two are version 1.
var acquireParameters = append([]string{
	leaseapi.ParamType, leaseapi.ParamCount,
	leaseapi.ParamOwner, leaseapi.ParamRequestID, leaseapi.ParamTTL, leaseapi.ParamWait, leaseapi.ParamReplaces,
}, leaseapi.AskParams()...)

// beyondVersion1 reports whether an acquire has a parameter that version 1 does not have.
func beyondVersion1(query url.Values) bool {
	for name := range query {
		if !slices.Contains(acquireParameters[:2], name) {
			return true
		}
	}
	return false
}

// parseQuery returns the parameters of r; r.URL.Query would drop invalid parts silently.
func parseQuery(r *http.Request) (url.Values, error) {
	query, err := url.ParseQuery(r.URL.RawQuery)
	if err != nil {
		return nil, fmt.Errorf("the query is not valid: %w", err)
	}
	return query, nil
}

// acquireQuery returns the parameters of an acquire. Those of version 1 may be there twice: the first counts.
func acquireQuery(r *http.Request) (url.Values, error) {
	query, err := parseQuery(r)
	if err != nil || !beyondVersion1(query) {
		return query, err
	}
	return query, checkParameters(query, acquireParameters)
}

// checkParameters refuses parameters that are not among known: the server could not do what they ask
// for. A newer client must not take its answer for that to what was asked. The same goes for all but the
// first of those with one name.
func checkParameters(query url.Values, known []string) error {
	for name, values := range query {
		switch {
		case !slices.Contains(known, name):
			return fmt.Errorf("unknown parameter %q: this call has %s", leaseapi.Shorten(name), cmp.Or(strings.Join(known, ", "), "none"))
		case len(values) > 1 && name != leaseapi.ParamAlso:
			return fmt.Errorf("parameter %q is there %d times", name, len(values))
		}
	}
	return nil
}

// parseAsk reads what is asked for, beside the type and the count.
func (p *acquireParams) parseAsk(query url.Values) error {
	ask := &leaseapi.Ask{Type: p.Type, Count: p.Count}
	if err := leaseapi.DecodeAsk(ask, query); err != nil {
		return err
	}
	switch {
	case p.Anonymous && len(ask.Also) > 0:
		return errors.New("also goes with a request_id: a client of version 1 knows one type")
	case p.Anonymous && ask.Coalesce != "":
		return errors.New("coalesce goes with a request_id: a client of version 1 knows no end but its own")
	}
	return p.Ask.Set(ask, p.ours)
}

// parseReplaces reads which leases the request takes the place of.
func (p *acquireParams) parseReplaces(query url.Values) error {
	if !query.Has(leaseapi.ParamReplaces) {
		return nil
	}
	if p.Anonymous {
		return errors.New("replaces goes with a request_id: without one, a repeated call would be another request")
	}
	leases, err := leaseapi.ParseReplaces(query.Get(leaseapi.ParamReplaces))
	if err != nil {
		return leaseapi.InvalidParam(leaseapi.ParamReplaces, err.Error())
	}
	for _, l := range leases {
		p.replaces = append(p.replaces, pool.Ref{Name: l.Name, Generation: l.Generation})
	}
	return nil
}

func parseDuration(name string, query url.Values) (time.Duration, error) {
	d, err := time.ParseDuration(query.Get(name))
	if err == nil {
		err = notNegative(name, d)
	}
	if err != nil {
		return 0, leaseapi.InvalidParam(name, err.Error())
	}
	return d, nil
}

func notNegative(name string, d time.Duration) error {
	if d < 0 {
		return fmt.Errorf("%s %v is negative", name, d)
	}
	return nil
}
