package page

import (
	"strconv"

	"github.com/leasectl/leasectl/leaseapi"
	"github.com/leasectl/leasectl/pool"
	"github.com/leasectl/leasectl/proxyserver/page/markup"
)

// state returns the state of a pool in a word.
func state(p pool.PoolStatus) string {
	switch {
	case p.Capacity == 0:
		return "draining"
	case p.Paused != nil:
		return "paused"
	case p.InUse >= p.Limit || p.Lacks > 0: // full for the first waiter is full for all
		return "full"
	case p.NextGrantIn > 0:
		return "paced"
	}
	return "free"
}

func writeState(b *markup.Builder, p pool.PoolStatus) {
	word := state(p)
	b.Put(`<span class="state {}">{}</span>`, word, word)
}

// bar writes how much of a pool is in use: as a text, and as a drawing, which screen readers
// skip.
func (v View) bar(b *markup.Builder, p pool.PoolStatus) {
	whole := max(p.Capacity, p.InUse, 1)
	b.Put(`<span class="use"><b>{}</b> of {}</span>`, itoa(p.InUse), itoa(p.Limit))
	if p.Counted {
		b.Put(` <span class="note">{}</span>`, unitsOf(p))
	}
	if p.Limit != p.Capacity && p.Capacity > 0 {
		b.Put(` <span class="note">limit {}, capacity {}</span>`, itoa(p.Limit), itoa(p.Capacity))
	}
	b.Put(`<svg class="bar {}" viewBox="0 0 100 1" preserveAspectRatio="none" aria-hidden="true"><rect class="track" width="100" height="1"/><rect class="used" width="{}" height="1"/>`,
		state(p), percent(p.InUse, whole))
	if p.Limit < p.Capacity {
		b.Put(`<rect class="limit" x="{}" width="0.6" height="1"/>`, percent(p.Limit, whole))
	}
	b.Put(`</svg>`)
	if p.LockDelayed > 0 {
		b.Put(` <span class="note">{} with a lock delay, over `, itoa(p.LockDelayed))
		v.in(b, v.Now+p.LockedFor)
		b.Put(`</span>`)
	}
}

// unitsOf says what a counted pool is counted in.
func unitsOf(p pool.PoolStatus) string {
	if p.Unit == "" {
		return "units"
	}
	return "units of " + leaseapi.Printable(p.Unit)
}

func percent(n, of int) string {
	return strconv.FormatFloat(100*float64(n)/float64(of), 'f', 1, 64)
}
