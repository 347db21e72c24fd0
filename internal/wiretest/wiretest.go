// Package wiretest has helpers for tests that speak the wire by hand.
package wiretest

import (
	"bytes"
	"encoding/json"
	"io"
	"net/http"
	"net/url"
	"slices"
	"strconv"
	"strings"

	"github.com/leasectl/leasectl/leaseapi"
)

// Asked returns what an acquire of a client of ours asks for. Its body can be read again.
func Asked(r *http.Request) (asked leaseapi.AcquireRequest) {
	text := []byte(r.URL.Query().Get(leaseapi.ParamAsk))
	if len(text) == 0 {
		text, _ = io.ReadAll(r.Body)
		r.Body = io.NopCloser(bytes.NewReader(text))
	}
	json.Unmarshal(text, &asked)
	return asked
}

// Target returns the target of an acquire that a test writes as a query. TYPE and COUNT alone are version 1, and
// stay as they are. With any other parameter the request is ours: all become fields of [leaseapi.ParamAsk]. A
// query that says something twice, and any other target, stays.
func Target(target string) string {
	path, query, _ := strings.Cut(target, "?")
	values, err := url.ParseQuery(query)
	if path != leaseapi.PathAcquire || err != nil || values.Has(leaseapi.ParamAsk) || isVersion1(values) {
		return target
	}
	fields := map[string]any{}
	for name, all := range values {
		if len(all) > 1 && name != leaseapi.ParamAlso {
			return target
		}
		fields[name] = fieldOf(name, all)
	}
	text, err := json.Marshal(fields)
	if err != nil {
		return target
	}
	return path + "?" + url.Values{leaseapi.ParamAsk: {string(text)}}.Encode()
}

func isVersion1(values url.Values) bool {
	for name := range values {
		if name != "type" && name != "count" {
			return false
		}
	}
	return true
}

func fieldOf(name string, values []string) any {
	value := values[0]
	switch {
	case name == "also":
		var also []any
		for _, v := range values {
			typ, n := v, "0"
			if i := strings.LastIndexByte(v, '='); i >= 0 {
				typ, n = v[:i], v[i+1:]
			}
			also = append(also, map[string]any{"type": typ, "count": number(n)})
		}
		return also
	case name == "replaces":
		leases := []any{}
		for v := range strings.SplitSeq(value, ",") {
			i := strings.LastIndexByte(v, ':')
			leases = append(leases, map[string]any{"name": v[:max(i, 0)], "generation": number(v[i+1:])})
		}
		return leases
	case slices.Contains([]string{"count", "items", "priority"}, name):
		return number(value)
	case name == "overcommit":
		if b, err := strconv.ParseBool(value); err == nil {
			return b
		}
	case name == "wait" && value == "0":
		return "0s"
	}
	return value
}

// number returns a text as a number, if it is one.
func number(text string) any {
	if json.Valid([]byte(text)) && strings.Trim(text, "-0123456789") == "" {
		return json.RawMessage(text)
	}
	return text
}
