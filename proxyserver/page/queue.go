package page

import (
	"slices"
	"time"

	"github.com/leasectl/leasectl/leaseapi"
	"github.com/leasectl/leasectl/pool"
	"github.com/leasectl/leasectl/proxyserver/page/markup"
)

// queue shows who waits for a pool.
func (v View) queue(b *markup.Builder, p pool.PoolStatus, part pool.Part) {
	b.Put(`<h2>Queue</h2>`)
	all := p.Waiting + p.Following
	if len(p.Waiters) == 0 {
		if all > 0 {
			b.Put(`<p>{}, all before this place. <a href="{}">Show them</a></p>`, many(all, "waits", "wait"), PoolPath(p.Type))
			return
		}
		b.Put(`<p class="none">Nobody waits.</p>`)
		return
	}
	shown := p.Waiters[:min(len(p.Waiters), RowsAPage)]
	if len(shown) < all {
		b.Put(`<p class="count">Places {} to {} of {}</p>`, itoa(shown[0].Place), itoa(shown[len(shown)-1].Place), itoa(all))
	}
	v.waiters(b, shown, p)
	if len(p.Waiters) > len(shown) {
		more(b, query(PoolPath(p.Type), "place", itoa(part.AfterPlace+len(shown)))+"#queue", "The next places")
	}
}

// amount is the head of a column of counts, or of units.
func amount(p pool.PoolStatus) string {
	if p.Counted {
		return "Units"
	}
	return "Count"
}

// waiters writes a table of some waiters of p.
func (v View) waiters(b *markup.Builder, waiters []pool.WaiterStatus, p pool.PoolStatus) {
	keys := slices.ContainsFunc(waiters, func(w pool.WaiterStatus) bool { return w.Key != "" })
	heads := []string{"Place", "Owner", "Waits for", amount(p)}
	if keys {
		heads = append(heads, "Key")
	}
	heads = append(heads, "Why it waits", "Estimate")
	if v.Operator {
		heads = append(heads, "Operate")
	}
	t := newTable(b, "Who waits for "+p.Type, heads...)
	for _, w := range waiters {
		t.row("")
		t.cell("num place", func(b *markup.Builder) {
			if w.Anonymous {
				b.Put("{}", itoa(w.Place))
				return
			}
			b.Put(`<a href="{}" title="request {}">{}</a>`, RequestPath(w.ID), w.ID, itoa(w.Place))
		})
		t.cell("who", func(b *markup.Builder) { writeOwner(b, w.Owner) })
		t.cell("num", func(b *markup.Builder) { v.lasts(b, w.Arrived) })
		t.text("num", itoa(w.Units))
		if keys {
			t.cell("key", func(b *markup.Builder) { writeKey(b, w.Key) })
		}
		t.cell("why", func(b *markup.Builder) { writeReason(b, w.Reason, w.KeyHolder, w.Follows, w.Away) })
		t.cell("num", func(b *markup.Builder) { v.estimate(b, w.Estimate, w.EstimateMax) })
		if v.Operator {
			t.cell("operate", func(b *markup.Builder) {
				if !w.Anonymous {
					b.Put(`<a class="button" href="{}">Remove…<span class="hidden"> place {}</span></a>`, query("/ui/remove", "request", w.ID), itoa(w.Place))
				}
			})
		}
	}
	t.end()
}

func writeKey(b *markup.Builder, key string) { b.Put(`<bdi>{}</bdi>`, leaseapi.Printable(key)) }

// writeReason writes why a request waits. keyHolder is the owner that holds its key, and follows
// the id of the request that it has joined; both may be empty. away says that its client is away.
func writeReason(b *markup.Builder, reason, keyHolder, follows string, away bool) {
	switch {
	case follows != "":
		b.Put(`joined <a href="{}">another request</a>, and ends as that does`, RequestPath(follows))
	case reason == leaseapi.WaitKey && keyHolder != "":
		b.Put("key held by ")
		writeOwner(b, keyHolder)
	case reason != "":
		b.Put("{}", leaseapi.Printable(reason))
	}
	if away {
		if reason != "" {
			b.Put("; ")
		}
		b.Put("its client is away: others go first")
	}
}

// estimate writes how long a waiter may still wait: as a range, since nobody knows it exactly.
func (v View) estimate(b *markup.Builder, likely, most time.Duration) {
	switch {
	case most == 0:
		b.Put(`<span class="none">not known</span>`)
	case most-likely < time.Second:
		b.Put("about ")
		v.in(b, v.Now+most)
	default:
		v.in(b, v.Now+likely)
		b.Put(" – ")
		v.until(b, v.Now+most)
	}
}
