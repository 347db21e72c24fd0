package page

import (
	"time"

	"github.com/leasectl/leasectl/leaseapi"
	"github.com/leasectl/leasectl/pool"
	"github.com/leasectl/leasectl/proxyserver/page/markup"
)

// PoolsAPage is how many pools the overview lists at a time.
const PoolsAPage = 100

// Pool is a pool, with the waits of the requests that were granted in the last day, and with
// what leases of a counted pool asked for and used.
type Pool struct {
	pool.PoolStatus
	Waits Waits
	Peaks *leaseapi.Peaks // nil: nothing is known
}

// Waits is how long requests waited.
type Waits struct {
	Count    int           // of requests; zero: nothing is known
	P50, P95 time.Duration // half of them, and 95 of a hundred, waited no longer
}

func (w Waits) write(b *markup.Builder) {
	if w.Count == 0 {
		b.Put(`<span class="none">none</span>`)
		return
	}
	b.Put(`<span class="nobreak">{}</span> / <span class="nobreak">{}</span>`, Span(w.P50), Span(w.P95))
}

// Overview shows [PoolsAPage] of all pools at most, and skips the first after of them.
func (v View) Overview(pools []Pool, after int) Page {
	p := Page{Title: "Pools", Live: livePath(query("/", "after", number(after)))}
	p.add("pools", func(b *markup.Builder) { v.pools(b, pools, after) })
	return p
}

func (v View) pools(b *markup.Builder, pools []Pool, after int) {
	if len(pools) == 0 {
		b.Put(`<p>There are no pools.</p>`)
		return
	}
	first := min(after, len(pools))
	last := min(len(pools), first+PoolsAPage)
	if len(pools) > PoolsAPage {
		b.Put(`<p class="count">Pools {} to {} of {}</p>`, itoa(first+1), itoa(last), itoa(len(pools)))
	}
	t := newTable(b, "All pools", "Pool", "State", "In use", "Waiting", "Oldest wait", "Waits, last day (p50 / p95)", "Next grant")
	for _, p := range pools[first:last] {
		t.row("")
		t.cell("name", func(b *markup.Builder) { b.Put(`<a href="{}"><bdi>{}</bdi></a>`, PoolPath(p.Type), p.Type) })
		t.cell("", func(b *markup.Builder) { writeState(b, p.PoolStatus) })
		t.cell("inuse", func(b *markup.Builder) { v.bar(b, p.PoolStatus) })
		t.text("num", itoa(p.Waiting))
		t.cell("num", func(b *markup.Builder) { v.oldestWait(b, p.PoolStatus) })
		t.cell("num", p.Waits.write)
		t.cell("num", func(b *markup.Builder) { v.nextGrant(b, p.PoolStatus) })
	}
	t.end()
	if last < len(pools) {
		more(b, query("/", "after", itoa(last)), "The next "+many(min(PoolsAPage, len(pools)-last), "pool", "pools"))
	}
}

func (v View) oldestWait(b *markup.Builder, p pool.PoolStatus) {
	if p.Waiting == 0 {
		b.Put(`<span class="none">–</span>`)
		return
	}
	v.lasts(b, v.Now-p.OldestWaiting)
}

func (v View) nextGrant(b *markup.Builder, p pool.PoolStatus) {
	switch {
	case p.Capacity == 0:
		b.Put(`<span class="none">never</span>`)
	case p.Paused != nil:
		b.Put(`when resumed`)
	case p.Lacks > 1:
		b.Put(`when {} more are free`, itoa(p.Lacks))
	case p.InUse >= p.Limit:
		b.Put(`when one is free`)
	case p.Lacks > 0:
		b.Put(`when one more is free`)
	case p.NextGrantIn > 0:
		v.in(b, v.Now+p.NextGrantIn)
	default:
		b.Put(`at once`)
	}
}
