package page

import (
	"slices"
	"strings"
	"time"

	"github.com/leasectl/leasectl/leaseapi"
	"github.com/leasectl/leasectl/pool"
	"github.com/leasectl/leasectl/proxyserver/page/markup"
)

// EventsAPage is how many events a page lists.
const EventsAPage = 100

// Event is one thing that happened.
type Event struct {
	Number    uint64 // ascending
	At        time.Time
	What      string // in a word, as the log has it
	Type      string
	Holder    string   // the owner as package pool has it, with the name of the token
	Names     []string // the first of NameCount
	NameCount int
	RequestID string // empty: the event has none
	Took      time.Duration
	By        string // the operator whose act caused it; empty: no operator, or not known
	Detail    string
}

// Filter selects events. An empty field selects all.
type Filter struct {
	What, Type string
	Query      string // sought in owner, names and request id, as by [Matches]
	Before     uint64 // only events with a lower number
}

// Matches reports whether f lets e through.
func (f Filter) Matches(e Event) bool {
	if f.What != "" && f.What != e.What || f.Type != "" && f.Type != e.Type || f.Before > 0 && e.Number >= f.Before {
		return false
	}
	if f.Query == "" {
		return true
	}
	matches := Matches(f.Query)
	_, owner := pool.SplitOwner(e.Holder)
	return matches(owner, e.RequestID, "") || slices.ContainsFunc(e.Names, func(name string) bool { return matches("", "", name) })
}

// Events shows events, the newest first: up to [EventsAPage] and one more, so that the page
// knows whether older ones follow. whats and types are the choices of the filter. since is when
// the server started.
func (v View) Events(events []Event, f Filter, whats, types []string, since time.Time) Page {
	here := query("/ui/events", "what", f.What, "type", f.Type, "q", f.Query, "before", number(f.Before))
	p := Page{Title: "Events", Live: livePath(here)}
	p.add("filter", func(b *markup.Builder) { f.form(b, whats, types) })
	p.Parts[0].Fixed = true
	p.add("events", func(b *markup.Builder) {
		shown := events[:min(len(events), EventsAPage)]
		if len(shown) == 0 {
			b.Put(`<p class="none">There are none.</p>`)
		} else {
			v.events(b, shown)
		}
		if len(events) > len(shown) {
			more(b, query("/ui/events", "what", f.What, "type", f.Type, "q", f.Query, "before", utoa(shown[len(shown)-1].Number)), "Older events")
		}
		b.Put(`<p class="note">The server keeps the last thousand since its start, `)
		v.time(b, "ago", since, "", " ago")
		b.Put(`.</p>`)
	})
	return p
}

// form writes the fields of the filter.
func (f Filter) form(b *markup.Builder, whats, types []string) {
	b.Put(`<form class="filter" action="/ui/events"><label>What <select name="what">`)
	options(b, f.What, whats)
	b.Put(`</select></label> <label>Pool <select name="type">`)
	options(b, f.Type, types)
	b.Put(`</select></label> <label>Owner, name or request <input name="q" type="search" maxlength="1024" value="{}"></label> <button>Filter</button></form>`, f.Query)
}

func options(b *markup.Builder, chosen string, all []string) {
	b.Put(`<option value="">all</option>`)
	for _, o := range all {
		if o == chosen {
			b.Put(`<option selected>{}</option>`, o)
		} else {
			b.Put(`<option>{}</option>`, o)
		}
	}
}

// events writes a table of events.
func (v View) events(b *markup.Builder, events []Event) {
	t := newTable(b, "Events, the newest first", "When", "What", "Pool", "Names", "Owner", "Remarks")
	for _, e := range events {
		t.row("")
		t.cell("num", func(b *markup.Builder) { v.time(b, "ago", e.At, "", " ago") })
		t.cell("", func(b *markup.Builder) {
			if e.RequestID == "" {
				b.Put(`<span class="what">{}</span>`, e.What)
			} else {
				b.Put(`<a class="what" href="{}">{}</a>`, RequestPath(e.RequestID), e.What)
			}
			if e.By != "" {
				b.Put(` by <bdi>{}</bdi>`, e.By)
			}
		})
		t.cell("name", func(b *markup.Builder) { b.Put(`<a href="{}"><bdi>{}</bdi></a>`, PoolPath(e.Type), e.Type) })
		t.cell("name", func(b *markup.Builder) {
			b.Put(`<bdi>{}</bdi>`, strings.Join(e.Names, ", "))
			if n := e.NameCount - len(e.Names); n > 0 {
				b.Put(` and {} more`, itoa(n))
			}
		})
		t.cell("who", func(b *markup.Builder) {
			if e.Holder != "" {
				writeOwner(b, e.Holder)
			}
		})
		t.cell("why", func(b *markup.Builder) { b.Put(`<bdi>{}</bdi>`, e.remark()) })
	}
	t.end()
}

// remark says how long a lease was held or a request waited, and gives the detail.
func (e Event) remark() string {
	text := leaseapi.Printable(e.Detail)
	took := ""
	switch {
	case e.Took <= 0:
	case len(e.Names) > 0 && e.What != "granted":
		took = "held for " + Span(e.Took)
	default:
		took = "waited for " + Span(e.Took)
	}
	if text != "" && took != "" {
		return took + ": " + text
	}
	return took + text
}
