package page

import (
	"slices"

	"github.com/leasectl/leasectl/leaseapi"
	"github.com/leasectl/leasectl/pool"
	"github.com/leasectl/leasectl/proxyserver/page/markup"
)

// held shows who holds leases of a pool.
func (v View) held(b *markup.Builder, p pool.PoolStatus, part pool.Part) {
	b.Put(`<h2>Held</h2>`)
	if len(p.Leases) == 0 {
		if part.AfterGeneration > 0 && p.InUse > 0 {
			b.Put(`<p><a href="{}">All that are held are older</a></p>`, PoolPath(p.Type))
			return
		}
		b.Put(`<p class="none">Nothing is held.</p>`)
		return
	}
	shown := p.Leases[:min(len(p.Leases), RowsAPage)]
	v.leases(b, "Leases of "+p.Type+" that are held", shown, p)
	if len(p.Leases) > len(shown) {
		more(b, query(PoolPath(p.Type), "generation", utoa(shown[len(shown)-1].Generation))+"#held", "The next leases")
	}
}

// leases writes a table of leases of p.
func (v View) leases(b *markup.Builder, caption string, leases []pool.Lease, p pool.PoolStatus) {
	heads := []string{"Name", "Owner"}
	units := p.Counted || slices.ContainsFunc(leases, func(l pool.Lease) bool { return l.Units > 1 }) // the pool was counted when they were granted
	if units {
		heads = append(heads, "Units")
	}
	keys := slices.ContainsFunc(leases, func(l pool.Lease) bool { return l.Key != "" })
	if keys {
		heads = append(heads, "Key")
	}
	heads = append(heads, "Held for", "Renewed", "Ends", "Remarks")
	if v.Operator {
		heads = append(heads, "Operate")
	}
	t := newTable(b, caption, heads...)
	for _, l := range leases {
		overdue := p.LongestHold > 0 && v.Now-l.Granted > p.LongestHold
		class := ""
		if overdue {
			class = "overdue"
		}
		t.row(class)
		t.cell("name", func(b *markup.Builder) { b.Put(`<bdi>{}</bdi>`, leaseapi.Printable(l.Name)) })
		t.cell("who", func(b *markup.Builder) { writeOwner(b, l.Owner) })
		if units {
			t.text("num", itoa(l.Units))
		}
		if keys {
			t.cell("key", func(b *markup.Builder) { writeKey(b, l.Key) })
		}
		t.cell("num", func(b *markup.Builder) { v.lasts(b, l.Granted) })
		t.cell("num", func(b *markup.Builder) { v.renewed(b, l) })
		t.cell("num", func(b *markup.Builder) { v.in(b, l.Ends()) })
		t.cell("why", func(b *markup.Builder) { remarks(b, l, overdue) })
		if v.Operator {
			t.cell("operate", func(b *markup.Builder) {
				b.Put(`<a class="button" href="{}">Break…<span class="hidden"> <bdi>{}</bdi></span></a>`,
					query("/ui/break", "name", l.Name, "generation", utoa(l.Generation)), l.Name)
			})
		}
	}
	t.end()
}

// renewed writes when a lease was last renewed.
func (v View) renewed(b *markup.Builder, l pool.Lease) {
	switch at := l.Expires - l.TTL; {
	case l.OfVersion1():
		b.Put(`<span class="none">never (version 1)</span>`)
	case l.Provisional:
		b.Put(`<span class="none">not yet</span>`)
	case l.Extended:
		b.Put(`<span class="none">not since the restart</span>`)
	default:
		v.ago(b, max(at, l.Granted))
	}
}

// remarks writes what is unusual about a lease.
func remarks(b *markup.Builder, l pool.Lease, overdue bool) {
	said := false
	say := func(put func()) {
		if said {
			b.Put("; ")
		}
		said = true
		put()
	}
	if l.Broken != "" {
		say(func() { b.Put(`<strong>broken</strong>: <bdi>{}</bdi>`, leaseapi.Printable(l.Broken)) })
	}
	if l.Draining {
		say(func() { b.Put(`<strong>draining</strong>: its name was taken out, and is not granted again`) })
	}
	if overdue {
		say(func() { b.Put(`<strong>overdue</strong>: held for longer than any other lately`) })
	}
	if l.ReleaseAt > 0 {
		say(func() { b.Put(`is given back at its end, whatever is renewed`) })
	}
	if l.Overcommit {
		say(func() { b.Put(`overcommit: may be over the limit`) })
	}
	if l.Provisional {
		say(func() { b.Put(`not confirmed yet`) })
	}
}
