package proxyserver

import (
	"errors"
	"fmt"
	"math"
	"net/http"
	"net/url"
	"strconv"
	"strings"
	"time"
	"unicode"
	"unicode/utf8"

	"github.com/leasectl/leasectl/leaseapi"
	"github.com/leasectl/leasectl/pool"
)

// acquireParams is what an acquire asks for.
type acquireParams struct {
	pool.Request               // Anonymous if it has no request id
	ours         bool          // it has a parameter that version 1 does not have
	wait         time.Duration // how long it may wait from now on; negative: it does not say
}

// parseAcquire reads the parameters of an acquire. For a count of 0 it looks no
// further. After an error the answer has been written: as text where version 1
// knows it, else as a problem.
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
		if err := checkRequestID(p.ID); err != nil {
			return err
		}
	}
	if err := checkOwner(p.Owner); err != nil {
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

func checkRequestID(id string) error {
	if id == "" {
		return errors.New("request_id is empty")
	}
	return checkText("request_id", id, leaseapi.MaxRequestID)
}

func checkOwner(owner string) error {
	return checkText("owner", owner, leaseapi.MaxOwner)
}

// checkText refuses what could not be printed on one line of a log or table.
func checkText(name, text string, limit int) error {
	switch {
	case len(text) > limit:
		return fmt.Errorf("%s is %d bytes long: at most %d", name, len(text), limit)
	case !utf8.ValidString(text):
		return fmt.Errorf("%s is not valid UTF-8", name)
	case strings.ContainsFunc(text, unicode.IsControl):
		return fmt.Errorf("%s contains a control character", name)
	}
	return nil
}
