package page

import (
	"fmt"
	"strconv"
	"time"

	"github.com/leasectl/leasectl/leaseapi"
	"github.com/leasectl/leasectl/pool"
	"github.com/leasectl/leasectl/proxyserver/page/markup"
)

// Clock is the time at which a page is made. It turns times on the lease clock into wall-clock
// times.
type Clock struct {
	Now  time.Duration // on the lease clock
	Zero time.Time     // by the wall clock, when the lease clock showed zero
	// Live leaves out how long ago a time was, because the browser counts that by itself. So
	// the text of a time changes only when the time itself does.
	Live bool
}

func (c Clock) wall(at time.Duration) time.Time { return c.Zero.Add(at).UTC() }

// ago writes how long ago at was.
func (c Clock) ago(b *markup.Builder, at time.Duration) { c.time(b, "ago", c.wall(at), "", " ago") }

// lasts writes how long ago at was, without the word ago.
func (c Clock) lasts(b *markup.Builder, at time.Duration) { c.time(b, "for", c.wall(at), "", "") }

// in writes how long it is until at.
func (c Clock) in(b *markup.Builder, at time.Duration) { c.time(b, "in", c.wall(at), "in ", "") }

// until writes what in writes, without the word in.
func (c Clock) until(b *markup.Builder, at time.Duration) { c.time(b, "until", c.wall(at), "", "") }

// time writes the distance between at and now, which live.js keeps up to date.
func (c Clock) time(b *markup.Builder, kind string, at time.Time, before, after string) {
	at = at.UTC().Round(time.Second)
	if c.Live {
		b.Put(`<time datetime="{}" data-is="{}"></time>`, at.Format(time.RFC3339), kind)
		return
	}
	distance := at.Sub(c.wall(c.Now))
	if kind == "ago" || kind == "for" {
		distance = -distance
	}
	text := before + Span(distance) + after
	if kind == "in" && distance < time.Second {
		text = "now"
	}
	b.Put(`<time datetime="{}" data-is="{}" title="{}">{}</time>`, at.Format(time.RFC3339), kind, at.Format("2006-01-02 15:04:05 UTC"), text)
}

// Span returns d as text in its two largest units, rounded down. A negative d counts as zero.
// live.js has the same function.
func Span(d time.Duration) string {
	s := int(max(0, d) / time.Second)
	switch {
	case s < 60:
		return fmt.Sprintf("%d s", s)
	case s < 10*60 && s%60 != 0:
		return fmt.Sprintf("%d min %d s", s/60, s%60)
	case s < 3600:
		return fmt.Sprintf("%d min", s/60)
	case s < 24*3600:
		return fmt.Sprintf("%d h %d min", s/3600, s/60%60)
	}
	return fmt.Sprintf("%d d %d h", s/86400, s/3600%24)
}

// View is for whom a page is made, and when.
type View struct {
	Clock
	Operator bool // show what only an operator may do
}

// writeOwner writes an owner, with the name of its token. An owner that is a URL becomes a link.
func writeOwner(b *markup.Builder, holder string) {
	token, owner := pool.SplitOwner(holder)
	text := leaseapi.Printable(owner)
	href, ok := link(owner)
	switch {
	case ok:
		b.Put(`<a class="owner" href="{}" rel="noreferrer noopener external"><bdi>{}</bdi></a>`, href, text)
	case text == "":
		b.Put(`<span class="owner none">unknown</span>`)
	default:
		b.Put(`<bdi class="owner">{}</bdi>`, text)
	}
	if token != "" {
		b.Put(` <span class="token">token <bdi>{}</bdi></span>`, leaseapi.Printable(token))
	}
}

func itoa(n int) string { return strconv.Itoa(n) }

func utoa(n uint64) string { return strconv.FormatUint(n, 10) }

// number returns n as text for query, and "" for zero, which query leaves out.
func number[N int | uint64](n N) string {
	if n == 0 {
		return ""
	}
	return utoa(uint64(n))
}

// many returns n with a noun.
func many(n int, one, more string) string {
	if n == 1 {
		return "1 " + one
	}
	return itoa(n) + " " + more
}
