package ui

import (
	"errors"
	"fmt"
	"net/http"
	"net/url"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/leasectl/leasectl/internal/pool"
	"github.com/leasectl/leasectl/internal/proxyserver/past"
	"github.com/leasectl/leasectl/leaseapi"
)

// How much a page lists: of pools, of leases and of waiters, of events, and of what a search
// finds. From the server a page gets one more, so that it knows whether more follow.
const (
	poolsAPage  = 100
	rowsAPage   = 100
	namesAPage  = 200
	eventsAPage = 100
	foundAPage  = 100
)

// page returns the page at an address. A live page is for a browser that shows it already.
func (u *UI) page(at *url.URL, operator, live bool) page {
	q := at.Query()
	l := look{term: u.server.Term(), operator: operator, live: live}
	switch {
	case at.Path == "/":
		return l.overview(atoi(q.Get("after")), q.Get("filter"))
	case at.Path == "/ui/events":
		return l.events(q)
	case at.Path == "/ui/find":
		return l.find(q.Get("q"))
	case strings.HasPrefix(at.Path, "/ui/pools/"):
		typ := strings.TrimPrefix(at.Path, "/ui/pools/")
		if typ == "" {
			typ = q.Get("type")
		}
		generation, _ := strconv.ParseUint(q.Get("generation"), 10, 64)
		return l.pool(typ, pool.Part{
			AfterGeneration: generation, Leases: rowsAPage + 1,
			AfterPlace: atoi(q.Get("place")), Waiters: rowsAPage + 1,
		})
	case strings.HasPrefix(at.Path, "/ui/requests/"):
		return l.request(strings.TrimPrefix(at.Path, "/ui/requests/"), at.Query().Get("caller"))
	}
	return notFound("There is no page at " + at.Path + ".")
}

// atoi returns the number in text; zero if there is none, or it is negative.
func atoi(text string) int {
	n, _ := strconv.Atoi(text)
	return max(0, n)
}

func notFound(text string) page {
	return message(http.StatusNotFound, "Not found", text, "/", "All pools")
}

// look makes pages from what a term says.
type look struct {
	term     Term
	operator bool
	live     bool
}

// at runs op on the pools, and returns the page that makePage makes of them then. If the server
// does not answer, the page says why.
func (l look) at(op func(set *pool.Set, now time.Duration), makePage func(v view) page) page {
	v := view{Operator: l.operator, live: l.live}
	err := l.term.Do(func(set *pool.Set, now time.Duration) {
		v.now = now
		op(set, now)
	})
	if err != nil {
		return message(http.StatusServiceUnavailable, "Not available", "The server does not answer: "+err.Error()+".", "", "")
	}
	v.zero = l.term.Zero().Round(100 * time.Millisecond) // so that an unchanged time keeps its text
	return makePage(v)
}

// overview shows some of the pools whose type has the filter in it, those that need somebody first, and skips
// the first after of them.
func (l look) overview(after int, filter string) page {
	var totals []pool.PoolStatus
	return l.at(func(set *pool.Set, now time.Duration) { totals = set.Totals(now) }, func(v view) page {
		data := overview{None: len(totals) == 0, Filter: filter}
		all := make([]poolView, 0, len(totals))
		for _, p := range totals {
			if strings.Contains(strings.ToLower(p.Type), strings.ToLower(filter)) {
				all = append(all, poolView{view: v, PoolStatus: p})
				data.count(all[len(all)-1])
			}
		}
		slices.SortStableFunc(all, func(a, b poolView) int { return b.urgency() - a.urgency() })
		first := min(after, len(all))
		last := min(len(all), first+poolsAPage)
		data.All, data.First, data.Last, data.Many = len(all), first+1, last, len(all) > poolsAPage
		data.Pools, data.Following = all[first:last], min(poolsAPage, len(all)-last)
		for i := range data.Pools {
			data.Pools[i].Waits = l.term.Past().Waits(data.Pools[i].Type)
		}
		return page{
			name: "overview", status: http.StatusOK, Title: "Pools", Live: livePath(query("/", "after", number(after), "filter", filter)),
			Parts: parts("filter", "pools"), data: data,
		}
	})
}

// overview is what the list of pools shows.
type overview struct {
	Filter                         string // what the types of these pools have in them
	None                           bool   // there are no pools at all
	Blocked, Full, Paused, Waiting int    // pools in these states, and requests, of all that the filter leaves
	Pools                          []poolView
	First, Last, All               int  // which of all pools these are, from 1
	Many                           bool // the list is in pieces
	Following                      int  // how many the next piece has
}

func (o *overview) count(p poolView) {
	o.Waiting += p.Waiting
	switch p.State() {
	case "blocked":
		o.Blocked++
	case "full":
		o.Full++
	case "paused":
		o.Paused++
	}
}

// pool shows one pool, with a part of its leases and waiters.
func (l look) pool(typ string, part pool.Part) page {
	var p pool.PoolStatus
	var names []pool.NameStatus
	known := false
	return l.at(func(set *pool.Set, now time.Duration) {
		p, known = set.Pool(now, typ, part)
		names = set.NameStatuses(now, typ, namesAPage)
	}, func(v view) page {
		if !known {
			return notFound("There is no pool of type " + typ + ".")
		}
		shown := poolView{view: v, PoolStatus: p, Waits: l.term.Past().Waits(typ), Names: names}
		if leaseapi.IsMemory(p.Unit) { // before a reload the unit may have been another
			shown.Peaks = l.term.Peaks(typ)
		}
		return poolPage(shown, part, l.term.Past().Day(p))
	})
}

// poolData is what the page of a pool shows.
type poolData struct {
	poolView
	Charts     charts
	Queue      queueView
	QueueNext  string // where the next places are; empty: there are none
	Held       leasesView
	HeldBefore bool   // all leases come before this page
	HeldNext   string // where the next leases are; empty: there are none
}

// poolPage shows p, of which part says which leases and waiters it has.
func poolPage(p poolView, part pool.Part, day past.Day) page {
	here := poolPath(p.Type)
	waiters, leases := p.Waiters[:min(len(p.Waiters), rowsAPage)], p.Leases[:min(len(p.Leases), rowsAPage)]
	data := poolData{
		poolView: p, Charts: chartsOf(day), Queue: p.queue(waiters, p.PoolStatus),
		Held: p.leases("Leases of "+p.Type+" that are held", leases, p.PoolStatus), HeldBefore: part.AfterGeneration > 0 && p.InUse > 0,
	}
	if len(p.Waiters) > len(waiters) {
		data.QueueNext = query(here, "place", part.AfterPlace+len(waiters)) + "#queue"
	}
	if len(p.Leases) > len(leases) {
		data.HeldNext = query(here, "generation", leases[len(leases)-1].Generation) + "#held"
	}
	return page{
		name: "pool", status: http.StatusOK, Title: p.Type,
		Live:  livePath(query(here, "place", number(part.AfterPlace), "generation", number(part.AfterGeneration))),
		Parts: parts("state", "held", "queue", "names", "reserved", "limit", "peaks", "charts", "more"), data: data,
	}
}

// request shows where a request stands, or if several callers have one with the id, all of them.
func (l look) request(plain, caller string) page {
	id := pool.BindID(caller, plain)
	data := requestData{Request: pool.Request{ID: id}}
	known := false
	several := (*pool.SeveralError)(nil)
	shown := l.at(func(set *pool.Set, now time.Duration) {
		one, err := pool.One(set.Called(now, plain), caller)
		if several, _ = errors.AsType[*pool.SeveralError](err); err != nil {
			return
		}
		id = one.ID
		data.Status, known = set.Status(now, id)
		if request, arrived, ok := set.Request(now, id); ok {
			data.Request, data.Arrived = request, arrived
			data.Pool.PoolStatus, _ = set.Pool(now, request.Type, pool.Part{})
		}
	}, func(v view) page {
		events := l.term.Past().Find(eventsAPage, func(e past.Event) bool {
			return e.RequestID == id || caller == "" && !known && pool.PlainID(e.RequestID) == plain
		})
		if (!known && len(events) == 0) || leaseapi.CheckRequestID(plain) != nil {
			return notFound(fmt.Sprintf("No request %s is known: it never came, or it ended more than %s ago.", plain, leaseapi.Duration(pool.EndedKept)))
		}
		data.view, data.Pool.view = v, v
		data.Leases = v.leases("Leases of this request", data.Status.Leases, data.Pool.PoolStatus)
		data.Events = v.events(events)
		return page{
			name: "request", status: http.StatusOK, Title: "Request " + plain, Live: livePath(RequestPath(id)),
			Parts: parts("request", "events"), data: data,
		}
	})
	if several != nil {
		return l.find(plain)
	}
	return shown
}

// requestData is what the page of a request shows.
type requestData struct {
	view
	pool.Request // without a type if it has ended
	Arrived      time.Duration
	Status       pool.Status
	Pool         poolView
	Leases       leasesView
	Events       []eventView // those of this request
}

// The states of a request.
func (r requestData) Waits() bool   { return r.Status.State == pool.StateQueued || r.Joined() }
func (r requestData) Joined() bool  { return r.Status.State == pool.StateJoined }
func (r requestData) Granted() bool { return r.Status.State == pool.StateGranted }

// Removed returns why an operator removed the request; empty if none did.
func (r requestData) Removed() string {
	if removed, ok := errors.AsType[*pool.RemovedError](r.Status.Why); ok {
		return leaseapi.Printable(removed.Reason)
	}
	return ""
}

// Unconfirmed reports whether the request has ended because nobody confirmed its lease.
func (r requestData) Unconfirmed() bool { return errors.Is(r.Status.Why, pool.ErrUnconfirmed) }

// Why is why the request waits.
func (r requestData) Why() why {
	st := r.Status
	return why{st.Reason, st.Follows, st.Reason.Kind == "", orderWords(st.Order)}
}

// Expected is how long the request may still wait.
func (r requestData) Expected() estimate { return r.estimate(r.Status.Estimate, r.Status.EstimateMax) }

// find shows which leases and waiters a text finds.
func (l look) find(text string) page {
	var found []pool.Found
	sought := strings.TrimSpace(text) != ""
	return l.at(func(set *pool.Set, now time.Duration) {
		if sought {
			matches := matching(text)
			found = set.Find(now, foundAPage+1, func(holder, id, name string) bool {
				_, owner := pool.SplitOwner(holder)
				return matches(owner, pool.PlainID(id), name)
			})
		}
	}, func(v view) page {
		data := findData{Text: text, Sought: sought, More: len(found) > foundAPage}
		for _, f := range found[:min(len(found), foundAPage)] {
			row := foundView{Type: f.Type}
			if l := f.Lease; l != nil {
				row.Owner, row.State, row.ID, row.Since = l.Owner, "holds "+l.Name, l.RequestID, v.For(l.Granted)
			} else {
				w := f.Waiter
				row.Owner, row.State, row.Since = w.Owner, fmt.Sprint("waits at place ", w.Place), v.For(w.Arrived)
				if !w.Anonymous {
					row.ID = w.ID
				}
			}
			data.Found = append(data.Found, row)
		}
		return page{name: "find", status: http.StatusOK, Title: "Find my job", Parts: parts("found"), data: data}
	})
}

// findData is what the page of a search shows.
type findData struct {
	Text   string
	Sought bool // Text is not empty
	Found  []foundView
	More   bool // more was found
}

// foundView is a lease or a waiter.
type foundView struct {
	Type, Owner, State string
	ID                 string // of the request; empty: it has no page
	Since              moment
}

// events shows what happened, the newest first.
func (l look) events(q url.Values) page {
	f := filter{What: q.Get("what"), Type: q.Get("type"), Query: q.Get("q")}
	f.Before, _ = strconv.ParseUint(q.Get("before"), 10, 64)
	var types []string
	return l.at(func(set *pool.Set, now time.Duration) {
		for _, p := range set.Totals(now) {
			types = append(types, p.Type)
		}
	}, func(v view) page {
		if f.Type != "" && !slices.Contains(types, f.Type) {
			types = append(types, f.Type)
		}
		data := eventsData{filter: f, Whats: past.Words(), Types: types, Since: v.AgoWall(l.term.Past().Started())}
		found := l.term.Past().Find(eventsAPage+1, f.matches)
		data.Events = v.events(found[:min(len(found), eventsAPage)])
		here := func(before string) string {
			return query("/ui/events", "what", f.What, "type", f.Type, "q", f.Query, "before", before)
		}
		if len(found) > eventsAPage {
			data.Older = here(number(found[eventsAPage-1].Number))
		}
		p := page{
			name: "events", status: http.StatusOK, Title: "Events", Live: livePath(here(number(f.Before))),
			Parts: parts("filter", "events"), data: data,
		}
		p.Parts[0].Fixed = true
		return p
	})
}

// eventsData is what the page of events shows.
type eventsData struct {
	filter
	Whats, Types []string // the choices of the filter
	Events       []eventView
	Older        string // where older events are; empty: there are none
	Since        moment // when the server started
}
