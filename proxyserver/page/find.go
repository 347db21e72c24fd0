package page

import (
	"net/url"
	"slices"
	"strings"

	"github.com/leasectl/leasectl/leaseapi"
	"github.com/leasectl/leasectl/pool"
	"github.com/leasectl/leasectl/proxyserver/page/markup"
)

// FoundAPage is how many leases and waiters a page of a search lists.
const FoundAPage = 100

// Matches returns the condition of a search for text. It holds if the owner contains text or
// the name of the lease is text, whatever the case, or if text is the request id. If text is
// a URL, only the owner counts: the condition holds if the owner contains the URL without
// query and fragment, or if the URL leads to a place below the owner's, such as the log of
// the job. It does not hold if both have a query and a parameter of another value in it: then
// they are two builds of a CI system that tells them apart by the query.
func Matches(text string) func(owner, requestID, name string) bool {
	sought := strings.ToLower(strings.TrimSpace(text))
	below, asked, isURL := job(sought)
	return func(owner, requestID, name string) bool {
		owner = strings.ToLower(owner)
		if isURL {
			_, rest, ok := strings.Cut(owner, below)
			return ok && !contradicts(asked, rest) || isBelow(below, owner)
		}
		return strings.Contains(owner, sought) ||
			requestID == strings.TrimSpace(text) || strings.ToLower(name) == sought
	}
}

// isBelow reports whether the URL at leads to the URL job, or below it.
func isBelow(at, job string) bool {
	job, _, _ = strings.Cut(job, "#")
	job = strings.TrimSuffix(job, "/")
	rest, ok := strings.CutPrefix(at, job)
	return ok && strings.Contains(job, "://") && (rest == "" || rest[0] == '/')
}

// contradicts reports whether rest, which is what follows the path of an owner's URL, has a query
// in which a parameter has other values than in asked.
func contradicts(asked url.Values, rest string) bool {
	text, ok := strings.CutPrefix(strings.TrimPrefix(rest, "/"), "?")
	if !ok {
		return false
	}
	if end := strings.IndexAny(text, "# "); end >= 0 {
		text = text[:end]
	}
	own, _ := url.ParseQuery(text) // leaves out what is malformed
	for name, values := range own {
		if other, both := asked[name]; both && !slices.Equal(values, other) {
			return true
		}
	}
	return false
}

// Find shows what was found for text: up to [FoundAPage] leases and waiters and one more, so
// that the page knows whether there are more.
func (v View) Find(text string, found []pool.Found) Page {
	p := Page{Title: "Find my job"}
	p.add("found", func(b *markup.Builder) {
		switch {
		case strings.TrimSpace(text) == "":
			b.Put(`<p>Paste the URL of a job into the field above, or a part of its owner, its request or the name of its lease.</p>`)
			return
		case len(found) == 0:
			b.Put(`<p class="lead">Nothing that waits or is held has <q><bdi>{}</bdi></q> in its owner.</p><p>It may have ended: look at the <a href="{}">events</a>.</p>`,
				leaseapi.Printable(text), query("/ui/events", "q", text))
			return
		}
		shown := found[:min(len(found), FoundAPage)]
		t := newTable(b, "What was found", "Job", "Pool", "State", "Since")
		for _, f := range shown {
			v.found(t, f)
		}
		t.end()
		if len(found) > len(shown) {
			b.Put(`<p>There are more: a longer part of the owner finds fewer.</p>`)
		}
	})
	return p
}

func (v View) found(t *table, f pool.Found) {
	t.row("")
	t.cell("who", func(b *markup.Builder) {
		if f.Lease != nil {
			writeOwner(b, f.Lease.Owner)
		} else {
			writeOwner(b, f.Waiter.Owner)
		}
	})
	t.cell("name", func(b *markup.Builder) { b.Put(`<a href="{}"><bdi>{}</bdi></a>`, PoolPath(f.Type), f.Type) })
	t.cell("why", func(b *markup.Builder) {
		state, id := "", ""
		if f.Lease != nil {
			state, id = "holds "+f.Lease.Name, f.Lease.RequestID
		} else {
			state = "waits at place " + itoa(f.Waiter.Place)
			if !f.Waiter.Anonymous {
				id = f.Waiter.ID
			}
		}
		if id == "" {
			b.Put(`{}`, state)
			return
		}
		b.Put(`<a href="{}">{}</a>`, RequestPath(id), state)
	})
	t.cell("num", func(b *markup.Builder) {
		if f.Lease != nil {
			v.lasts(b, f.Lease.Granted)
		} else {
			v.lasts(b, f.Waiter.Arrived)
		}
	})
}
