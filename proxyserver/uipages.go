package proxyserver

import (
	"fmt"
	"net/http"
	"net/url"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/leasectl/leasectl/leaseapi"
	"github.com/leasectl/leasectl/pool"
	"github.com/leasectl/leasectl/proxyserver/page"
	"github.com/leasectl/leasectl/proxyserver/past"
)

// page returns the page at an address, and its HTTP status. A live page is for a browser
// that shows it already.
func (h *handler) page(c caller, at *url.URL, live bool) (page.Page, int) {
	q := at.Query()
	view := viewer{term: h.term(), live: live, operator: h.operates(c)}
	switch {
	case at.Path == "/":
		return view.overview(atoi(q.Get("after")))
	case at.Path == "/ui/events":
		return view.events(q)
	case at.Path == "/ui/find":
		return view.find(q.Get("q"))
	case strings.HasPrefix(at.Path, "/ui/pools/"):
		typ := strings.TrimPrefix(at.Path, "/ui/pools/")
		if typ == "" {
			typ = q.Get("type")
		}
		generation, _ := strconv.ParseUint(q.Get("generation"), 10, 64)
		return view.pool(typ, pool.Part{
			AfterGeneration: generation, Leases: page.RowsAPage + 1,
			AfterPlace: atoi(q.Get("place")), Waiters: page.RowsAPage + 1,
		})
	case strings.HasPrefix(at.Path, "/ui/requests/"):
		return view.request(strings.TrimPrefix(at.Path, "/ui/requests/"))
	}
	return page.Message("Not found", "There is no page at "+at.Path+".", "/", "All pools"), http.StatusNotFound
}

// atoi returns the number in text; zero if there is none, or it is negative.
func atoi(text string) int {
	n, _ := strconv.Atoi(text)
	return max(0, n)
}

// viewer makes pages for one caller.
type viewer struct {
	*term
	live     bool
	operator bool
}

// at is the view at a time of the lease clock.
func (v viewer) at(now time.Duration) page.View {
	// Rounded, so that an unchanged time keeps its text.
	zero := v.clock.read().Add(-v.clock.now()).Round(100 * time.Millisecond)
	return page.View{Clock: page.Clock{Now: now, Zero: zero, Live: v.live}, Operator: v.operator}
}

// look runs op on the pools, and returns the view at that time; false: with a page that
// says why the server does not answer.
func (v viewer) look(op func(set *pool.Set, now time.Duration)) (page.View, page.Page, bool) {
	var at time.Duration
	err := v.do(func(set *pool.Set, now time.Duration) {
		at = now
		op(set, now)
	})
	if err != nil {
		return page.View{}, page.Message("Not available", "The server does not answer: "+err.Error()+".", "", ""), false
	}
	return v.at(at), page.Page{}, true
}

func (v viewer) overview(after int) (page.Page, int) {
	var totals []pool.PoolStatus
	view, failed, ok := v.look(func(set *pool.Set, now time.Duration) { totals = set.Totals(now) })
	if !ok {
		return failed, http.StatusServiceUnavailable
	}
	pools := make([]page.Pool, len(totals))
	for i, p := range totals {
		pools[i].PoolStatus = p
		if i >= after && i < after+page.PoolsAPage {
			pools[i].Waits = v.past.Waits(p.Type)
		}
	}
	return view.Overview(pools, after), http.StatusOK
}

func (v viewer) pool(typ string, part pool.Part) (page.Page, int) {
	var p pool.PoolStatus
	known := false
	view, failed, ok := v.look(func(set *pool.Set, now time.Duration) { p, known = set.Pool(now, typ, part) })
	switch {
	case !ok:
		return failed, http.StatusServiceUnavailable
	case !known:
		return page.Message("Not found", "There is no pool of type "+typ+".", "/", "All pools"), http.StatusNotFound
	}
	shown := page.Pool{PoolStatus: p, Waits: v.past.Waits(typ)}
	if leaseapi.IsMemory(p.Unit) { // before a reload the unit may have been another
		shown.Peaks = v.metrics.Peaks(typ)
	}
	return view.Pool(shown, part, v.past.Day(p)), http.StatusOK
}

func (v viewer) request(id string) (page.Page, int) {
	r := page.Request{Request: pool.Request{ID: id}}
	known := false
	view, failed, ok := v.look(func(set *pool.Set, now time.Duration) {
		if r.Status, known = set.Status(now, id); !known {
			return
		}
		if request, arrived, ok := set.Request(now, id); ok {
			r.Request, r.Arrived = request, arrived
			r.Pool, _ = set.Pool(now, request.Type, pool.Part{})
		}
	})
	if !ok {
		return failed, http.StatusServiceUnavailable
	}
	r.Events = v.past.Find(page.EventsAPage, func(e page.Event) bool { return e.RequestID == id })
	if (!known && len(r.Events) == 0) || leaseapi.CheckRequestID(id) != nil {
		return page.Message("Not found", fmt.Sprintf("No request %s is known: it never came, or it ended more than %s ago.", id, leaseapi.Duration(pool.EndedKept)), "/", "All pools"), http.StatusNotFound
	}
	return view.Request(r), http.StatusOK
}

func (v viewer) find(text string) (page.Page, int) {
	var found []pool.Found
	view, failed, ok := v.look(func(set *pool.Set, now time.Duration) {
		if strings.TrimSpace(text) != "" {
			matches := page.Matches(text)
			found = set.Find(now, page.FoundAPage+1, func(holder, id, name string) bool {
				_, owner := pool.SplitOwner(holder)
				return matches(owner, id, name)
			})
		}
	})
	if !ok {
		return failed, http.StatusServiceUnavailable
	}
	return view.Find(text, found), http.StatusOK
}

func (v viewer) events(q url.Values) (page.Page, int) {
	f := page.Filter{What: q.Get("what"), Type: q.Get("type"), Query: q.Get("q")}
	f.Before, _ = strconv.ParseUint(q.Get("before"), 10, 64)
	var types []string
	view, failed, ok := v.look(func(set *pool.Set, now time.Duration) {
		for _, p := range set.Totals(now) {
			types = append(types, p.Type)
		}
	})
	if !ok {
		return failed, http.StatusServiceUnavailable
	}
	if f.Type != "" && !slices.Contains(types, f.Type) {
		types = append(types, f.Type)
	}
	found := v.past.Find(page.EventsAPage+1, f.Matches)
	return view.Events(found, f, past.Words(), types, v.past.Started()), http.StatusOK
}
