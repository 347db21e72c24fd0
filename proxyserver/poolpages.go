package proxyserver

import (
	"encoding/json"
	"fmt"
	"net/url"
	"strconv"
	"strings"

	"github.com/leasectl/leasectl/leaseapi"
)

// pageBytes is about how long a page may become. It leaves room below
// [leaseapi.MaxBody], more than which no client of ours reads.
const pageBytes = leaseapi.MaxBody / 2

// position is a place in the list of pools. Leases are in the order of their
// generations and waiters in that of their places, so it stays where it is when
// those before it go.
type position struct {
	pool   int    // its index
	typ    string // of that pool; empty: the list's beginning
	lease  uint64 // the last generation before the position
	waiter int    // the last place before it; zero: the position is among the leases
}

// String returns p for a client, to whom it means nothing.
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
	return p, fmt.Errorf("parameter %q is not valid: it is what an answer gave as next", leaseapi.ParamAfter)
}

// pageParams reads which page a client wants.
func pageParams(query url.Values) (from position, limit int, err error) {
	limit = leaseapi.PageSize
	if raw := query.Get(leaseapi.ParamLimit); raw != "" {
		if limit, err = strconv.Atoi(raw); err != nil || limit < 1 {
			return from, 0, fmt.Errorf("parameter %q is not valid: %s", leaseapi.ParamLimit, raw)
		}
		limit = min(limit, leaseapi.PageSize)
	}
	if raw := query.Get(leaseapi.ParamAfter); raw != "" {
		from, err = parsePosition(raw)
	}
	return from, limit, err
}

// page collects what fits into one answer.
type page struct {
	limit   int // of leases and waiters, and of pools
	entries int
	bytes   int
	pools   []leaseapi.Pool
}

// pageOf returns the page that begins at from, and where the next one does; "" if
// there is none.
func pageOf(pools []leaseapi.Pool, from position, limit int) (page, string) {
	p := page{limit: limit, pools: []leaseapi.Pool{}}
	for i := min(from.pool, len(pools)); i < len(pools); i++ {
		at := position{pool: i, typ: pools[i].Type}
		if i == from.pool && at.typ == from.typ { // else the list has changed
			at = from
		}
		if next := p.add(pools[i], at); next != nil {
			return p, next.String()
		}
	}
	return p, ""
}

// add adds what follows at in one pool, and returns where the page is full; nil if
// it is not.
func (p *page) add(all leaseapi.Pool, at position) *position {
	leases, waiters := all.Leases, all.Waiters
	all.Leases, all.Waiters = []leaseapi.PoolLease{}, nil
	if len(p.pools) >= p.limit || p.full(all) {
		return &at
	}
	p.pools = append(p.pools, all)
	pool := &p.pools[len(p.pools)-1]
	for _, l := range leases {
		if l.Generation <= at.lease {
			continue
		}
		if p.entries >= p.limit || p.full(l) {
			return &at
		}
		p.entries++
		pool.Leases = append(pool.Leases, l)
		at.lease = l.Generation
	}
	for _, w := range waiters {
		if w.Place <= at.waiter {
			continue
		}
		if p.entries >= p.limit || p.full(w) {
			return &at
		}
		p.entries++
		pool.Waiters = append(pool.Waiters, w)
		at.waiter = w.Place
	}
	return nil
}

// full reports whether v does not fit. Something always fits into a page.
func (p *page) full(v any) bool {
	text, _ := json.Marshal(v) // what fails is found by the answer
	if p.entries > 0 && p.bytes+len(text) > pageBytes {
		return true
	}
	p.bytes += len(text)
	return false
}
