package page

import (
	"github.com/leasectl/leasectl/leaseapi"
	"github.com/leasectl/leasectl/pool"
	"github.com/leasectl/leasectl/proxyserver/page/markup"
)

// limit shows the limit of a pool that adapts, and why it moved last. For any other pool it
// shows the reports, so that the operator who sets the limit sees what the account bears.
func (v View) limit(b *markup.Builder, p pool.PoolStatus) {
	switch {
	case p.Adapt:
		v.moved(b, p)
	case len(p.Tally) > 0:
		tally(b, p)
	}
}

// moved writes the limit, and its last move.
func (v View) moved(b *markup.Builder, p pool.PoolStatus) {
	b.Put(`<h2>Limit</h2><dl class="facts"><div><dt>Limit</dt><dd>{} of {}</dd></div>`, itoa(p.Limit), itoa(p.Capacity))
	if p.Wall > 0 {
		b.Put(`<div><dt>Wall</dt><dd>{}</dd></div>`, itoa(p.Wall))
	}
	m := p.Moved
	if m == (pool.Move{}) {
		b.Put(`<div><dt>Moved</dt><dd class="none">never</dd></div></dl>`)
		return
	}
	b.Put(`<div><dt>Moved</dt><dd>from {} to {}, `, itoa(m.From), itoa(m.To))
	v.ago(b, m.At)
	b.Put(`</dd></div><div><dt>Why</dt><dd>{}`, m.Why())
	if m.Detail != "" {
		b.Put(`: <bdi>{}</bdi>`, leaseapi.Printable(m.Detail))
	}
	b.Put(`</dd></div><div><dt>By the report of</dt><dd>`)
	writeOwner(b, m.Owner)
	b.Put(`</dd></div></dl>`)
}

// tally writes how many leases were reported with which outcome, by limit.
func tally(b *markup.Builder, p pool.PoolStatus) {
	b.Put(`<h2>Reports</h2>`)
	t := newTable(b, "What leases of "+p.Type+" reported, by the limit of that time", "Limit", "OK", "Throttled")
	for _, at := range p.Tally {
		t.row("")
		t.text("num", itoa(at.Limit))
		t.text("num", itoa(at.OK))
		t.text("num", itoa(at.Throttled))
	}
	t.end()
}
