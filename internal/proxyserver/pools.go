package proxyserver

import (
	"encoding/json"
	"fmt"
	"net/http"
	"net/url"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/leasectl/leasectl/internal/pool"
	"github.com/leasectl/leasectl/leaseapi"
)

func (h *handler) servePools(c caller, w http.ResponseWriter, r *http.Request) {
	from, limit, err := pageParams(r.URL.Query())
	if err != nil {
		badRequest(w, err)
		return
	}
	t, typ := h.term(), r.URL.Query().Get(leaseapi.ParamType)
	sees := func(other string) bool { return (typ == "" || other == typ) && c.MayUse(other) }
	var pools []pool.PoolStatus
	var names []pool.NameStatus
	if err := t.doInTurn(c.id, func(set *pool.Set, now time.Duration) {
		pools = listed(set, now, sees, from, limit)
		if typ != "" && from == (position{}) {
			names = set.NameStatuses(now, typ, leaseapi.ListedNames)
		}
	}); err != nil {
		unavailable(w, err)
		return
	}
	if typ != "" && len(pools) == 0 {
		problem(w, http.StatusNotFound, leaseapi.ProblemUnknownType, fmt.Sprintf("there is no pool of type %q", leaseapi.Shorten(typ)))
		return
	}
	all := make([]leaseapi.Pool, len(pools))
	for i, p := range pools {
		all[i] = poolOf(t.clock, p)
		if leaseapi.IsMemory(p.Unit) {
			all[i].Peaks = h.metrics.Peaks(p.Type)
		}
		addReports(t.clock, &all[i], p)
		if typ != "" {
			all[i].Names = nameStatusesOf(t.clock, names)
		}
		for k := range all[i].Waiters {
			all[i].Waiters[k].Reason = c.reasonTo(all[i].Waiters[k].Reason)
		}
	}
	page, next := pageOf(all, from, limit)
	answer(w, http.StatusOK, leaseapi.PoolsReply{Pools: page.pools, Next: next, Leader: h.leader()})
}

// pageBytes is about the longest page. It leaves room below [leaseapi.MaxBody], the most
// that our clients read.
const pageBytes = leaseapi.MaxBody / 2

// position is a place in the list of pools. Leases are in the order of their generations, so
// the position stays when leases before it end. Waiters are in the order of their places:
// if one before the position leaves the queue, the next page skips one.
type position struct {
	pool   int    // its index
	typ    string // of that pool; empty: the list's beginning
	lease  uint64 // the last generation before the position
	waiter int    // the last place before it; zero: the position is among the leases
}

// String returns p as a text that is opaque to clients.
func (p position) String() string {
	return fmt.Sprintf("%d.%d.%d.%s", p.pool, p.lease, p.waiter, p.typ)
}

func parsePosition(s string) (p position, err error) {
	parts := strings.SplitN(s, ".", 4)
	if len(parts) == 4 {
		p.typ = parts[3]
		if p.pool, err = strconv.Atoi(parts[0]); err == nil && p.pool >= 0 {
			if p.lease, err = strconv.ParseUint(parts[1], 10, 64); err == nil {
				if p.waiter, err = strconv.Atoi(parts[2]); err == nil {
					return p, nil
				}
			}
		}
	}
	return p, leaseapi.InvalidParam(leaseapi.ParamAfter, "it is what an answer gave as next")
}

// pageParams reads which page a client wants.
func pageParams(query url.Values) (from position, limit int, err error) {
	limit = leaseapi.PageSize
	if raw := query.Get(leaseapi.ParamLimit); raw != "" {
		if limit, err = strconv.Atoi(raw); err != nil || limit < 1 {
			return from, 0, leaseapi.InvalidParam(leaseapi.ParamLimit, raw)
		}
		limit = min(limit, leaseapi.PageSize)
	}
	if raw := query.Get(leaseapi.ParamAfter); raw != "" {
		from, err = parsePosition(raw)
	}
	return from, limit, err
}

// listed returns all pools that the caller sees, with the leases and waiters that may be on the page that begins
// at from, and one more: it says that another page follows.
func listed(set *pool.Set, now time.Duration, sees func(typ string) bool, from position, limit int) []pool.PoolStatus {
	pools := slices.DeleteFunc(set.Totals(now), func(p pool.PoolStatus) bool { return !sees(p.Type) })
	left := limit + 1
	from = from.find(len(pools), func(i int) string { return pools[i].Type })
	for i := from.pool; i < len(pools); i++ {
		p := &pools[i]
		at := from.in(i, p.Type)
		p.Leases = set.Leases(now, p.Type, at.lease, left)
		left -= len(p.Leases)
		p.Waiters = set.Waiters(now, p.Type, at.waiter, left)
		left -= len(p.Waiters)
	}
	return pools
}

// find returns p in a list of n pools as it is now: pools before its own may have come or gone. If its own
// has gone, p stays at its index, where the next pool is now.
func (p position) find(n int, typ func(i int) string) position {
	for i := range n {
		if typ(i) == p.typ {
			p.pool = i
			return p
		}
	}
	p.pool = min(p.pool, n)
	return p
}

// in returns where to go on in the i-th pool of the list, of type typ: at p if p is in that
// pool, else at the pool's beginning, since the list has changed or the pool comes after p.
func (p position) in(i int, typ string) position {
	if i == p.pool && typ == p.typ {
		return p
	}
	return position{pool: i, typ: typ}
}

// poolsPage collects what fits into one answer.
type poolsPage struct {
	limit   int // of leases and waiters, and of pools
	entries int
	bytes   int
	pools   []leaseapi.Pool
}

// pageOf returns the page that begins at from, and the position of the next page; "" if
// there is none.
func pageOf(pools []leaseapi.Pool, from position, limit int) (poolsPage, string) {
	p := poolsPage{limit: limit, pools: []leaseapi.Pool{}}
	from = from.find(len(pools), func(i int) string { return pools[i].Type })
	for i := from.pool; i < len(pools); i++ {
		if next := p.add(pools[i], from.in(i, pools[i].Type)); next != nil {
			return p, next.String()
		}
	}
	return p, ""
}

// add adds a pool with its leases and waiters after at. If the page becomes full, add
// returns where the next page begins, else nil.
func (p *poolsPage) add(all leaseapi.Pool, at position) *position {
	leases, waiters := all.Leases, all.Waiters
	all.Leases, all.Waiters = []leaseapi.PoolLease{}, nil
	if len(p.pools) >= p.limit || !p.takes(all) {
		return &at
	}
	p.pools = append(p.pools, all)
	here := &p.pools[len(p.pools)-1]
	for _, l := range leases {
		if l.Generation <= at.lease {
			continue
		}
		if p.entries >= p.limit || !p.takes(l) {
			return &at
		}
		p.entries++
		here.Leases = append(here.Leases, l)
		at.lease = l.Generation
	}
	for _, w := range waiters {
		if w.Place <= at.waiter {
			continue
		}
		if p.entries >= p.limit || !p.takes(w) {
			return &at
		}
		p.entries++
		here.Waiters = append(here.Waiters, w)
		at.waiter = w.Place
	}
	return nil
}

// takes counts v and returns true if the page has room for v. An empty page always has
// room: a pool, a lease or a waiter takes some kilobytes at most.
func (p *poolsPage) takes(v any) bool {
	text, _ := json.Marshal(v) // an error shows when the answer is encoded
	if p.bytes+len(text) > pageBytes {
		return false
	}
	p.bytes += len(text)
	return true
}
