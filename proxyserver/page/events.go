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
	Number    uint64 // counts up
	At        time.Time
	What      string // in a word, as the log has it
	Type      string
	Holder    string   // the owner as package pool has it, with the token
	Names     []string // the first of them
	NameCount int
	RequestID string // empty: it has none
	Took      time.Duration
	By        string // the operator whose act caused it; empty: nobody's did, or nobody knows
	Detail    string
}

// Filter is which events somebody looks at. An empty field means all.
type Filter struct {
	What, Type string
	Query      string // in the owner, a name or the request
	Before     uint64 // only events with a lower number; zero: all
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

// Events shows what happened: the newest first. There may be one more than
// [EventsAPage]. whats and types are what one can choose, since is when the server
// started.
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

// events writes a table of them.
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

// remark says how long it took, and why.
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
