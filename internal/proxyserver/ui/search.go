package ui

import (
	"net/url"
	"slices"
	"strings"

	"github.com/leasectl/leasectl/internal/pool"
	"github.com/leasectl/leasectl/internal/proxyserver/past"
)

// matching returns the condition of a search for text. It holds if the owner contains text or
// the name of the lease is text, whatever the case, or if text is the request id. If text is
// a URL, only the owner counts: the condition holds if the owner contains the URL without
// query and fragment, or if the URL leads to a place below the owner's, such as the log of
// the job. It does not hold if both have a query and a parameter of another value in it: then
// they are two builds of a CI system that tells them apart by the query.
func matching(text string) func(owner, requestID, name string) bool {
	sought := strings.ToLower(strings.TrimSpace(text))
	below, asked, isURL := job(sought)
	return func(owner, requestID, name string) bool {
		owner = strings.ToLower(owner)
		if isURL {
			_, rest, ok := strings.Cut(owner, below)
			return ok && !contradicts(asked, rest) || isBelow(below, owner)
		}
		return strings.Contains(owner, sought) ||
			requestID == strings.TrimSpace(text) || strings.ToLower(name) == sought
	}
}

// isBelow reports whether the URL at leads to the URL job, or below it.
func isBelow(at, job string) bool {
	job, _, _ = strings.Cut(job, "#")
	job = strings.TrimSuffix(job, "/")
	rest, ok := strings.CutPrefix(at, job)
	return ok && strings.Contains(job, "://") && (rest == "" || rest[0] == '/')
}

// contradicts reports whether rest, which is what follows the path of an owner's URL, has a query
// in which a parameter has other values than in asked.
func contradicts(asked url.Values, rest string) bool {
	text, ok := strings.CutPrefix(strings.TrimPrefix(rest, "/"), "?")
	if !ok {
		return false
	}
	if end := strings.IndexAny(text, "# "); end >= 0 {
		text = text[:end]
	}
	own, _ := url.ParseQuery(text) // leaves out what is malformed
	for name, values := range own {
		if other, both := asked[name]; both && !slices.Equal(values, other) {
			return true
		}
	}
	return false
}

// filter selects events. An empty field selects all.
type filter struct {
	What, Type string
	Query      string // sought in owner, names and request id, as by [matching]
	Before     uint64 // only events with a lower number
}

// matches reports whether f lets e through.
func (f filter) matches(e past.Event) bool {
	if f.What != "" && f.What != e.What || f.Type != "" && f.Type != e.Type || f.Before > 0 && e.Number >= f.Before {
		return false
	}
	if f.Query == "" {
		return true
	}
	matches := matching(f.Query)
	_, owner := pool.SplitOwner(e.Holder)
	return matches(owner, pool.PlainID(e.RequestID), "") || slices.ContainsFunc(e.Names, func(name string) bool { return matches("", "", name) })
}
