package proxyserver

import (
	"errors"
	"fmt"
	"math"
	"net/http"
	"net/url"
	"slices"
	"strconv"
	"time"

	"github.com/leasectl/leasectl/leaseapi"
	"github.com/leasectl/leasectl/pool"
)

// acquireParams is what an acquire asks for, and how it is to be answered.
type acquireParams struct {
	acquireRequest
	wire int // wire that the client relies on; zero: not said

	nothing      bool // a count of 0: it asks for no leases at all
	refuseToWait bool // there are too many connections
}

// acquireRequest is what an acquire asks of the pools.
type acquireRequest struct {
	pool.Request               // Anonymous if it has no request id
	ours         bool          // it has a parameter that version 1 does not have
	wait         time.Duration // how long it may wait from now on; negative: not said
	crowded      bool          // its connection is needed for others
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
			http.Error(w, invalidParam(leaseapi.ParamCount, raw).Error(), http.StatusBadRequest)
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
	p.ours = slices.ContainsFunc(oursOnly, query.Has)
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
	}
	if query.Has(leaseapi.ParamWait) {
		if p.wait, err = parseDuration(leaseapi.ParamWait, query); err != nil {
			return err
		}
		p.Try = p.wait == 0
	}
	return p.parseUnits(query)
}

// oursOnly are the parameters that version 1 does not have.
var oursOnly = []string{
	leaseapi.ParamOwner, leaseapi.ParamRequestID, leaseapi.ParamTTL, leaseapi.ParamWait,
	leaseapi.ParamWire, leaseapi.ParamKey, leaseapi.ParamItems, leaseapi.ParamOvercommit,
	leaseapi.ParamCoalesce, leaseapi.ParamVariant, leaseapi.ParamReplaces, leaseapi.ParamPriority,
	leaseapi.ParamKeyMode, leaseapi.ParamAlso, leaseapi.ParamName,
}

// parseUnits reads the parameters of wire 3 and later.
func (p *acquireParams) parseUnits(query url.Values) (err error) {
	invalid := func(name string) error { return invalidParam(name, query.Get(name)) }
	if query.Has(leaseapi.ParamWire) {
		if p.wire, err = strconv.Atoi(query.Get(leaseapi.ParamWire)); err != nil || p.wire < 1 {
			return invalid(leaseapi.ParamWire)
		}
	}
	if query.Has(leaseapi.ParamKey) {
		p.Key = query.Get(leaseapi.ParamKey)
		if err := leaseapi.CheckKey(p.Key); err != nil {
			return err
		}
	}
	if query.Has(leaseapi.ParamItems) {
		if p.Items, err = strconv.Atoi(query.Get(leaseapi.ParamItems)); err != nil {
			return invalid(leaseapi.ParamItems)
		}
		if p.HasItems = true; p.Count > 0 {
			return errors.New("a request has a count or items, not both")
		}
		if err := leaseapi.CheckItems(p.Items); err != nil {
			return err
		}
	}
	if query.Has(leaseapi.ParamOvercommit) {
		if p.Overcommit, err = strconv.ParseBool(query.Get(leaseapi.ParamOvercommit)); err != nil {
			return invalid(leaseapi.ParamOvercommit)
		}
	}
	if query.Has(leaseapi.ParamPriority) {
		if p.Priority, err = strconv.Atoi(query.Get(leaseapi.ParamPriority)); err != nil {
			return invalid(leaseapi.ParamPriority)
		}
		if err := leaseapi.CheckPriority(p.Priority); err != nil {
			return err
		}
	}
	if err := p.parseCoalesce(query); err != nil {
		return err
	}
	if err := p.parseKeyMode(query); err != nil {
		return err
	}
	if err := p.parseName(query); err != nil {
		return err
	}
	if err := p.parseReplaces(query); err != nil {
		return err
	}
	if err := p.parseAlso(query); err != nil {
		return err
	}
	if p.Weighted = p.wire >= wireUnits || p.HasItems; !p.Weighted {
		p.Count = max(p.Count, 1)
	}
	return nil
}

// parseAlso reads which other types the request asks for.
func (p *acquireParams) parseAlso(query url.Values) error {
	if !query.Has(leaseapi.ParamAlso) {
		return nil
	}
	var also []leaseapi.Also
	for _, text := range query[leaseapi.ParamAlso] {
		a, err := leaseapi.ParseAlso(text)
		if err != nil {
			return invalidParam(leaseapi.ParamAlso, err.Error())
		}
		also = append(also, a)
	}
	if err := leaseapi.CheckAlso(p.Type, also); err != nil {
		return invalidParam(leaseapi.ParamAlso, err.Error())
	}
	switch {
	case p.Anonymous:
		return errors.New("also goes with a request_id: a client of version 1 knows one type")
	case p.Name != "":
		return errors.New("also does not go with name: it is one lease")
	case p.Coalesce != 0:
		return errors.New("also does not go with coalesce: runs that merge wait for one pool")
	case p.Overcommit:
		return errors.New("also does not go with overcommit: who waits for several pools exceeds none of them")
	}
	p.Also = pool.JoinAlso(also)
	return nil
}

// parseCoalesce reads how the request merges with others of its key.
func (p *acquireParams) parseCoalesce(query url.Values) (err error) {
	if !query.Has(leaseapi.ParamCoalesce) {
		if query.Has(leaseapi.ParamVariant) {
			return errors.New("a variant goes with coalesce")
		}
		return nil
	}
	if p.Coalesce, err = pool.ParseCoalesce(leaseapi.Shorten(query.Get(leaseapi.ParamCoalesce))); err != nil {
		return err
	}
	if p.Key == "" || p.Anonymous {
		return errors.New("coalesce goes with a key and a request_id")
	}
	p.Variant = query.Get(leaseapi.ParamVariant)
	return leaseapi.CheckVariant(p.Variant)
}

// parseKeyMode reads whether the request shares its key with others that read it, too.
func (p *acquireParams) parseKeyMode(query url.Values) error {
	if !query.Has(leaseapi.ParamKeyMode) {
		return nil
	}
	if p.Key == "" {
		return errors.New("key_mode goes with a key")
	}
	switch query.Get(leaseapi.ParamKeyMode) {
	case leaseapi.KeyRead:
		p.ReadsKey = true
	case leaseapi.KeyWrite:
	default:
		return invalidParam(leaseapi.ParamKeyMode, query.Get(leaseapi.ParamKeyMode))
	}
	if p.ReadsKey && p.Coalesce != 0 {
		return errors.New("coalesce does not go with key_mode read: runs that merge exclude each other")
	}
	return nil
}

// parseName reads which name the request wants.
func (p *acquireParams) parseName(query url.Values) error {
	if !query.Has(leaseapi.ParamName) {
		return nil
	}
	p.Name = query.Get(leaseapi.ParamName)
	if p.Key != "" || p.Count > 1 || p.HasItems || p.Overcommit {
		return errors.New("name goes with a count of one, and not with key, items or overcommit: it is one lease, which nobody else has")
	}
	return leaseapi.CheckName(p.Name)
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
		return invalidParam(leaseapi.ParamReplaces, err.Error())
	}
	for _, l := range leases {
		p.replaces = append(p.replaces, pool.Ref{Name: l.Name, Generation: l.Generation})
	}
	return nil
}

// wireUnits is the first wire on which a count means units.
const wireUnits = 3

func parseDuration(name string, query url.Values) (time.Duration, error) {
	d, err := time.ParseDuration(query.Get(name))
	if err == nil {
		err = notNegative(name, d)
	}
	if err != nil {
		return 0, invalidParam(name, err.Error())
	}
	return d, nil
}

// invalidParam refuses a parameter; what is its value, or the reason.
func invalidParam(name, what string) error {
	return fmt.Errorf("parameter %q is not valid: %s", name, leaseapi.Shorten(what))
}

func notNegative(name string, d time.Duration) error {
	if d < 0 {
		return fmt.Errorf("%s %v is negative", name, d)
	}
	return nil
}
