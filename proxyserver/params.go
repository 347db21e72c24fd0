package proxyserver

import (
	"fmt"
	"math"
	"net/http"
	"net/url"
	"strconv"
	"time"

	"github.com/leasectl/leasectl/leaseapi"
)

// acquireParams is what an acquire asks for.
type acquireParams struct {
	request
	ours bool // it has a parameter that version 1 does not have
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
	p.Count = 1
	if raw := query.Get(leaseapi.ParamCount); raw != "" {
		n, err := strconv.ParseUint(raw, 10, strconv.IntSize)
		if err != nil {
			http.Error(w, fmt.Sprintf("parameter %q is not valid: %s", leaseapi.ParamCount, raw), http.StatusBadRequest)
			return p, false
		}
		p.Count = int(min(n, math.MaxInt))
	}
	if p.Count == 0 {
		return p, true
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
	for _, name := range []string{leaseapi.ParamOwner, leaseapi.ParamRequestID, leaseapi.ParamTTL, leaseapi.ParamWait} {
		p.ours = p.ours || query.Has(name)
	}
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
	return nil
}

func parseDuration(name string, query url.Values) (time.Duration, error) {
	d, err := time.ParseDuration(query.Get(name))
	if err == nil {
		err = notNegative(name, d)
	}
	if err != nil {
		return 0, fmt.Errorf("parameter %q is not valid: %w", name, err)
	}
	return d, nil
}

func notNegative(name string, d time.Duration) error {
	if d < 0 {
		return fmt.Errorf("%s %v is negative", name, d)
	}
	return nil
}
