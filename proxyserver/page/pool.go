package page

import (
	"github.com/leasectl/leasectl/leaseapi"
	"github.com/leasectl/leasectl/pool"
	"github.com/leasectl/leasectl/proxyserver/page/markup"
)

// Pool shows one pool. part says which leases and waiters of the pool p has: up to [RowsAPage]
// of each and one more, so that the page knows whether more follow.
func (v View) Pool(p Pool, part pool.Part, day Day) Page {
	here := query(PoolPath(p.Type), "place", number(part.AfterPlace), "generation", number(part.AfterGeneration))
	page := Page{Title: p.Type, Live: livePath(here)}
	page.add("state", func(b *markup.Builder) { v.poolState(b, p) })
	page.add("limit", func(b *markup.Builder) { v.limit(b, p.PoolStatus) })
	page.add("peaks", func(b *markup.Builder) { peaks(b, p) })
	page.add("charts", func(b *markup.Builder) { day.charts(b) })
	page.add("queue", func(b *markup.Builder) { v.queue(b, p.PoolStatus, part) })
	page.add("held", func(b *markup.Builder) { v.held(b, p.PoolStatus, part) })
	page.add("more", func(b *markup.Builder) {
		b.Put(`<p><a href="{}">Events of this pool</a></p>`, query("/ui/events", "type", p.Type))
	})
	return page
}

func (v View) poolState(b *markup.Builder, p Pool) {
	if pause := p.Paused; pause != nil {
		b.Put(`<p class="notice">Paused for `)
		v.lasts(b, pause.Since)
		b.Put(`: <bdi>{}</bdi>. Nothing is granted; leases are renewed and released as ever.</p>`, leaseapi.Printable(pause.Reason))
	}
	b.Put(`<dl class="facts"><div><dt>State</dt><dd>`)
	writeState(b, p.PoolStatus)
	b.Put(`</dd></div><div class="wide"><dt>In use</dt><dd>`)
	v.bar(b, p.PoolStatus)
	b.Put(`</dd></div><div><dt>Waiting</dt><dd>{}</dd></div><div><dt>Oldest wait</dt><dd>`, itoa(p.Waiting))
	v.oldestWait(b, p.PoolStatus)
	b.Put(`</dd></div><div><dt>Waits, last day (p50 / p95)</dt><dd>`)
	p.Waits.write(b)
	b.Put(`</dd></div><div><dt>Next grant</dt><dd>`)
	v.nextGrant(b, p.PoolStatus)
	b.Put(`</dd></div></dl>`)
	if !v.Operator {
		return
	}
	b.Put(`<p class="actions">`)
	if p.Paused != nil {
		b.Put(`<a class="button" href="{}">Resume…</a> `, query("/ui/resume", "type", p.Type))
	} else if p.Capacity > 0 {
		b.Put(`<a class="button" href="{}">Pause…</a>`, query("/ui/pause", "type", p.Type))
	}
	b.Put(`</p>`)
}
